"""Hudi tables in a session."""
