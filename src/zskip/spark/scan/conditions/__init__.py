"""Conditions of `matches`, and what skips files by those with Python functions."""
