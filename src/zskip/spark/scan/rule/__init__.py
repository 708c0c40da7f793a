"""The optimizer rule, and the index of files that it puts under relations."""
