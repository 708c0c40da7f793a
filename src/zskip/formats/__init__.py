"""Table formats: what is live, and how a rewrite is committed."""

from zskip.formats.base import HOME, OPERATIONS, Staged, TableFormat
from zskip.formats.delta import DeltaFormat
from zskip.formats.detect import FORMATS, check_name, open_format
from zskip.formats.hudi import HudiFormat
from zskip.formats.iceberg import IcebergFormat
from zskip.formats.leftovers import leftovers, measured, unpublished
from zskip.formats.parquet import ParquetFormat, log
from zskip.formats.staging import data_files

__all__ = [
    "FORMATS",
    "HOME",
    "OPERATIONS",
    "DeltaFormat",
    "HudiFormat",
    "IcebergFormat",
    "ParquetFormat",
    "Staged",
    "TableFormat",
    "check_name",
    "data_files",
    "leftovers",
    "log",
    "measured",
    "open_format",
    "unpublished",
]
