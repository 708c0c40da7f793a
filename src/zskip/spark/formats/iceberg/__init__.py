"""Iceberg's runtime in the session: its catalogs, and its own reader and writer for the rewrites that need them."""
