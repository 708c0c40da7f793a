"""Predicate and statistics to kept files, with reasons."""
