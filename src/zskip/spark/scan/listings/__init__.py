"""What a relation lists, and the files that a scan chooses of it."""
