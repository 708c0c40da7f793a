"""Iceberg's own reader: some of the tasks of its scans are taken away."""
