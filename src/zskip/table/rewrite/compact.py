"""Small files into larger ones: snapshot, bins, rewrite and commit a batch of bins at a time, index."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.advisor.maintenance.bin_packing import pack
from zskip.errors import ConflictError, CorruptFileError, InputError, StorageError
from zskip.formats.compression import Compression
from zskip.formats.schema import inspect_footers
from zskip.records import CompactResult, FileSizes, Ints, Operation, Snapshot
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.journal import record_operation
from zskip.table.refresh_index import index_new_files
from zskip.table.rewrite.file_selection import select_partitions
from zskip.table.rewrite.step_timer import StepTimer
from zskip.table.rewrite.writers import MergedFiles, Rewrite, choose_engine, rewrite_in_place
from zskip.table.session import merges_schemas
from zskip.table.snapshot import check_files_are_rows, read_table_schema
from zskip.table.unchanged_files import FileIdentity, LiveFiles, identify_files
from zskip.units import parse_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.engines import Engine
    from zskip.spark.schema import TableSchema

BINS_AT_ONCE = 128
"""New files of one commit: the plan of a job has a scan for each of them."""
_TRIES = 5
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Done:
    """One commit."""

    version: int
    added: tuple[int, ...]
    """Bytes of each new file."""
    removed: tuple[int, ...]
    rows: int
    directories: frozenset[str]


def check_sizes(target_file_size: int | str, min_file_size: int | str | None) -> tuple[int, int]:
    """Bytes that a new file aims at, and from which on one is left alone; raises InputError.

    >>> check_sizes("128MB", None)
    (128000000, 64000000)
    """
    target = parse_size(target_file_size)
    smallest = -(-target // 2) if min_file_size is None else parse_size(min_file_size)
    if smallest > target:
        raise InputError(
            f"min_file_size={min_file_size!r} is more than target_file_size={target_file_size!r}: a new file would be "
            "small again; give at most that"
        )
    return target, smallest


def compact(handle: Handle, target: int, smallest: int, where: str | None) -> CompactResult:
    """Merge the files below `smallest` bytes, in the partitions that `where` selects, into files of up to `target`."""
    spark = handle.need_spark("compact()")
    timer = StepTimer()
    with timer.step("snapshot"):
        engine = choose_engine(spark, handle)
        check_index_version(handle)
        schema = read_table_schema(handle)
        check_files_are_rows(schema.snapshot)
        chosen = select_partitions(handle, schema.snapshot, where)
        bins = [identify_files(chosen, places) for places in pack(chosen, target, smallest)]
        if bins:
            _check_writable(spark, schema)
    done: list[_Done] = []
    info = {"operation": "compact", "where": where, "target_file_size": target, "min_file_size": smallest}
    try:
        for start in range(0, len(bins), BINS_AT_ONCE):
            # What the format's own code commits must be upon the version that it reads.
            schema = read_table_schema(handle) if start and engine is not None else schema
            found = _merge(spark, handle, engine, schema, bins[start : start + BINS_AT_ONCE], info, timer)
            done += [] if found is None else [found]
    finally:
        if done:
            with timer.step("index"):
                index_new_files(handle, by_engine=chosen.reader is not None)
    result = _result(handle, chosen, done, timer)
    if done:
        _record(handle, where, result)
    return result


def _record(handle: Handle, where: str | None, result: CompactResult, operation: str = "compact") -> None:
    said = Operation(
        version=result.version,
        time_ms=int(1000 * time.time()),
        operation=operation,
        where=where,
        rows=result.rows,
        files_removed=result.removed.files,
        files_added=result.added.files,
        bytes_removed=result.removed.bytes,
        bytes_added=result.added.bytes,
        seconds=round(sum(result.seconds.values()), 3),
    )
    record_operation(handle, said)


def compact_files(handle: Handle, bins: Sequence[Sequence[FileIdentity]], operation: str) -> CompactResult | None:
    """Merge the files of each bin, in one commit; None where others have changed a file of every bin.

    operation: what the commit and the table's journal call it.
    """
    spark = handle.need_spark(f"{operation}()")
    timer = StepTimer()
    with timer.step("snapshot"):
        engine = choose_engine(spark, handle)
        schema = read_table_schema(handle)
        _check_writable(spark, schema)
    done = _merge(spark, handle, engine, schema, bins, {"operation": operation}, timer)
    if done is None:
        return None
    with timer.step("index"):
        index_new_files(handle, by_engine=schema.snapshot.reader is not None)
    result = _result(handle, schema.snapshot, [done], timer)
    _record(handle, None, result, operation)
    return result


def _check_writable(spark: SparkSession, schema: TableSchema) -> None:
    from zskip.spark.scan.relation import scan_with_ordinals
    from zskip.spark.write.rewrite import check_writable

    check_writable(scan_with_ordinals(spark, schema))


def _merge(
    spark: SparkSession,
    handle: Handle,
    engine: Engine | None,
    schema: TableSchema,
    bins: Sequence[Sequence[FileIdentity]],
    info: Mapping[str, Any],
    timer: StepTimer,
) -> _Done | None:
    """One commit. Bins of which others changed a file meanwhile are left out; None where none is left."""
    for left in reversed(range(_TRIES)):
        live = _live(schema.snapshot, bins)
        if not live:
            return None
        try:
            rewrite = _rewrite(handle, engine, schema, live, timer)
            said = {**info, "rows": int(rewrite.partition_rows.sum())}
            committed = rewrite_in_place(spark, handle, engine, rewrite, said, timer)
        except (ConflictError, CorruptFileError, StorageError) as error:
            schema = read_table_schema(handle)
            # A file of plain Parquet that another rewrite replaces is gone from under the one that reads it.
            spoiled = isinstance(error, ConflictError) or len(_live(schema.snapshot, bins)) < len(live)
            if not left or not spoiled:
                raise
            _log.info("%s; the files that are left are merged again", error)
            continue
        base = rewrite.schema.snapshot
        return _Done(
            version=committed.version,
            added=committed.sizes,
            removed=tuple(base.sizes.tolist()),
            rows=said["rows"],
            directories=frozenset(base.partitions[i].directory for i in np.unique(base.partition_of).tolist()),
        )
    return None


def _live(snapshot: Snapshot, bins: Sequence[Sequence[FileIdentity]]) -> list[Ints]:
    """The places of each bin's files, of those bins all of whose files are as they were."""
    live = LiveFiles(snapshot)
    found = [live.find(files) for files in bins]
    return [places for places in found if places.min() >= 0]


