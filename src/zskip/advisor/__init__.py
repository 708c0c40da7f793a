"""What to do with a table: which files to rewrite together. No Spark, no input or output."""
