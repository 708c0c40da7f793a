"""Translates predicates from and to pyarrow expressions."""
