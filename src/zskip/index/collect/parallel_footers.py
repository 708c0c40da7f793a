"""Read the footers of many files, in parallel, into segments."""

from __future__ import annotations

import collections
import itertools
import os
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
"""Called with the number of files read and the number of all."""

THREADS = 8
"""Much of the work holds the interpreter's lock, so that more threads than cores only help where files are far away."""

_FAR_THREADS = 32
"""Where each file is a request: it waits for most of the time."""
_FAR_BATCH = 8
_BATCH = 64
_NAMED = 3

_Found = tuple[int, DataFile, FooterStats | str]
"""Place in the snapshot, file, and what its footer says or why nothing."""


class _Output:
    """Segments of one kind, in a place of their own; each file goes into one of them as a whole."""

    def __init__(self, home: Storage, *, of_row_groups: bool = False) -> None:
        self._home = home
        self._of_row_groups = of_row_groups
        self.builder = SegmentBuilder(of_row_groups=of_row_groups)
        self.segments: list[Segment] = []

    def close(self, entries: int = 0) -> None:
        """Write what there is, if it is some entries or more."""
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
    """Read the footers of files and write what they say to new segments, of files and of row groups.

    files, row_groups: (files of the snapshot,) those to describe, and those whose row groups to describe;
    index_storage: where the index lies, if not in the table; workers: what reads the footers where they are many.

    A file that cannot be read gets no entry, and all such files together one ZskipWarning. Raises StorageError
    where the segments cannot be written.
    """
    home = index_storage or storage
    whole, parts = _Output(home), _Output(home, of_row_groups=True)
    unreadable: list[str] = []
    which = np.flatnonzero(files | row_groups).tolist()
    done = 0
    for batch in _read_all(storage, snapshot, which, row_groups, workers):
        for place, file, found in batch:
            if not isinstance(found, FooterStats):
                unreadable.append(f"{ascii(file.path)[1:-1]} ({found})")
                continue
            if files[place]:
                whole.builder.add(file, found, snapshot.version)
            for i, part in enumerate(found.row_groups):
                parts.builder.add(file, part, snapshot.version, i)
        whole.close(MAX_ENTRIES)
        parts.close(MAX_ENTRIES)
        done += len(batch)
        if progress is not None:
            progress(done, len(which))
    whole.close()
    parts.close()
    if unreadable:
        _warn(unreadable)
    return whole.segments + parts.segments


def _read_all(
    storage: Storage, snapshot: Snapshot, which: Sequence[int], row_groups: Bools, workers: Workers | None
) -> Iterator[list[_Found]]:
    """Read footers batch by batch; what the workers learn nothing of is read here."""
    if workers is None or len(which) < MANY_FILES:
        yield from _read_here(storage, snapshot, which, row_groups)
        return
    left: list[int] = []
    for parts in (False, True):
        asked = [i for i in which if bool(row_groups[i]) == parts]
        readable = [i for i in asked if is_text(snapshot.paths[i])]
        left += sorted({*asked} - {*readable})
        yield from _read_there(workers, snapshot, readable, parts, left)
    yield from _read_here(storage, snapshot, left, row_groups)


def _read_there(
    workers: Workers, snapshot: Snapshot, which: Sequence[int], row_groups: bool, left: list[int]
) -> Iterator[list[_Found]]:
    """Read footers by workers; adds to `left` what they learn nothing of."""
    todo, reader = iter(which), PlainFooterReader()
    files = [(snapshot.paths[i], int(snapshot.sizes[i])) for i in which]
    for batch in workers.parse_files("read the footers", make_footer_parser(row_groups), files) if files else ():
        places = list(itertools.islice(todo, len(batch)))
        left += [i for i, plain in zip(places, batch, strict=True) if plain is None]
        told = ((i, plain) for i, plain in zip(places, batch, strict=True) if plain is not None)
        yield [(i, snapshot.file(i), reader.read(plain)) for i, plain in told]


def _read_here(storage: Storage, snapshot: Snapshot, which: Sequence[int], row_groups: Bools) -> Iterator[list[_Found]]:
    """Read footers batch by batch, in order, with a few batches under way at any time."""
    reader = FooterReader()

    def read_batch(places: Sequence[int]) -> list[_Found]:
        files = [snapshot.file(i) for i in places]
        wanted = row_groups[places].tolist()
        return [(i, f, _read(storage, reader, f, parts)) for i, f, parts in zip(places, files, wanted, strict=True)]

    under_way: collections.deque[Future[list[_Found]]] = collections.deque()
    far = storage.kind != "disk"
    threads = _FAR_THREADS if far else min(THREADS, os.cpu_count() or 1)
    size = _FAR_BATCH if far else _BATCH
    with ThreadPoolExecutor(threads, thread_name_prefix="zskip-footers") as pool:
        try:
            for start in range(0, len(which), size):
                under_way.append(pool.submit(read_batch, which[start : start + size]))
                if len(under_way) > 2 * threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def _read(storage: Storage, reader: FooterReader, file: DataFile, row_groups: bool) -> FooterStats | str:
    if not is_text(file.path):
        return "its name is not UTF-8"
    try:
        with storage.open(file.path, file.size) as stream:
            return reader.read(stream, file.size, row_groups=row_groups)
    except Exception as error:  # whatever a broken footer sets off must cost no more than its entry
        return " ".join(str(error).split()) or type(error).__name__


def _warn(unreadable: Sequence[str]) -> None:
    named = "; ".join(unreadable[:_NAMED])
    more = f" and {len(unreadable) - _NAMED} more" if len(unreadable) > _NAMED else ""
    message = f"no statistics of {named}{more}: every query will read such files"
    warnings.warn(message, ZskipWarning, stacklevel=4)
