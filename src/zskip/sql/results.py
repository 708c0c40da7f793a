"""The results of statements as DataFrames; the metrics of OPTIMIZE have Delta's names."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from zskip.advisor.advice.advice import Advice
from zskip.advisor.workload.workload import Workload
from zskip.lake.results import LakeMaintenance, Survey
from zskip.records import (
    ClusteringInfo,
    CompactResult,
    FileSizes,
    IndexedPart,
    IndexInfo,
    Maintenance,
    Operation,
    OptimizeResult,
    SketchInfo,
    TableInfo,
    Verification,
    WriteResult,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZES = "struct<min: bigint, max: bigint, avg: double, totalFiles: bigint, totalSize: bigint>"
_CUBES = "struct<num: bigint, size: bigint>"
_ZORDER = (
    f"struct<strategyName: string, inputCubeFiles: {_CUBES}, inputOtherFiles: {_CUBES}, inputNumCubes: bigint, "
    f"mergedFiles: {_CUBES}, numOutputCubes: bigint, mergedNumCubes: bigint>"
)
_CLUSTERING = (
    f"struct<inputZCubeFiles: {_CUBES}, inputOtherFiles: {_CUBES}, inputNumZCubes: bigint, mergedFiles: {_CUBES}, "
    "numOutputZCubes: bigint>"
)
_PARALLELISM = ", ".join(
    f"{bound}{of}ActiveParallelism: bigint" for of in ("Cluster", "Session") for bound in ("max", "min")
)
_METRICS = (
    f"struct<numFilesAdded: bigint, numFilesRemoved: bigint, filesAdded: {_SIZES}, filesRemoved: {_SIZES}, "
    f"partitionsOptimized: bigint, zOrderStats: {_ZORDER}, clusteringStats: {_CLUSTERING}, numBins: bigint, "
    "numBatches: bigint, totalConsideredFiles: bigint, totalFilesSkipped: bigint, preserveInsertionOrder: boolean, "
    "numFilesSkippedToReduceWriteAmplification: bigint, numBytesSkippedToReduceWriteAmplification: bigint, "
    "startTimeMs: bigint, endTimeMs: bigint, totalClusterParallelism: bigint, totalScheduledTasks: bigint, "
    f"autoCompactParallelismStats: struct<{_PARALLELISM}>, "
    "deletionVectorStats: struct<numDeletionVectorsRemoved: bigint, numDeletionVectorRowsRemoved: bigint>, "
    "numTableColumns: bigint, numTableColumnsWithStats: bigint>"
)
_OPTIMIZED = f"path string, metrics {_METRICS}"
_VERIFIED = (
    "path string, ok boolean, files bigint, columns bigint, queries bigint, failing string, "
    "mismatches array<struct<what: string, file: string, expected: string, found: string>>"
)
_CLUSTERED = (
    "column string, files bigint, files_unknown bigint, constant_files bigint, average_overlap double, "
    "average_depth double, depth_histogram map<int, bigint>"
)
_MAINTAINED = (
    "path string, batches bigint, bytes_written bigint, files_removed bigint, files_added bigint, kept_before double, "
    "kept_after double, stopped string, seconds double, dry_run boolean"
)
_HISTORY = (
    "time timestamp, version bigint, operation string, by array<string>, where string, rows bigint, "
    "files_removed bigint, files_added bigint, bytes_removed bigint, bytes_added bigint, share_before double, "
    "share_after double, share_measured double, scans bigint, seconds double"
)
_WRITTEN = (
    "path string, version bigint, rows bigint, files bigint, bytes bigint, by array<string>, curve string, "
    "predicted_share double, seconds double, jobs bigint"
)
_HEALTH = (
    "table string, format string, files bigint, bytes bigint, rows bigint, small_files bigint, deleted_rows bigint, "
    "indexed double, clustered_by array<string>, overlap double, queries_a_day double, is_recorded boolean, "
    "bytes_read_a_day double, files_read_a_day double, bytes_read_a_day_after double, files_read_a_day_after double, "
    "action string, by array<string>, reason string, bytes_to_rewrite bigint, saved_bytes_a_day double, "
    "days_to_pay double, error string"
)
_LAKE = (
    "table string, batches bigint, bytes_written bigint, files_removed bigint, files_added bigint, "
    "saved_bytes_a_day double, decisions array<string>, error string, stopped string"
)
_INDEXED = "sketch string, files bigint, bytes bigint, left_out bigint, reason string"
_DESCRIBED = (
    "column string, kind string, files bigint, bytes bigint, left_out bigint, reason string, version bigint, "
    "files_total bigint, index_bytes bigint"
)
_ADVISED = (
    "by string, curve string, files bigint, kept double, kept_low double, kept_high double, decoded double, "
    "decoded_low double, decoded_high double, bytes_to_write bigint, slower bigint, advice string"
)
_WORKLOAD = "shape string, share double, scans bigint, since timestamp, recording boolean"
_SKIPPED = "table string, step string, files bigint, bytes bigint, rows bigint, skipped bigint, reason string"

Step = tuple[str, str, int | None, int | None, int | None, int | None, str]
"""Table, step, remaining files, bytes and rows, files skipped, reason."""


def optimize_frame(
    spark: SparkSession, result: OptimizeResult | CompactResult, info: TableInfo, times_ms: tuple[int, int]
) -> DataFrame:
    """One row, like that of Delta's OPTIMIZE; its merged files are the rewritten ones.

    Figures without a meaning here are 0, and such structures are null.
    """
    removed, added = result.removed, result.added
    other = (removed.files, removed.bytes)
    zorder = ("all", (0, 0), other, 0, other, result.partitions, None)
    merges = isinstance(result, CompactResult)
    metrics = {
        "numFilesAdded": added.files,
        "numFilesRemoved": removed.files,
        "filesAdded": _sizes(added),
        "filesRemoved": _sizes(removed),
        "partitionsOptimized": result.partitions,
        "zOrderStats": zorder if added.files and not merges else None,
        "numBins": added.files if merges else result.batches,
        "numBatches": result.batches,
        "totalConsideredFiles": result.files_before,
        "totalFilesSkipped": result.files_before - removed.files,
        "preserveInsertionOrder": merges,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": times_ms[0],
        "endTimeMs": times_ms[1],
        "totalClusterParallelism": spark.sparkContext.defaultParallelism,
        "totalScheduledTasks": added.files,
        "numTableColumns": len(info.columns),
        "numTableColumnsWithStats": 0 if info.index is None else info.index.columns,
    }
    return _frame(spark, [(result.path, metrics)], _OPTIMIZED)


def write_frame(spark: SparkSession, result: WriteResult) -> DataFrame:
    """One row for a write of new rows."""
    return _record_frame(spark, [result], _WRITTEN, lambda result: {"seconds": sum(result.seconds.values())})


def _sizes(sizes: FileSizes) -> dict[str, Any]:
    mean = sizes.bytes / sizes.files if sizes.files else 0.0
    return {
        "min": sizes.smallest,
        "max": sizes.largest,
        "avg": mean,
        "totalFiles": sizes.files,
        "totalSize": sizes.bytes,
    }


def verification_frame(spark: SparkSession, verification: Verification) -> DataFrame:
    """One row: whether everything is right, what was checked, and the first mismatch."""
    failing = verification.mismatches[0].what if verification.mismatches else None
    return _record_frame(spark, [verification], _VERIFIED, lambda audit: {"ok": audit.ok, "failing": failing})


def maintenance_frame(spark: SparkSession, maintenance: Maintenance) -> DataFrame:
    """One row, with the figures of `Table.maintain`."""
    return _record_frame(spark, [maintenance], _MAINTAINED)


def health_frame(spark: SparkSession, survey: Survey) -> DataFrame:
    """One row for each table, in the order of the survey."""
    return _record_frame(spark, survey.tables, _HEALTH)


def lake_frame(spark: SparkSession, done: LakeMaintenance) -> DataFrame:
    """One row for each table that was maintained, then one for each that failed."""
    rows = [{**dataclasses.asdict(table), "error": done.failed.get(table.table, "")} for table in done.tables]
    known = {table.table for table in done.tables}
    rows += [{"table": name, "error": error} for name, error in done.failed.items() if name not in known]
    return _frame(spark, [{**row, "stopped": done.stopped} for row in rows], _LAKE)


def history_frame(spark: SparkSession, operations: Sequence[Operation]) -> DataFrame:
    """One row for each operation, the latest first."""

    def time(operation: Operation) -> dict[str, Any]:
        return {"time": dt.datetime.fromtimestamp(operation.time_ms / 1000, dt.timezone.utc)}

    return _record_frame(spark, operations, _HISTORY, time)


def clustering_frame(spark: SparkSession, columns: Sequence[ClusteringInfo]) -> DataFrame:
    """One row for each column."""
    return _record_frame(spark, columns, _CLUSTERED)


def sketches_frame(spark: SparkSession, sketches: Sequence[SketchInfo]) -> DataFrame:
    """One row for each sketch."""
    return _record_frame(spark, sketches, _INDEXED, lambda sketch: {"sketch": sketch.spec})


def index_frame(spark: SparkSession, parts: Sequence[IndexedPart], index: IndexInfo) -> DataFrame:
    """One row for each column and sketch, each with the figures of the whole index."""
    whole = (index.version, index.files_total, index.bytes)
    rows = [(part.on, part.kind, part.files, part.bytes, part.left_out, part.reason, *whole) for part in parts]
    return _frame(spark, rows, _DESCRIBED)


def advice_frame(spark: SparkSession, advice: Advice) -> DataFrame:
    """One row for the table as it is, then one for each candidate, the best first; the advice is in the first."""
    rows = [
        (
            ", ".join(c.by),
            c.curve,
            c.files,
            *(c.kept, c.kept_low, c.kept_high, c.decoded, c.decoded_low, c.decoded_high),
            c.bytes_to_write,
            len(c.slower),
            str(advice) if i == 0 else "",
        )
        for i, c in enumerate((advice.current, *advice.candidates))
    ]
    return _frame(spark, rows, _ADVISED)


def workload_frame(spark: SparkSession, recorded: Workload) -> DataFrame:
    """One row for each shape, the most frequent first, each with the figures of the whole workload."""
    whole = (recorded.scans, recorded.since, recorded.recording)
    shapes: list[tuple[str | None, float | None]] = [*recorded.shapes().items()]
    rows = [(*one, *whole) for one in shapes or [(None, None)]]
    return _frame(spark, rows, _WORKLOAD)


def skipping_frame(spark: SparkSession, steps: Sequence[Step]) -> DataFrame:
    """One row for each step of each table."""
    return _frame(spark, steps, _SKIPPED)


def _record_frame(
    spark: SparkSession, records: Sequence[Any], schema: str, more: Callable[[Any], dict[str, Any]] = lambda record: {}
) -> DataFrame:
    """A row for each record, of its fields that the schema names; more: further fields of a record."""
    return _frame(spark, [dataclasses.asdict(record) | more(record) for record in records], schema)


def _frame(spark: SparkSession, rows: Sequence[Any], schema: str) -> DataFrame:
    return spark.createDataFrame(list(rows), schema).coalesce(1)
