"""Statistics counted from rows, and sketches: what only Spark can compute for the index."""
