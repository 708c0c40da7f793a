"""Table formats: what is live, and how a rewrite is committed."""

from zskip.formats.base import Staged, TableFormat
from zskip.formats.detect import FORMATS, check_name, open_format
from zskip.formats.log import HOME
from zskip.formats.parquet import ParquetFormat

__all__ = ["FORMATS", "HOME", "ParquetFormat", "Staged", "TableFormat", "check_name", "open_format"]
