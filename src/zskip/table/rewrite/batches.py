"""An optimize in batches: one commit a batch, several at once, and after a crash the next call does the rest.

    bounds of all files -> batches -> a note of them in the table's home -> `optimize` for each -> delete the note

The note, `operations/batches.gz` below zskip's home in the table, has the arguments of the call and the files of each
batch. A batch is done once none of its files is live, so a commit writes nothing to the note, and a process may die at
any moment. Where a note is lost or damaged, done batches are rewritten once more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from zskip.advisor.maintenance.batches import split
from zskip.advisor.maintenance.planner import kept_share
from zskip.advisor.maintenance.row_scale import Bounds
from zskip.errors import ConflictError, StorageError, UnsupportedError
from zskip.formats import OPERATIONS
from zskip.layout.curves import curve_traits
from zskip.records import FileIdentity, Ints, LiveFiles, RewriteResult, Snapshot, identify_files
from zskip.storage import Storage
from zskip.table.advice.advise import choose_keys
from zskip.table.advice.choose_layout import check_columns_and_curve
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.journal import UNREADABLE, load_record, read_journal, save_record
from zskip.table.optimize_request import AUTO, OptimizeRequest, RewriteJob, files_per_partition
from zskip.table.rewrite.file_bounds import bind_fresh_index, read_bounds, weigh_other_files
from zskip.table.rewrite.file_selection import select_partitions
from zskip.table.rewrite.optimize import optimize, unchanged
from zskip.table.rewrite.rewrite import check_rewritable, open_target
from zskip.table.step_timer import StepTimer
from zskip.table.version import TableVersion, open_version
from zskip.terminal import Bar, bar
from zskip.units import show_size

_TRIES = 5
_NOTE = "batches.gz"
_MEGA = 1_000_000
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Files to rewrite in one commit."""

    files: tuple[FileIdentity, ...]
    new_files: int | None
    """None where their size decides how many."""

    @property
    def bytes(self) -> int:
        """Of the files to replace."""
        return sum(size for _, size, _ in self.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A running or interrupted call."""

    arguments: str
    """JSON."""
    by: tuple[str, ...]
    curve: str
    """The chosen columns and curve, where the call leaves them to zskip."""
    began_ms: int
    """In milliseconds since 1970."""
    batches: tuple[Batch, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class _TableState:
    """The files to rewrite, before the first batch or after the last, and their bounds."""

    snapshot: Snapshot
    rows: Ints
    columns: tuple[Bounds, ...]
    """Of the clustering columns; empty where files are not their rows."""

    @cached_property
    def live(self) -> LiveFiles:
        """Finds the files of batches."""
        return LiveFiles(self.snapshot)

    def kept(self, linear: bool) -> float | None:
        """The mean share of the rows in files that a query reads."""
        return kept_share(self.snapshot, self.rows, self.columns, linear=linear) if self.columns else None


def optimize_in_batches(handle: Handle, request: OptimizeRequest) -> RewriteResult:
    """Cluster what `request.where` selects, at most `request.max_batch` bytes of files in one commit.

    Committed batches stay if a later one fails; the next call with the same arguments does the rest.
    """
    from zskip.spark.jobs import run_concurrently

    spark = handle.need_session("optimize()")
    check_columns_and_curve(request)
    _check_target(handle, request)
    timer = StepTimer()
    with timer.step("plan"):
        version = open_version(handle)
        check_rewritable(version, into=request.into, compression=request.compression)
        interrupted = None if request.into is not None else _find_interrupted(handle, request)
        chosen = _choose_columns(version, request, interrupted)
        if chosen is None:
            return unchanged(version, timer)
        before = _read_state(version, chosen)
        note, open_batches = _begin(handle, request, chosen, before, interrupted)
    progress = _Progress(open_batches, before.snapshot.root)
    with timer.step("batches"), open_target(handle, request.into) as target, progress.show():
        if chosen.curve == AUTO and open_batches:
            # The first batch chooses the curve for all.
            _rewrite_batch(handle, target, chosen, before, progress, open_batches[0])
            chosen = dataclasses.replace(chosen, curve=progress.results[0].curve if progress.results else AUTO)
            if chosen.into is None:
                write_note(handle.home, dataclasses.replace(note, curve=chosen.curve))
        rewrite = partial(_rewrite_batch, handle, target, chosen, before, progress)
        jobs = [partial(rewrite, batch) for batch in open_batches[len(progress.results) :]]
        run_concurrently(spark, jobs, 1 if _has_one_writer(handle) else request.jobs)
    if request.into is None:
        forget_note(handle.home, note)
    after = _read_state_after(handle, chosen) if progress.results else before
    return _result(handle, chosen, before, after, progress, len(note.batches) - len(open_batches), timer)


def _has_one_writer(handle: Handle) -> bool:
    """Whether only one thread of a process may rewrite the table at a time, as in Hudi."""
    return handle.exclusive or handle.format.in_one_thread


def _check_target(handle: Handle, request: OptimizeRequest) -> None:
    """Raise UnsupportedError where readers would see a new table before its last batch."""
    if request.into is not None and handle.storage_at(request.into).kind == "objects":
        raise UnsupportedError(
            f'into="{request.into}" lies in an object store, where a new table is visible from its first commit on: '
            "with max_batch it would be visible without the rows of the other batches. Leave max_batch out, or rewrite "
            "the table in place"
        )


def _arguments_of(request: OptimizeRequest) -> str:
    """The arguments that must be equal for a call to continue another one."""
    names = ("by", "curve", "build", "files", "target_file_size", "where", "max_batch")
    # Not the queries themselves: their literals may be private.
    digest = hashlib.sha256(repr(request.workload).encode("utf-8", "surrogatepass")).hexdigest()
    others = {"compression": str(request.compression), "workload": digest}
    return json.dumps({name: getattr(request, name) for name in names} | others, sort_keys=True)


def _find_interrupted(handle: Handle, request: OptimizeRequest) -> Note | None:
    """Find the note of an interrupted call with the same arguments."""
    note = read_note(handle.home)
    return note if note is not None and note.arguments == _arguments_of(request) else None


def read_note(home: Storage) -> Note | None:
    """Read the note; None where there is none, or none that can be read."""
    try:
        content = load_record(home, _NOTE)
        batches = (
            Batch(files=tuple((path, size, time_ms) for path, size, time_ms in b["files"]), new_files=b["new_files"])
            for b in content["batches"]
        )
        return Note(**{**content, "by": tuple(content["by"]), "batches": tuple(batches)})
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        _log.info("ignoring %s: %s", home.uri(f"{OPERATIONS}/{_NOTE}"), error)
        return None


def write_note(home: Storage, note: Note) -> None:
    """Write a note, in place of any other."""
    save_record(home, _NOTE, dataclasses.asdict(note), overwrite=True)


def forget_note(home: Storage, note: Note) -> None:
    """Delete the note of a finished call, unless another call has written its own meanwhile."""
    current = read_note(home)
    if current is None or (current.arguments, current.began_ms) == (note.arguments, note.began_ms):
        with contextlib.suppress(StorageError, FileNotFoundError):
            home.delete(f"{OPERATIONS}/{_NOTE}")


def _choose_columns(
    version: TableVersion, request: OptimizeRequest, interrupted: Note | None
) -> OptimizeRequest | None:
    if interrupted is not None:
        return dataclasses.replace(request, by=interrupted.by, curve=interrupted.curve)
    return choose_keys(version, request)


def _read_state(version: TableVersion, request: OptimizeRequest) -> _TableState:
    """Read and check the table before anything but the index is written."""
    check_index_version(version.handle)
    version.reader.check()
    fields = version.find_keys(request.by)
    files = select_partitions(version, request.where)
    if not version.reader.footers_count:
        return _TableState(snapshot=files, rows=np.zeros(len(files), np.int64), columns=())
    bound = bind_fresh_index(version, files, writes=request.into is None)
    return _TableState(
        snapshot=files,
        rows=np.maximum(bound.rows, 0),
        columns=tuple(read_bounds(bound, fields)),
    )


def _read_state_after(handle: Handle, request: OptimizeRequest) -> _TableState:
    if request.into is None:
        return _read_state(open_version(handle), request)
    new = handle.beside(handle.storage_at(request.into))
    return _read_state(open_version(new), dataclasses.replace(request, where=None))


def _begin(
    handle: Handle, request: OptimizeRequest, chosen: OptimizeRequest, state: _TableState, interrupted: Note | None
) -> tuple[Note, list[Batch]]:
    """Plan the batches, or continue those of an interrupted call; returns the note and the batches still to do."""
    if interrupted is not None:
        open_batches = [live for b in interrupted.batches if (live := _live_part(state.live, b)) is not None]
        if open_batches or _has_written(handle, state.snapshot, interrupted):
            total = len(interrupted.batches)
            done = total - len(open_batches)
            _log.info("%s: %d of %d batches are done already", handle.storage.root, done, total)
            return interrupted, open_batches
    note = Note(
        arguments=_arguments_of(request),
        by=chosen.by,
        curve=chosen.curve,
        began_ms=time.time_ns() // 1_000_000,
        batches=tuple(_plan_batches(state, chosen)),
    )
    if request.into is None:
        write_note(handle.home, note)
    return note, list(note.batches)


def _has_written(handle: Handle, snapshot: Snapshot, note: Note) -> bool:
    """Whether files that the call wrote are live, so that it was interrupted just before it deleted its note.

    Files that another operation has rearranged since do not count.
    """
    by = [name.lower() for name in note.by]
    later = (record for record in read_journal(handle.home) if record.operation.time_ms >= note.began_ms)
    records = [record for record in later if [name.lower() for name in record.operation.by] == by]
    return any(record.members(snapshot).any() for record in records)


def _plan_batches(state: _TableState, request: OptimizeRequest) -> list[Batch]:
    snapshot = state.snapshot
    most = request.max_batch or max(snapshot.bytes, 1)
    parts = split(snapshot, state.rows, state.columns, most=most, linear=curve_traits(request.curve).is_lexicographic)
    sizes = np.array([int(snapshot.sizes[numbers].sum()) for numbers in parts], np.int64)
    counts = [None] * len(parts) if request.files is None else files_per_partition(request, sizes, sizes).tolist()
    return [
        Batch(files=identify_files(snapshot, numbers), new_files=count)
        for numbers, count in zip(parts, counts, strict=True)
    ]


def _live_part(live: LiveFiles, batch: Batch) -> Batch | None:
    """The batch with its unchanged files only; None where there are none."""
    is_live = live.find(batch.files) >= 0
    files = tuple(file for file, exists in zip(batch.files, is_live.tolist(), strict=True) if exists)
    return dataclasses.replace(batch, files=files) if files else None


class _Progress:
    """The batches done so far; threads may add to it at the same time."""

    def __init__(self, batches: Sequence[Batch], root: str) -> None:
        self.results: list[RewriteResult] = []
        self._root = root
        self._batches = len(batches)
        self._bytes, self._total = 0, sum(batch.bytes for batch in batches)
        self._lock = threading.Lock()
        self._bar: Bar | None = None

    @contextlib.contextmanager
    def show(self) -> Iterator[None]:
        """Show the share of the bytes on a terminal."""
        with bar(f"optimize {self._root}", "MB", ends=False) as progress_bar:
            self._bar = progress_bar
            progress_bar.update(0, self._total // _MEGA)
            yield

    def add(self, batch: Batch, result: RewriteResult | None) -> None:
        """Count a batch that this call or another writer finished."""
        with self._lock:
            self._bytes += batch.bytes
            self.results += [] if result is None else [result]
            _log.info(
                "%s: %d of %d batches, %s of %s",
                self._root,
                len(self.results),
                self._batches,
                show_size(self._bytes),
                show_size(self._total),
            )
            if self._bar is not None:
                self._bar.update(self._bytes // _MEGA, self._total // _MEGA)


def _rewrite_batch(
    handle: Handle, target: Handle, request: OptimizeRequest, state: _TableState, progress: _Progress, batch: Batch
) -> None:
    """Rewrite a batch without the files that others change meanwhile."""
    from zskip.spark.jobs import forget_shuffles

    left: Batch | None = batch
    result = None
    for tries_left in reversed(range(_TRIES)):
        if left is None:
            break
        numbers = state.live.find(left.files)
        job = RewriteJob(
            options=dataclasses.replace(request, files=left.new_files, max_batch=None, jobs=1),
            only=frozenset(left.files),
            beside=weigh_other_files(state.columns, state.rows, numbers[numbers >= 0]),
        )
        try:
            result = optimize(handle, job, target)
            break
        except ConflictError as error:
            if not tries_left or request.into is not None:
                raise
            _log.info("%s; trying again with the rest of the batch", error)
            left = _live_part(LiveFiles(handle.format.snapshot()), left)
    progress.add(batch, result)
    # Executors keep the shuffle of a batch on their disks until the driver has forgotten it.
    forget_shuffles(handle.need_session("optimize()"))


def _result(
    handle: Handle,
    request: OptimizeRequest,
    before: _TableState,
    after: _TableState,
    progress: _Progress,
    batches_before: int,
    timer: StepTimer,
) -> RewriteResult:
    linear = curve_traits(request.curve).is_lexicographic
    result = RewriteResult(
        path=handle.storage.root if request.into is None else request.into,
        version=before.snapshot.version,
        by=request.by,
        curve=request.curve,
        build=request.build,
        seconds=timer.seconds,
        predicted_share_before=before.kept(linear),
        predicted_share_after=after.kept(linear),
        partitions=len(np.unique(before.snapshot.partition_of)),
        compression=str(request.compression or ""),
        batches_before=batches_before,
    )
    return result.add(progress.results)
