"""Predicates from and to expressions of pyarrow."""
