"""Table formats: which files are live, and how a rewrite is committed."""

from zskip.formats.base import HOME, OPERATIONS, BatchId, RowRules, StagedFile
from zskip.formats.creation import CATALOG_FORMAT, CREATIONS, Creation
from zskip.formats.delta import DeltaFormat
from zskip.formats.detect import DEFAULT_FORMAT, FORMATS, check_name, open_format
from zskip.formats.hudi import HudiFormat
from zskip.formats.iceberg import IcebergFormat
from zskip.formats.leftovers import find_leftovers, find_unpublished, measure_leftover
from zskip.formats.parquet import ParquetFormat, log
from zskip.formats.reader import MetadataReader
from zskip.formats.staging import list_data_files, rename_as_staged
from zskip.formats.table_format import TableFormat
