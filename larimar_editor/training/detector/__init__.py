"""Training of the scope detector's two stages."""
