"""Plan maintenance: which files to rewrite together, and which to merge."""
