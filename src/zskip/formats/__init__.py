"""Table formats: what is live, and how a rewrite is committed."""

from zskip.formats.base import Staged, TableFormat
from zskip.formats.detect import FORMATS, check_name, open_format
from zskip.formats.iceberg import IcebergFormat
from zskip.formats.parquet import ParquetFormat

__all__ = ["FORMATS", "IcebergFormat", "ParquetFormat", "Staged", "TableFormat", "check_name", "open_format"]
