"""Merge small files into larger ones: snapshot, pack bins, rewrite and commit a batch of bins at a time, index."""

from __future__ import annotations

import dataclasses
import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zskip.advisor.maintenance.bin_packing import pack
from zskip.errors import ConflictError, CorruptFileError, InputError, StorageError
from zskip.formats.compression import Compression
from zskip.records import FileIdentity, Ints, LiveFiles, RewriteResult, Snapshot, identify_files
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.journal import record_result
from zskip.table.refresh_index import index_new_files
from zskip.table.rewrite.file_selection import inspect_selected, select_partitions
from zskip.table.rewrite.rewrite import Commit, Rewrite, check_rewritable, rewrite_files
from zskip.table.step_timer import StepTimer
from zskip.table.version import TableVersion, open_version
from zskip.units import parse_size

BINS_AT_ONCE = 128
"""New files of one commit: the plan of a job has a scan for each of them."""
_TRIES = 5
_log = logging.getLogger("zskip")


def check_sizes(target_file_size: int | str, min_file_size: int | str | None) -> tuple[int, int]:
    """The bytes of a new file, and those from which a file stays as it is; raises InputError.

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


def compact(handle: Handle, target: int, smallest: int, where: str | None) -> RewriteResult:
    """Merge the files below `smallest` bytes, in the partitions that `where` selects, into files of up to `target`."""
    spark = handle.need_session("compact()")
    timer = StepTimer()
    with timer.step("snapshot"):
        version = open_version(handle)
        check_rewritable(version)
        check_index_version(handle)
        files = select_partitions(version, where)
        bins = [identify_files(files, numbers) for numbers in pack(files, target, smallest)]
        if bins:
            version.reader.check_writable(spark)
    commits: list[Commit] = []
    info = {"operation": "compact", "where": where, "target_file_size": target, "min_file_size": smallest}
    try:
        for start in range(0, len(bins), BINS_AT_ONCE):
            commit, version = _merge(version, bins[start : start + BINS_AT_ONCE], info, timer)
            commits += [] if commit is None else [commit]
    finally:
        if commits:
            with timer.step("index"):
                index_new_files(version)
    result = _result(handle, files, commits, timer)
    if commits:
        record_result(version, result, "compact", where=where)
    return result


def compact_files(handle: Handle, bins: Sequence[Sequence[FileIdentity]], operation: str) -> RewriteResult | None:
    """Merge the files of each bin in one commit; None where others have changed a file of every bin.

    operation: its name in the commit and the journal.
    """
    spark = handle.need_session(f"{operation}()")
    timer = StepTimer()
    with timer.step("snapshot"):
        version = open_version(handle)
        check_rewritable(version)
        version.reader.check_writable(spark)
    files = version.snapshot
    commit, version = _merge(version, bins, {"operation": operation}, timer)
    if commit is None:
        return None
    with timer.step("index"):
        index_new_files(version)
    result = _result(handle, files, [commit], timer)
    record_result(version, result, operation)
    return result


def _merge(
    version: TableVersion, bins: Sequence[Sequence[FileIdentity]], info: Mapping[str, Any], timer: StepTimer
) -> tuple[Commit | None, TableVersion]:
    """Merge bins in one commit, without those that others changed meanwhile; None where none with rows is left.

    Returns the table's next version, too.
    """
    for tries_left in reversed(range(_TRIES)):
        live = _live_bins(version.snapshot, bins)
        try:
            rewrite = _rewrite(version, live, timer) if live else None
            if rewrite is None:
                break
            commit = rewrite_files(version, rewrite, {**info, "rows": int(rewrite.rows.sum())}, timer)
            return commit, commit.version
        except (ConflictError, CorruptFileError, StorageError) as error:
            version = open_version(version.handle)
            # Another rewrite of plain Parquet deletes the files that it replaces, even while they are read.
            is_spoiled = isinstance(error, ConflictError) or len(_live_bins(version.snapshot, bins)) < len(live)
            if not tries_left or not is_spoiled:
                raise
            _log.info("%s; merging the remaining files again", error)
    return None, version


def _live_bins(snapshot: Snapshot, bins: Sequence[Sequence[FileIdentity]]) -> list[Ints]:
    """The numbers of each bin's files, for bins without a changed file."""
    live = LiveFiles(snapshot)
    numbers_by_bin = [live.find(files) for files in bins]
    return [numbers for numbers in numbers_by_bin if numbers.min() >= 0]


def _rewrite(version: TableVersion, bins: Sequence[Ints], timer: StepTimer) -> Rewrite | None:
    """Describe the rewrite of bins with rows; files without rows stay, as they may be all of a partition or table."""
    with timer.step("footers"):
        table = version.snapshot
        reader, footers = inspect_selected(version.handle, version.reader.select(table.take(np.concatenate(bins))))
    rows_of_bins = np.split(footers.rows, np.cumsum([len(numbers) for numbers in bins])[:-1])
    if version.format.is_plain:
        bins = [numbers for numbers, rows in zip(bins, rows_of_bins, strict=True) if rows.any()]
        rows_of_bins = [rows for rows in rows_of_bins if rows.any()]
    if not bins:
        return None
    snapshot = table.take(np.concatenate(bins))
    edges = np.cumsum([0, *(len(numbers) for numbers in bins)])
    return Rewrite(
        reader=reader.select(snapshot),
        rows=np.concatenate(rows_of_bins),
        compression=Compression(codec=footers.codec or "zstd"),
        traits=footers.traits,
        lost_traits=footers.lost_traits,
        bins=[np.arange(start, end) for start, end in itertools.pairwise(edges)],
    )


def _result(handle: Handle, files: Snapshot, commits: Sequence[Commit], timer: StepTimer) -> RewriteResult:
    result = RewriteResult(path=handle.storage.root, version=files.version, seconds=timer.seconds)
    result = result.add([commit.result for commit in commits])
    directories = {
        c.replaced.partitions[i].directory for c in commits for i in np.unique(c.replaced.partition_of).tolist()
    }
    return dataclasses.replace(
        result,
        files_before=len(files),
        files_after=len(files) - result.removed.files + result.added.files,
        bytes_before=files.bytes,
        bytes_after=files.bytes - result.removed.bytes + result.added.bytes,
        partitions=len(directories),
    )
