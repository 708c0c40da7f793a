"""The workload of a table: weighted predicates, and where they come from."""
