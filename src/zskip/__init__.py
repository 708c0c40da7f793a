"""zskip makes Spark read only the files a query needs."""

from zskip.errors import ZskipError, ZskipWarning
from zskip.sql import sql
from zskip.table import KeptFile, Table, open, table
from zskip.version import __version__

__all__ = ["KeptFile", "Table", "ZskipError", "ZskipWarning", "__version__", "open", "sql", "table"]
