"""An optimize in batches: as many as a table's size asks for, a commit each, several at once, the rest after a crash.

    bounds of all files -> batches -> a note of them in the table's home -> `optimize` for each -> the note goes

The note names the files of each batch as they are before it. A batch whose files are no longer live is done, whoever
did it, so that nothing has to be written at the moment of a commit, and a process may die at any.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from zskip.advisor.maintenance.batches import split
from zskip.advisor.maintenance.planner import Bounds, kept_share
from zskip.errors import ConflictError, UnsupportedError
from zskip.records import FileSizes, Floats, Ints, OptimizeResult, Snapshot, Values
from zskip.table.advice.choose_layout import check_columns_and_curve, choose_request_columns
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.journal import Depths, count_depths, read_journal
from zskip.table.optimize_request import AUTO, OptimizeRequest, clustering_fields, files_per_partition
from zskip.table.rewrite.batch_journal import Batch, Note, arguments_of, forget_note, new_note, read_note, write_note
from zskip.table.rewrite.file_selection import select_partitions
from zskip.table.rewrite.maintain import beside, bounds_of, known_bounds
from zskip.table.rewrite.optimize import optimize, unchanged
from zskip.table.rewrite.step_timer import StepTimer
from zskip.table.rewrite.writers import choose_engine, open_target
from zskip.table.session import is_case_sensitive
from zskip.table.snapshot import check_files_are_rows, read_snapshot
from zskip.table.unchanged_files import LiveFiles, identify_files
from zskip.terminal import Bar, bar
from zskip.units import show_size

_TRIES = 5
_MEGA = 1_000_000
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Look:
    """The files to rewrite before the first batch or after the last, and what is known of them."""

    snapshot: Snapshot
    rows: Ints
    columns: tuple[Bounds, ...]
    """Of the clustering columns; none where files are not their rows."""
    depths: Depths | None = None
    """Of the table; None of a part of it."""

    @cached_property
    def live(self) -> LiveFiles:
        """To find the files of batches by."""
        return LiveFiles(self.snapshot)

    def kept(self, linear: bool) -> float | None:
        """Share of the rows that lie in files which a query reads, mean."""
        return kept_share(self.snapshot, self.rows, self.columns, linear=linear) if self.columns else None


def optimize_in_batches(handle: Handle, request: OptimizeRequest) -> OptimizeResult:
    """Cluster what `request.where` selects, at most `request.max_batch` bytes of files in one commit.

    What is committed stays, whatever comes after, and the next call with the same arguments does the rest.
    """
    from zskip.spark.jobs import run_concurrently

    spark = handle.need_spark("optimize()")
    check_columns_and_curve(request)
    _check_hidden(handle, request)
    timer = StepTimer()
    with timer.step("plan"):
        engine = choose_engine(spark, handle, into=request.into, compression=request.compression)
        reads_rows = engine is not None and engine.reads is not None
        found = None if request.into is not None else _cut_short(handle, request)
        chosen = _with_columns(handle, request, found)
        if chosen is None:
            return unchanged(handle, timer)
        before = _look(handle, chosen, by_engine=reads_rows)
        note, left = _begin(handle, request, chosen, before, found)
    if len(left) < len(note.batches):
        before = dataclasses.replace(before, depths=None)
    done = _Done(left, before.snapshot.root)
    with timer.step("batches"), open_target(handle, request.into) as target, done.shown():
        if chosen.curve == AUTO and left:
            # The first batch chooses for all.
            _Work(handle=handle, target=target, request=chosen, look=before, batch=left[0], done=done)()
            chosen = dataclasses.replace(chosen, curve=done.results[0].curve if done.results else AUTO)
            _keep_curve(handle, note, chosen)
        todo = left[len(done.results) :]
        works = [
            _Work(handle=handle, target=target, request=chosen, look=before, batch=batch, done=done) for batch in todo
        ]
        run_concurrently(spark, works, 1 if _has_one_writer(handle) else request.jobs)
    if request.into is None:
        forget_note(handle.home, note)
    after = _look_after(handle, chosen, by_engine=reads_rows) if done.results else before
    return _result(handle, chosen, before, after, done, len(note.batches) - len(left), timer)


def _has_one_writer(handle: Handle) -> bool:
    """Whether only one thread of a process may rewrite the table at a time, as in Hudi."""
    in_one_thread = handle.catalog is not None and handle.catalog.in_one_thread
    return handle.exclusive or handle.format.name == "hudi" or in_one_thread


def _check_hidden(handle: Handle, request: OptimizeRequest) -> None:
    """Raise UnsupportedError where a new table would be seen before its last batch."""
    if request.into is not None and handle.storage_at(request.into).kind == "objects":
        raise UnsupportedError(
            f'into="{request.into}" lies in an object store, where a new table is seen from its first commit on: with '
            "max_batch it would be seen without the rows of the other batches. Leave max_batch out, or rewrite the "
            "table in place"
        )


def _cut_short(handle: Handle, request: OptimizeRequest) -> Note | None:
    """The note of a call with the same arguments."""
    note = read_note(handle.home)
    return note if note is not None and note.arguments == arguments_of(request) else None


def _with_columns(handle: Handle, request: OptimizeRequest, found: Note | None) -> OptimizeRequest | None:
    if found is not None:
        return dataclasses.replace(request, by=found.by, curve=found.curve)
    return request if request.by else choose_request_columns(handle, request)


def _keep_curve(handle: Handle, note: Note, chosen: OptimizeRequest) -> None:
    if chosen.into is None:
        write_note(handle.home, dataclasses.replace(note, curve=chosen.curve))


def _look(handle: Handle, request: OptimizeRequest, *, by_engine: bool) -> _Look:
    """Look at the table and check what can be wrong with it, before anything but the index is written."""
    check_index_version(handle)
    snapshot = read_snapshot(handle)
    check_files_are_rows(snapshot)
    fields = clustering_fields(request.by, snapshot, case_sensitive=is_case_sensitive(handle))
    chosen = select_partitions(handle, snapshot, request.where)
    if by_engine or snapshot.reader is not None:
        return _Look(snapshot=chosen, rows=np.zeros(len(chosen), np.int64), columns=())
    bound = known_bounds(handle, chosen, writes=request.into is None)
    return _Look(
        snapshot=chosen,
        rows=np.maximum(bound.rows, 0),
        columns=tuple(bounds_of(bound, fields)),
        depths=count_depths(bound, fields) if request.where is None else None,
    )


def _look_after(handle: Handle, request: OptimizeRequest, *, by_engine: bool) -> _Look:
    if request.into is None:
        return _look(handle, request, by_engine=by_engine)
    new = Handle(handle.storage_at(request.into), handle.spark)
    return _look(new, dataclasses.replace(request, where=None), by_engine=by_engine)


def _begin(
    handle: Handle, request: OptimizeRequest, chosen: OptimizeRequest, look: _Look, found: Note | None
) -> tuple[Note, list[Batch]]:
    """The batches of this call, or of the one that was cut short, and those of them that are still to be done."""
    if found is not None:
        left = [live for batch in found.batches if (live := _left(look.live, batch)) is not None]
        if left or _has_written(handle, look.snapshot, found):
            _log.info("%s: %d of %d batches are done already", handle.storage.root, *_counts(found, left))
            return found, left
    note = new_note(request, chosen, _batches(look, chosen))
    if request.into is None:
        write_note(handle.home, note)
    return note, list(note.batches)


def _counts(note: Note, left: Sequence[Batch]) -> tuple[int, int]:
    return len(note.batches) - len(left), len(note.batches)


def _has_written(handle: Handle, snapshot: Snapshot, note: Note) -> bool:
    """Whether files of the call are live, so that it was cut short just before its note went.

    Files that another operation has arranged otherwise since do not count.
    """
    wanted = [name.lower() for name in note.by]
    later = (record for record in read_journal(handle.home) if record.operation.time_ms >= note.began_ms)
    records = [record for record in later if [name.lower() for name in record.operation.by] == wanted]
    return any(record.members(snapshot).any() for record in records)


def _batches(look: _Look, request: OptimizeRequest) -> list[Batch]:
    snapshot = look.snapshot
    most = request.max_batch or max(snapshot.bytes, 1)
    found = split(snapshot, look.rows, look.columns, most=most, linear=request.curve == "linear")
    sizes = np.array([int(snapshot.sizes[places].sum()) for places in found], np.int64)
    wanted = [None] * len(found) if request.files is None else files_per_partition(request, sizes, sizes).tolist()
    return [Batch(files=identify_files(snapshot, places), wanted=n) for places, n in zip(found, wanted, strict=True)]


def _left(live: LiveFiles, batch: Batch) -> Batch | None:
    """The same batch of those of its files that are as they were; None where there are none."""
    there = live.find(batch.files) >= 0
    left = tuple(file for file, is_there in zip(batch.files, there.tolist(), strict=True) if is_there)
    return dataclasses.replace(batch, files=left) if left else None


class _Done:
    """What the batches have done so far; each may say so from its own thread."""

    def __init__(self, batches: Sequence[Batch], root: str) -> None:
        self.results: list[OptimizeResult] = []
        self._root = root
        self._batches = len(batches)
        self._bytes, self._total = 0, sum(batch.bytes for batch in batches)
        self._lock = threading.Lock()
        self._bar: Bar | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show on a terminal how many of the bytes are done."""
        with bar(f"optimize {self._root}", "MB", ends=False) as shown:
            self._bar = shown
            shown.update(0, self._total // _MEGA)
            yield

    def add(self, batch: Batch, result: OptimizeResult | None) -> None:
        """Take note of a batch that is done, by this call or by others."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """One batch."""

    handle: Handle
    target: Handle
    request: OptimizeRequest
    look: _Look
    batch: Batch
    done: _Done

    def __call__(self) -> None:
        """Rewrite what is left of it; files that others have changed meanwhile are left out."""
        from zskip.spark.jobs import forget_shuffles

        batch: Batch | None = self.batch
        result = None
        for left in reversed(range(_TRIES)):
            if batch is None:
                break
            try:
                result = optimize(self.handle, self._asked(batch), self.target)
                break
            except ConflictError as error:
                if not left or self.request.into is not None:
                    raise
                _log.info("%s; what is left of the batch is tried again", error)
                batch = _left(LiveFiles(self.handle.format.snapshot()), batch)
        self.done.add(self.batch, result)
        # Executors keep the shuffle of a batch on their disks until the driver has forgotten it.
        forget_shuffles(self.handle.need_spark("optimize()"))

    def _asked(self, batch: Batch) -> OptimizeRequest:
        request = self.request
        return dataclasses.replace(
            request,
            files=batch.wanted,
            only=frozenset(batch.files),
            beside=self._beside(batch),
            depths=None if self.done.results else self.look.depths,
            max_batch=None,
            jobs=1,
        )

    def _beside(self, batch: Batch) -> tuple[tuple[Values, Floats], ...]:
        places = self.look.live.find(batch.files)
        return beside(self.look.columns, self.look.rows, places[places >= 0])


def _result(
    handle: Handle,
    request: OptimizeRequest,
    before: _Look,
    after: _Look,
    done: _Done,
    earlier: int,
    timer: StepTimer,
) -> OptimizeResult:
    results, linear = done.results, request.curve == "linear"
    return OptimizeResult(
        path=handle.storage.root if request.into is None else request.into,
        version=max((result.version for result in results), default=before.snapshot.version),
        curve=request.curve,
        build=request.build,
        by=request.by,
        files_before=sum(result.files_before for result in results),
        files_after=sum(result.files_after for result in results),
        bytes_before=sum(result.bytes_before for result in results),
        bytes_after=sum(result.bytes_after for result in results),
        rows=sum(result.rows for result in results),
        seconds=timer.seconds,
        predicted_share_before=before.kept(linear),
        predicted_share_after=after.kept(linear),
        added=FileSizes.sum(result.added for result in results),
        removed=FileSizes.sum(result.removed for result in results),
        partitions=len(np.unique(before.snapshot.partition_of)),
        compression=results[-1].compression if results else str(request.compression or ""),
        batches=sum(result.batches for result in results),
        batches_before=earlier,
    )
