"""DataFrames over files that zskip chooses and Spark reads."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import UnsupportedError
from zskip.index import BoundIndex
from zskip.spark.jvm.compat import check_session, frame_of
from zskip.spark.jvm.compiled.janino import invoke, new_instance
from zskip.spark.jvm.failures import translated
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.statuses import qualify_root
from zskip.spark.scan.bridge.callbacks import java_callback
from zskip.spark.scan.rule.bound_files import BoundFiles
from zskip.spark.scan.rule.install import install
from zskip.spark.scan.rule.reports import OnFilters, OnScan
from zskip.spark.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("zskip.scan")

_SOURCES = "org.apache.spark.sql.execution.datasources"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pruning:
    """By which index a scan chooses its files, and whom it tells."""

    index: BoundIndex
    case_sensitive: bool
    on_scan: OnScan | None = None
    on_filters: OnFilters | None = None

    @property
    def is_watched(self) -> bool:
        """Whether a log wants each scan at once; others wait until somebody asks (`reports.py`)."""
        return _log.isEnabledFor(logging.INFO)


def scan(spark: SparkSession, schema: TableSchema, pruning: Pruning | None = None) -> DataFrame:
    """Read the files of a snapshot, each query only those that its filters leave; all of them without an index.

    Rows, columns and their order are those of `spark.read.parquet` on the same files. Raises UnsupportedError for
    sessions that give no access to their JVM.
    """
    from pyspark.sql import DataFrame

    check_session(spark)
    snapshot = schema.snapshot
    if snapshot.reading.feature is not None:
        raise UnsupportedError(f'the files of "{snapshot.root}" are not its rows: it uses {snapshot.reading.feature}')
    _check_types(spark, schema)
    jvm = Jvm.of(spark)
    files = _pinned(spark, jvm, schema)
    relation = jvm.find(f"{_SOURCES}.HadoopFsRelation")(
        files if pruning is None else _bound(spark, jvm, files, pruning),
        schema.partition,
        schema.data,
        jvm.none,
        jvm.find(f"{_SOURCES}.parquet.ParquetFileFormat")(),
        jvm.empty_map,
        spark._jsparkSession,
    )
    with translated(f'read "{snapshot.root}"'):
        return DataFrame(spark._jsparkSession.baseRelationToDataFrame(relation), spark)


def _check_types(spark: SparkSession, schema: TableSchema) -> None:
    """Raise UnsupportedError for columns that Spark does not read as the session is set."""
    # Without a default of ours: Spark's own differs between versions, and each that infers the type has the setting.
    if '"time(' not in schema.data_json or str(spark.conf.get("spark.sql.timeType.enabled")).lower() == "true":
        return
    times = [field["name"] for field in json.loads(schema.data_json)["fields"] if '"time(' in json.dumps(field["type"])]
    raise UnsupportedError(
        f'column "{times[0]}" of "{schema.snapshot.root}" has the type time, which Spark does not read in this '
        "session; set spark.sql.timeType.enabled=true"
    )


def _pinned(spark: SparkSession, jvm: Jvm, schema: TableSchema) -> JavaObject:
    """The files of a snapshot as a file index of Spark's."""
    snapshot = schema.snapshot
    return new_instance(
        jvm,
        "Pinned",
        f"zskip[{snapshot.root}, {len(snapshot)} files, {_digest(schema)}]",
        qualify_root(snapshot.root),
        schema.partition,
        schema.rows,
        jvm.ints(snapshot.partition_of),
        jvm.strings(snapshot.paths),
        jvm.longs(snapshot.sizes),
        jvm.longs(snapshot.mtimes_ms),
        spark._jsparkSession,
    )


def _bound(spark: SparkSession, jvm: Jvm, files: JavaObject, pruning: Pruning) -> JavaObject:
    """The same files with an index bound to them."""
    install(spark)
    python = java_callback(jvm, _bound_files(spark, pruning).answer)
    return new_instance(jvm, "ZskipFiles", files, python, jvm.longs(pruning.index.rows), pruning.is_watched)


def _bound_files(spark: SparkSession, pruning: Pruning) -> BoundFiles:
    return BoundFiles(
        spark,
        pruning.index,
        case_sensitive=pruning.case_sensitive,
        partition_fields=pruning.index.snapshot.partition_fields,
        on_scan=pruning.on_scan,
        on_filters=pruning.on_filters,
    )


def prune_listing(spark: SparkSession, frame: DataFrame, pruning: Pruning) -> DataFrame:
    """The table that a format's own code reads, each query only the files that its filters leave of those it lists.

    frame: of the whole table. Raises UnsupportedError for sessions that give no access to their JVM.
    """
    check_session(spark)
    jvm, files = Jvm.of(spark), _bound_files(spark, pruning)
    root = qualify_root(pruning.index.snapshot.root)
    plan = frame._jdf.queryExecution().analyzed()
    return frame_of(spark, invoke(jvm, install(spark), "bind", plan, root, files.to_java(), pruning.is_watched))


def partition_columns(frame: DataFrame) -> frozenset[str]:
    """The columns, in lower case, that a table's own reader takes from the directories of its partitions."""
    leaf = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    return frozenset(str(name).lower() for name in leaf.relation().partitionSchema().fieldNames())


def _digest(schema: TableSchema) -> str:
    """A digest of root, files and partition values: equal for snapshots that give the same rows."""
    snapshot, digest = schema.snapshot, hashlib.blake2b(digest_size=16)
    digest.update(json.dumps([snapshot.root, schema.partition_json, snapshot.paths]).encode())
    digest.update(repr([p.values for p in snapshot.partitions]).encode())
    for array in (snapshot.sizes, snapshot.mtimes_ms, snapshot.partition_of, snapshot.identities):
        digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
