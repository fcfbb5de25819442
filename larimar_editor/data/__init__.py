"""Edits, texts and facts made by rule: what is read from files, and what ships."""
