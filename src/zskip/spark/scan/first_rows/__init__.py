"""Top-k and LIMIT pruning: only the files that may hold the first rows."""
