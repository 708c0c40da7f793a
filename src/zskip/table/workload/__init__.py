"""Where a table's workload comes from: its recorded scans and the event logs of Spark."""
