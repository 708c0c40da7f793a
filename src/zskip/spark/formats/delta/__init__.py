"""Delta tables in a session."""
