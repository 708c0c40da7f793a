"""Reads the footers of many files in parallel and writes them to segments."""

from __future__ import annotations

import collections
import itertools
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from zskip.errors import ZskipWarning
from zskip.index.collect.builder import SegmentBuilder
from zskip.index.collect.footers import FooterReader, FooterStats
from zskip.index.collect.plain_footers import PlainFooterReader, make_footer_parser
from zskip.index.store.bound_segments import is_text
from zskip.index.store.segment import MAX_ENTRIES, Segment
from zskip.records import Bools, DataFile, Snapshot
from zskip.storage import MANY_FILES, Storage, Workers

Progress = Callable[[int, int], None]
"""Called with the number of files read and the total."""

THREADS = 8
"""Much of the work holds the interpreter's lock, so more threads than cores help only for remote files."""

_FAR_THREADS = 32
"""For storages where each file is a request and threads mostly wait."""
_FAR_BATCH = 8
_BATCH = 64
_EXAMPLES = 3
TICK_SECONDS = 2
"""The coarsest clock of a file system or a store, as git assumes it."""
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_FileFooter = tuple[int, DataFile, FooterStats | str]
"""Position in the snapshot, file, and its footer's statistics or the reason why there are none."""


class _Output:
    """Writes segments of one kind; each file goes into exactly one of them."""

    def __init__(self, home: Storage, *, of_row_groups: bool = False) -> None:
        self._home = home
        self._of_row_groups = of_row_groups
        self.builder = SegmentBuilder(of_row_groups=of_row_groups)
        self.segments: list[Segment] = []

    def close(self, entries: int = 0) -> None:
        """Write the current segment if it has at least some entries."""
        if len(self.builder) and self.builder.entries >= entries:
            self.segments.append(self.builder.finish(self._home))
            self.builder = SegmentBuilder(of_row_groups=self._of_row_groups)


def collect_footers(
    storage: Storage,
    snapshot: Snapshot,
    files: Bools,
    row_groups: Bools,
    progress: Progress | None = None,
    index_storage: Storage | None = None,
    workers: Workers | None = None,
) -> list[Segment]:
    """Read the footers of files and write their statistics to new segments, of files and of row groups.

    files, row_groups: (files of the snapshot,) masks of the files to describe, and of those whose row groups to
    describe; index_storage: the index's storage, if not the table's; workers: read the footers if there are many.

    Unreadable files get no entry, and together one ZskipWarning. Raises StorageError if the segments cannot be written.
    """
    index_home = index_storage or storage
    file_output, row_group_output = _Output(index_home), _Output(index_home, of_row_groups=True)
    unreadable: list[str] = []
    positions = np.flatnonzero(files | row_groups).tolist()
    _let_times_pass(storage, snapshot, files | row_groups)
    done = 0
    for batch in _read_all(storage, snapshot, positions, row_groups, workers):
        for position, file, footer in batch:
            if not isinstance(footer, FooterStats):
                unreadable.append(f"{ascii(file.path)[1:-1]} ({footer})")
                continue
            if files[position]:
                file_output.builder.add(file, footer, snapshot.version)
            for i, part in enumerate(footer.row_groups):
                row_group_output.builder.add(file, part, snapshot.version, i)
        file_output.close(MAX_ENTRIES)
        row_group_output.close(MAX_ENTRIES)
        done += len(batch)
        if progress is not None:
            progress(done, len(positions))
    file_output.close()
    row_group_output.close()
    if unreadable:
        _warn(unreadable)
    return file_output.segments + row_group_output.segments


def _let_times_pass(storage: Storage, snapshot: Snapshot, files: Bools) -> None:
    """Wait until nobody can write a file again with the time that it has in the snapshot, as stores count in seconds.

    A disk's change times are never equal, and nobody gives a name with a UUID twice.
    """
    if snapshot.identities is None:
        return
    recent = files & (snapshot.mtimes_ms > 1000 * (time.time() - TICK_SECONDS))
    recent &= (snapshot.identities == 0) | (storage.kind != "disk")
    times_ms = [int(snapshot.mtimes_ms[i]) for i in np.flatnonzero(recent) if not _UUID.search(snapshot.paths[i])]
    if times_ms:
        time.sleep(min(TICK_SECONDS, max(0, max(times_ms) / 1000 + TICK_SECONDS - time.time())))


