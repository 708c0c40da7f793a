"""`Table`: the one object a user holds."""

from zskip.table.opening import open, table
from zskip.table.read.kept_file import KeptFile
from zskip.table.table import Table

__all__ = ["KeptFile", "Table", "open", "table"]
