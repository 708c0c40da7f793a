"""How a rewrite is done: sample, keys, routing, and the full pass."""
