"""Search for the best layout, and say what else would help."""
