"""Run the statements that write rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zskip.errors import ColumnError, UnsupportedError, ZskipError
from zskip.formats import FORMATS
from zskip.layout.curves import default_curve
from zskip.spark.jvm.catalog import DEFAULT_CATALOG, qualified_name
from zskip.spark.jvm.compat import frame_of
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.logical import analyzed
from zskip.sql import results
from zskip.sql.queries.pruned_query import run_query
from zskip.sql.statements.parser import Target
from zskip.sql.statements.write import CreateTable, Insert, WriteStatement
from zskip.sql.targets import find_table, refresh
from zskip.table import Table
from zskip.table.handle import Handle, classic
from zskip.table.opening import write
from zskip.table.read.info import last_layout
from zskip.table.version import open_reader, open_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_write(spark: SparkSession, text: str, statement: WriteStatement) -> DataFrame:
    """Run a CREATE TABLE or an INSERT; one that is not zskip's runs as Spark runs it."""
    if isinstance(statement, CreateTable):
        return _create(spark, statement)
    if statement.target.path is not None:
        return _insert_into_path(spark, statement)
    handle = None if classic(spark) is None else _find_clustered(spark, statement.target)
    frame = None if handle is None else _analyze_insert(spark, text)
    if handle is None or frame is None:
        return run_query(spark, text).frame
    version = handle.format.snapshot().version
    try:
        result = Table(handle).append(frame)
    except (ColumnError, UnsupportedError):
        # The catalog may have columns that the files lack.
        if handle.format.snapshot().version != version:
            raise
        # Nothing was written: Spark appends.
        return run_query(spark, text).frame
    finally:
        refresh(handle)
    return results.write_frame(spark, result)


def _create(spark: SparkSession, statement: CreateTable) -> DataFrame:
    name, format_name = _name_target(spark, statement.target)
    options: dict[str, Any] = dict(statement.options)
    if len(statement.by) == 1:
        options.setdefault("curve", default_curve(1))
    result = write(
        run_query(spark, statement.query).frame,
        name,
        by=statement.by,
        partition_by=statement.partition_by,
        format=statement.format_name or format_name,
        **options,
    )
    return results.write_frame(spark, result)


def _name_target(spark: SparkSession, target: Target) -> tuple[str, str]:
    """The path or full name of a new table, and the format that it has if the statement names none."""
    if target.path is not None:
        return target.path, "parquet"
    parts = target.parts
    if len(parts) == 2 and parts[0].lower() in FORMATS and "/" in parts[1]:
        return parts[1], parts[0].lower()
    if classic(spark) is None:
        full = parts if len(parts) > 1 else (spark.catalog.currentDatabase(), *parts)
        return ".".join(full), "parquet" if len(full) < 3 else "iceberg"
    catalog, *rest = qualified_name(spark, parts)
    return (".".join(rest), "parquet") if catalog == DEFAULT_CATALOG else (".".join((catalog, *rest)), "iceberg")


def _insert_into_path(spark: SparkSession, statement: Insert) -> DataFrame:
    """Append rows to the table at a path, columns by position, as Spark's INSERT matches them."""
    handle = find_table(spark, statement.target)
    snapshot = open_reader(handle).snapshot
    names = [field.name for field in (*snapshot.fields, *snapshot.partition_fields)]
    frame = run_query(spark, statement.query).frame
    if len(frame.columns) != len(names):
        raise ColumnError(
            f'the query gives {len(frame.columns)} columns, and "{statement.target}" has {len(names)}: '
            f"{', '.join(names)}. Nothing was written"
        )
    try:
        return results.write_frame(spark, Table(handle).append(frame.toDF(*names)))
    finally:
        refresh(handle)


def _find_clustered(spark: SparkSession, target: Target) -> Handle | None:
    """Find the table of a name, on the branch that takes rows; None where zskip has not clustered it."""
    try:
        handle = find_table(spark, target).for_new_rows()
        return handle if last_layout(open_version(handle)) is not None else None
    except ZskipError:
        return None


def _analyze_insert(spark: SparkSession, text: str) -> DataFrame | None:
    """The rows of an INSERT, with the columns and types of its table; None where it does more than to append them."""
    plan = analyzed(spark, text)
    kind = str(plan.getClass().getSimpleName())
    if kind == "InsertIntoHadoopFsRelationCommand":
        if str(plan.mode().name()) != "Append" or not plan.staticPartitions().isEmpty():
            return None
        names = Jvm.of(spark).to_list(plan.outputColumnNames())
        return frame_of(spark, plan.query()).toDF(*(str(name) for name in names))
    return frame_of(spark, plan.query()) if kind == "AppendData" else None
