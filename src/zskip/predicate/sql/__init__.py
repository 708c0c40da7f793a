"""Predicates from SQL text, as people write it and as Catalyst prints it."""
