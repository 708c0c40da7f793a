"""A rewrite as batches of Arrow: Spark schedules, ships and retries, and no row becomes a row of Spark."""