def _rewrite(
    handle: Handle, engine: Engine | None, schema: TableSchema, bins: Sequence[Ints], timer: StepTimer
) -> Rewrite:
    with timer.step("footers"):
        snapshot = schema.snapshot.take(np.concatenate(bins))
        if snapshot.reader is None and engine is not None:
            snapshot = dataclasses.replace(snapshot, reader=engine.reads)
        merge = merges_schemas(handle) or snapshot.declared is not None
        found = inspect_footers(handle.storage, snapshot, merge=merge, workers=handle.workers)
    edges = np.cumsum([0, *(len(places) for places in bins)])
    merged = MergedFiles(
        bins=[np.arange(start, end) for start, end in itertools.pairwise(edges)],
        partition_of_file=snapshot.partition_of[edges[:-1]],
    )
    return Rewrite(
        schema=dataclasses.replace(schema, snapshot=snapshot),
        arrangement=merged,
        partition_rows=np.bincount(snapshot.partition_of, found.rows, len(snapshot.partitions)).astype(np.int64),
        compression=Compression(codec=found.codec or "zstd"),
        file_rows=np.add.reduceat(found.rows, edges[:-1]),
    )


def _result(handle: Handle, chosen: Snapshot, done: Sequence[_Done], timer: StepTimer) -> CompactResult:
    added = FileSizes.of([size for batch in done for size in batch.added])
    removed = FileSizes.of([size for batch in done for size in batch.removed])
    return CompactResult(
        path=handle.storage.root,
        version=done[-1].version if done else chosen.version,
        files_before=len(chosen),
        files_after=len(chosen) - removed.files + added.files,
        bytes_before=chosen.bytes,
        bytes_after=chosen.bytes - removed.bytes + added.bytes,
        rows=sum(batch.rows for batch in done),
        added=added,
        removed=removed,
        partitions=len(frozenset().union(*(batch.directories for batch in done))),
        batches=len(done),
        seconds=timer.seconds,
    )
