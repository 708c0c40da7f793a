"""What to do with a table: its workload, what other layouts would do, which files to rewrite. No Spark, no I/O."""
