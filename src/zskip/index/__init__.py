"""The data-skipping index: statistics of every file, stored beside the table."""
