"""The results of statements as DataFrames; the metrics of OPTIMIZE have Delta's names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from zskip.records import (
    FileSizes,
    IndexedPart,
    IndexInfo,
    Maintenance,
    RewriteResult,
    SketchChoice,
    SketchInfo,
    Verification,
    WriteResult,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SIZES = "struct<min: bigint, max: bigint, avg: double, totalFiles: bigint, totalSize: bigint>"
_METRICS = (
    f"struct<numFilesAdded: bigint, numFilesRemoved: bigint, filesAdded: {_SIZES}, filesRemoved: {_SIZES}, "
    "partitionsOptimized: bigint, numBatches: bigint, totalConsideredFiles: bigint, totalFilesSkipped: bigint>"
)
_OPTIMIZED = f"path string, metrics {_METRICS}"
_VERIFIED = (
    "path string, ok boolean, files bigint, columns bigint, queries bigint, failing string, "
    "mismatches array<struct<what: string, file: string, expected: string, found: string>>"
)
_MAINTAINED = (
    "path string, batches bigint, bytes_written bigint, files_removed bigint, files_added bigint, kept_before double, "
    "kept_after double, stopped string, seconds double, dry_run boolean"
)
_WRITTEN = (
    "path string, version bigint, rows bigint, files bigint, bytes bigint, by array<string>, curve string, "
    "predicted_share double, seconds double, jobs bigint"
)
_INDEXED = "sketch string, files bigint, bytes bigint, left_out bigint, reason string"
_CHOSEN = "sketch string, action string, bytes bigint, saves bigint, share double, saved bigint"
_DESCRIBED = (
    "column string, kind string, files bigint, bytes bigint, left_out bigint, reason string, version bigint, "
    "files_total bigint, index_bytes bigint"
)
_SKIPPED = "table string, step string, files bigint, bytes bigint, rows bigint, skipped bigint, reason string"

Step = tuple[str, str, int | None, int | None, int | None, int | None, str]
"""Table, step, remaining files, bytes and rows, files skipped, reason."""


def optimize_frame(spark: SparkSession, result: RewriteResult) -> DataFrame:
    """One row, with those figures of Delta's OPTIMIZE that mean something here, under Delta's names."""
    metrics = {
        "numFilesAdded": result.added.files,
        "numFilesRemoved": result.removed.files,
        "filesAdded": _sizes(result.added),
        "filesRemoved": _sizes(result.removed),
        "partitionsOptimized": result.partitions,
        "numBatches": result.batches,
        "totalConsideredFiles": result.files_before,
        "totalFilesSkipped": result.files_before - result.removed.files,
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


def sketches_frame(spark: SparkSession, sketches: Sequence[SketchInfo]) -> DataFrame:
    """One row for each sketch."""
    return _record_frame(spark, sketches, _INDEXED, lambda sketch: {"sketch": sketch.spec})


def choices_frame(spark: SparkSession, choices: Sequence[SketchChoice]) -> DataFrame:
    """One row for each sketch that the workload chooses."""
    return _record_frame(spark, choices, _CHOSEN, lambda choice: {"sketch": choice.spec})


def index_frame(spark: SparkSession, parts: Sequence[IndexedPart], index: IndexInfo) -> DataFrame:
    """One row for each column and sketch, each with the figures of the whole index."""
    whole = (index.version, index.files_total, index.bytes)
    rows = [(part.on, part.kind, part.files, part.bytes, part.left_out, part.reason, *whole) for part in parts]
    return _frame(spark, rows, _DESCRIBED)


def skipping_frame(spark: SparkSession, steps: Sequence[Step]) -> DataFrame:
    """One row for each step of each table."""
    return _frame(spark, steps, _SKIPPED)


def _record_frame(
    spark: SparkSession, records: Sequence[Any], schema: str, more: Callable[[Any], dict[str, Any]] = lambda record: {}
) -> DataFrame:
    """A row for each record, of its fields that the schema names; more: further fields of a record."""
    rows = [dataclasses.asdict(record) | more(record) for record in records]
    # Spark Connect takes no tuples for arrays.
    lists = [{name: list(v) if isinstance(v, tuple) else v for name, v in row.items()} for row in rows]
    return _frame(spark, lists, schema)


def _frame(spark: SparkSession, rows: Sequence[Any], schema: str) -> DataFrame:
    return spark.createDataFrame(list(rows), schema).coalesce(1)
