"""Where a table's workload comes from: its recorded scans."""
