"""What benchmarks share: data, a session, queries, and how figures are printed."""
