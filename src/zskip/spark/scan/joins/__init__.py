"""Join pruning: files none of whose rows has a partner are not read."""
