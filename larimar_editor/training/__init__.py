"""Training a Larimar: data, the four-term objective, the loop."""
