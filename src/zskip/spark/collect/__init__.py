"""What only Spark can tell the index: statistics counted from rows, and sketches."""
