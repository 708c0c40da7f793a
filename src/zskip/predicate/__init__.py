"""The engine-neutral predicate tree and its translations."""
