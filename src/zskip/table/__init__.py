"""`Table`: the one object a user holds."""

from zskip.table.table import Table, open, table

__all__ = ["Table", "open", "table"]
