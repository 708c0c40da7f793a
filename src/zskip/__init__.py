"""zskip makes Spark read only the files a query needs."""

from zskip.errors import (
    ColumnError,
    ConflictError,
    CorruptFileError,
    IndexFormatError,
    InputError,
    MissingDependencyError,
    PredicateError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    ZskipError,
    ZskipWarning,
)
from zskip.lake import Lake, lake
from zskip.sql import disable, enable, enabled, scans, sql
from zskip.table import KeptFile, Table, open, table
from zskip.table.opening import write
from zskip.version import __version__

__all__ = [
    "ColumnError",
    "ConflictError",
    "CorruptFileError",
    "IndexFormatError",
    "InputError",
    "KeptFile",
    "Lake",
    "MissingDependencyError",
    "PredicateError",
    "StorageError",
    "Table",
    "TableNotFoundError",
    "UnsupportedError",
    "ZskipError",
    "ZskipWarning",
    "__version__",
    "disable",
    "enable",
    "enabled",
    "lake",
    "open",
    "scans",
    "sql",
    "table",
    "write",
]