def _read_all(
    storage: Storage, snapshot: Snapshot, positions: Sequence[int], row_groups: Bools, workers: Workers | None
) -> Iterator[list[_FileFooter]]:
    """Read footers batch by batch; files that the workers could not parse are read locally."""
    if workers is None or len(positions) < MANY_FILES:
        yield from _read_locally(storage, snapshot, positions, row_groups)
        return
    remaining: list[int] = []
    for with_row_groups in (False, True):
        requested = [i for i in positions if bool(row_groups[i]) == with_row_groups]
        readable = [i for i in requested if is_text(snapshot.paths[i])]
        remaining += sorted({*requested} - {*readable})
        yield from _read_by_workers(workers, snapshot, readable, with_row_groups, remaining)
    yield from _read_locally(storage, snapshot, remaining, row_groups)


def _read_by_workers(
    workers: Workers, snapshot: Snapshot, positions: Sequence[int], row_groups: bool, remaining: list[int]
) -> Iterator[list[_FileFooter]]:
    """Read footers with workers; adds the files that they could not parse to `remaining`."""
    pending, reader = iter(positions), PlainFooterReader()
    files = [(snapshot.paths[i], int(snapshot.sizes[i])) for i in positions]
    parser = make_footer_parser(row_groups, with_ids=snapshot.reading.names.ids is not None)
    for batch in workers.parse_files("read the footers", parser, files) if files else ():
        ids = list(itertools.islice(pending, len(batch)))
        remaining += [i for i, plain in zip(ids, batch, strict=True) if plain is None]
        parsed = ((i, plain) for i, plain in zip(ids, batch, strict=True) if plain is not None)
        yield [(i, snapshot.file(i), reader.read(plain)) for i, plain in parsed]


def _read_locally(
    storage: Storage, snapshot: Snapshot, positions: Sequence[int], row_groups: Bools
) -> Iterator[list[_FileFooter]]:
    """Read footers batch by batch, in order, with a few batches in flight."""
    reader = FooterReader(with_ids=snapshot.reading.names.ids is not None)

    def read_batch(ids: Sequence[int]) -> list[_FileFooter]:
        files = [snapshot.file(i) for i in ids]
        parts = row_groups[ids].tolist()
        return [(i, f, _read(storage, reader, f, p)) for i, f, p in zip(ids, files, parts, strict=True)]

    in_flight: collections.deque[Future[list[_FileFooter]]] = collections.deque()
    is_remote = storage.kind != "disk"
    threads = _FAR_THREADS if is_remote else min(THREADS, os.cpu_count() or 1)
    size = _FAR_BATCH if is_remote else _BATCH
    with ThreadPoolExecutor(threads, thread_name_prefix="zskip-footers") as pool:
        try:
            for start in range(0, len(positions), size):
                in_flight.append(pool.submit(read_batch, positions[start : start + size]))
                if len(in_flight) > 2 * threads:
                    yield in_flight.popleft().result()
            while in_flight:
                yield in_flight.popleft().result()
        finally:
            for future in in_flight:
                future.cancel()


def _read(storage: Storage, reader: FooterReader, file: DataFile, row_groups: bool) -> FooterStats | str:
    if not is_text(file.path):
        return "its name is not UTF-8"
    try:
        with storage.open(file.path, file.size) as stream:
            return reader.read(stream, file.size, row_groups=row_groups)
    except Exception as error:  # no error in a broken footer may cost more than its entry
        return " ".join(str(error).split()) or type(error).__name__


def _warn(unreadable: Sequence[str]) -> None:
    examples = "; ".join(unreadable[:_EXAMPLES])
    more = f" and {len(unreadable) - _EXAMPLES} more" if len(unreadable) > _EXAMPLES else ""
    message = f"no statistics of {examples}{more}: every query will read such files"
    warnings.warn(message, ZskipWarning, stacklevel=4)
