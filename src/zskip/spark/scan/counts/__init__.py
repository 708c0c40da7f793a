"""Counting without reading: what the index knows of whole files."""
