"""Table formats in a session: which reader a table has, and what commits to it.

A format is a folder with a reader and, where zskip's own commits do not keep all that a table has, an engine that
commits. `docs/architecture.md` lists what a format consists of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.formats import IcebergFormat, TableFormat
from zskip.formats.delta.log import SessionLog
from zskip.formats.iceberg.format import check_installed
from zskip.spark.formats.base import Engine, EngineCommit, RoutedRows
from zskip.spark.formats.connected import ConnectedReader
from zskip.spark.formats.delta import log as delta
from zskip.spark.formats.delta.commits import DeltaEngine
from zskip.spark.formats.delta.reader import DeltaReader
from zskip.spark.formats.hudi import bundle as hudi
from zskip.spark.formats.hudi.reader import HudiReader
from zskip.spark.formats.reader import ParquetReader, Reader
from zskip.spark.jvm.compat import is_connected
from zskip.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.formats.iceberg.catalog import SessionCatalog
    from zskip.spark.jvm.catalog import NamedTable

__all__ = [
    "Engine",
    "EngineCommit",
    "Reader",
    "RoutedRows",
    "has_own_reader",
    "open_reader",
    "own_log",
    "session_catalog",
]

_READERS: dict[str, type[Reader]] = {"parquet": ParquetReader, "delta": DeltaReader, "hudi": HudiReader}
"""By the names of formats; tables of others have files that zskip chooses and Spark reads."""
_OWN_READERS = {"delta": delta.is_loaded, "hudi": hudi.is_loaded}


def open_reader(
    spark: SparkSession,
    table: TableFormat,
    storage: Storage,
    named: NamedTable | None = None,
    address: str = "",
) -> Reader:
    """Choose the reader of a table, which reads nothing yet.

    named: the table in the session's catalog, if it was opened by its name there; address: what a connected session
    calls it.
    """
    if is_connected(spark):
        return ConnectedReader(spark, table, storage, address)
    if isinstance(table, IcebergFormat):
        from zskip.spark.formats.iceberg.reader import IcebergReader  # needs pyiceberg

        return IcebergReader(spark, table, storage, named)
    return _READERS.get(table.name, Reader)(spark, table, storage, named)


def has_own_reader(spark: SparkSession | None, name: str) -> bool:
    """Whether the session can read tables of a format with the format's own code."""
    return spark is not None and name in _OWN_READERS and _OWN_READERS[name](spark)


def own_log(spark: SparkSession, name: str, root: str) -> SessionLog | None:
    """The commits of the session's own code to a table, for formats that zskip itself commits to as well."""
    return DeltaEngine(spark, root) if name == "delta" and delta.is_loaded(spark) else None


def session_catalog(spark: SparkSession, table: str) -> SessionCatalog | None:
    """The Iceberg table of a name that starts with one of the session's catalogs; None for other names.

    Raises MissingDependencyError where pyiceberg is not installed.
    """
    setting = f"spark.sql.catalog.{table.partition('.')[0]}"
    if not str(spark.conf.get(setting, "")).startswith("org.apache.iceberg.spark."):
        return None
    check_installed(table)
    from zskip.spark.formats.iceberg.catalog import SessionCatalog

    return SessionCatalog(spark, table)
