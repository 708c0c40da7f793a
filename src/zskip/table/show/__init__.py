"""What people look at: the report of a table."""
