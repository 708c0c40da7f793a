"""The table formats' own readers and writers that the session has loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from zskip.formats import DeltaFormat, HudiFormat, IcebergFormat, TableFormat
from zskip.formats.iceberg.format import check_installed
from zskip.records import Snapshot
from zskip.spark.engines import delta, hudi
from zskip.spark.engines.base import Engine, EngineCommit, RoutedRows
from zskip.spark.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.engines.iceberg.catalog import SessionCatalog
    from zskip.spark.engines.iceberg.engine import IcebergEngine


class _Reader(Protocol):
    def is_loaded(self, spark: SparkSession) -> bool: ...

    def read_version(self, spark: SparkSession, root: str, version: int) -> DataFrame: ...


_READERS: dict[str, _Reader] = {"delta": delta, "hudi": hudi}


def engine_for(spark: SparkSession, table: TableFormat, root: str) -> Engine | None:
    """The engine that has to write to a table; None where zskip writes the files and the format commits them.

    root: absolute path or URI of the table.
    """
    if isinstance(table, HudiFormat):
        return hudi.HudiEngine(spark, table)
    if isinstance(table, DeltaFormat) and delta.is_loaded(spark) and table.unsupported_feature() is not None:
        return delta.DeltaEngine(spark, root)
    if isinstance(table, IcebergFormat) and table.unsupported_feature() is not None:
        return _iceberg_engine(spark, table)
    return None


def session_catalog(spark: SparkSession, table: str) -> SessionCatalog | None:
    """The Iceberg table of a name that starts with one of the session's catalogs; None for other names.

    Raises MissingDependencyError where pyiceberg is not installed.
    """
    setting = f"spark.sql.catalog.{table.partition('.')[0]}"
    if not str(spark.conf.get(setting, "")).startswith("org.apache.iceberg.spark."):
        return None
    check_installed(table)
    from zskip.spark.engines.iceberg.catalog import SessionCatalog

    return SessionCatalog(spark, table)


def has_own_reader(spark: SparkSession | None, name: str) -> bool:
    """Whether the session can read tables of a format with the format's own code."""
    return spark is not None and name in _READERS and _READERS[name].is_loaded(spark)


def read_whole(spark: SparkSession, name: str, snapshot: Snapshot) -> DataFrame | None:
    """All rows of one version of a table, read by its format's own code; None where the session has none loaded."""
    if not has_own_reader(spark, name):
        return None
    return _READERS[name].read_version(spark, snapshot.root, snapshot.version)


def add_stored_reader(spark: SparkSession, table: TableFormat, schema: TableSchema) -> TableSchema:
    """Add what reads all rows in files of a table, deleted ones too, if the session has such a reader."""
    if isinstance(table, IcebergFormat):
        engine = _iceberg_engine(spark, table)
        return schema if engine is None else replace(schema, read_stored=engine.read_stored, release=engine.release)
    is_delta = table.name == "delta" and has_own_reader(spark, table.name)
    return replace(schema, read_stored=delta.read_stored) if is_delta else schema


def _iceberg_engine(spark: SparkSession, table: IcebergFormat) -> IcebergEngine | None:
    """The session's Iceberg, for a table of one of its catalogs."""
    if table.catalog is None or not table.catalog.in_session:
        return None
    from zskip.spark.engines.iceberg.catalog import SessionCatalog
    from zskip.spark.engines.iceberg.engine import IcebergEngine

    assert isinstance(table.catalog, SessionCatalog), "no other catalog has Iceberg's runtime"
    return IcebergEngine(spark, table.storage, table.catalog)


def add_statistics(spark: SparkSession, table: TableFormat, snapshot: Snapshot) -> Snapshot:
    """Add the file statistics that only the session's engine can read."""
    if isinstance(table, HudiFormat) and has_own_reader(spark, table.name):
        return hudi.add_statistics(spark, table, snapshot)
    return snapshot
