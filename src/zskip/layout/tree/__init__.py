"""A tree of cuts: each node asks which side of a value a row lies on, each leaf is a file."""
