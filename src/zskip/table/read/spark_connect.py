"""Spark Connect gives no access to the JVM, so the client prunes files and the server reads them.

The client must reach the table by the same path as the server. Storage, index and pruning are those of `zskip.open`;
the session provides its settings and reads the rows: of plain Parquet by the names of the kept files, of Delta Lake and
Iceberg by the format's own reader, under the predicate of the plan.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from zskip.errors import ConflictError, UnsupportedError, ZskipWarning
from zskip.formats import HOME
from zskip.spark.connect.replacements import FRAME, check_no_pattern
from zskip.table.handle import Handle
from zskip.table.read.connected import PinnedTable, differs, pruner_of
from zskip.table.read.query import plan_snapshot
from zskip.table.version import read_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.records import ScanReport, Snapshot
    from zskip.spark.scan.rule.reports import OnScan


def open_kept(handle: Handle, where: str | None, on_scan: OnScan | None = None) -> tuple[DataFrame, ScanReport]:
    """Open the rows for which `where` is true, from the files that might hold one, and report what pruning did.

    Without `where`, each query of the DataFrame chooses its files, and tells `on_scan` if there is one. Raises
    UnsupportedError for Hudi and for names that are patterns to Spark, ConflictError during an unfinished rewrite that
    the client may not finish.
    """
    spark, root, snapshot = handle.connected, handle.address, read_snapshot(handle)
    assert spark is not None, "only tables of such sessions come here"
    if not handle.format.is_plain:
        return _open_version(spark, handle, snapshot, where, on_scan)
    check_no_pattern((root, *snapshot.paths))
    schema = spark.read.parquet(root).schema
    sees_other_columns = differs(snapshot, schema.jsonValue()["fields"])
    if sees_other_columns:
        warnings.warn(
            f'the session sees other columns in "{root}" than zskip, so it reads all files',
            ZskipWarning,
            stacklevel=4,
        )
    plan = plan_snapshot(handle, snapshot, None if sees_other_columns else where)
    start = len(handle.storage.root)
    paths = [root + file[start:] for file in plan.files or map(handle.storage.uri, snapshot.paths[:1])]
    if snapshot.partition_fields and any(path.startswith(f"{root}/{HOME}/") for path in paths):
        raise ConflictError(
            f'a rewrite of "{root}" is committed, but its files are not in their partitions yet, and this process may '
            "not move them; call again when it is done, or call info() once as a user who may write there"
        )
    reader = spark.read.schema(schema).option("basePath", root)
    if where is None and on_scan is not None and not sees_other_columns:
        pinned = PinnedTable.of(handle, plan.bound, schema, on_scan)
        reader = reader.option(FRAME, pruner_of(spark).remember(pinned))
    rows = reader.parquet(*paths)
    return rows if where is None else rows.where(where), plan.report


def _open_version(
    spark: SparkSession, handle: Handle, snapshot: Snapshot, where: str | None, on_scan: OnScan | None
) -> tuple[DataFrame, ScanReport]:
    """The rows of a snapshot by the format's own reader, whose statistics skip what the boxes of kept files leave out.

    A version that cannot be named is read without boxes, since other rows may have come meanwhile.
    """
    version, name, address = snapshot.reading.version_as_of, handle.format.name, handle.address
    if version is None:
        raise UnsupportedError(
            f'"{address}" is of the format {name}, whose rows Spark Connect cannot read by their files; read it with '
            f'spark.read.format("{name}"), or use a classic session. files() and explain() work'
        )
    plan = plan_snapshot(handle, snapshot, where)
    reader = spark.read.option("versionAsOf", version) if version else spark.read
    if where is None and on_scan is not None and version and handle.catalog is None:
        pinned = PinnedTable.of(handle, plan.bound, None, on_scan)
        reader = reader.option(FRAME, pruner_of(spark).remember(pinned))
    rows = reader.format(name).load(address) if handle.catalog is None else reader.table(address)
    condition = plan.predicate if version else where
    return rows if condition is None or condition == "TRUE" else rows.where(condition), plan.report
