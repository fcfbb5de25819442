"""Evaluation: one module per table or figure, and `report`, which writes them."""
