"""Spark's own queries over the tables that zskip has indexed."""
