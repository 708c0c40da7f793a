"""Rows of DataFrames become files of tables, in the order of a layout."""
