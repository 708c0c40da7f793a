"""Table formats: what is live, and how a rewrite is committed."""
