"""The verbs that rewrite a table, and how their files are committed."""
