"""Read the footers of many files, in parallel, into segments."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from zskip.errors import ZskipWarning
from zskip.index.builder import MAX_ENTRIES, SegmentBuilder
from zskip.index.footers import FooterReader, FooterStats
from zskip.index.match import is_text
from zskip.index.segment import Segment
from zskip.records import DataFile, Snapshot
from zskip.storage import Storage

Progress = Callable[[int, int], None]
"""Called with the number of files read and the number of all."""

THREADS = 8
"""Parsing holds the interpreter's lock, so that more threads only help where files are far away."""

_BATCH = 64
_NAMED = 3


def collect(
    storage: Storage,
    snapshot: Snapshot,
    which: Sequence[int],
    progress: Progress | None = None,
    index_storage: Storage | None = None,
) -> list[Segment]:
    """Read the footers of the files at the places `which` and write what they say to new segments.

    index_storage: where the index lies, if not in the table.

    A file that cannot be read gets no entry, and all such files together one ZskipWarning. Raises StorageError
    where the segments cannot be written.
    """
    home = index_storage or storage
    segments: list[Segment] = []
    builder = SegmentBuilder()
    unreadable: list[str] = []
    done = 0
    for batch in _read_all(storage, snapshot, which):
        for file, found in batch:
            if isinstance(found, FooterStats):
                builder.add(file, found, snapshot.version)
            else:
                unreadable.append(f"{ascii(file.path)[1:-1]} ({found})")
        if builder.entries >= MAX_ENTRIES:
            segments.append(builder.finish(home))
            builder = SegmentBuilder()
        done += len(batch)
        if progress is not None:
            progress(done, len(which))
    if len(builder):
        segments.append(builder.finish(home))
    if unreadable:
        _warn(unreadable)
    return segments


def _read_all(
    storage: Storage, snapshot: Snapshot, which: Sequence[int]
) -> Iterator[list[tuple[DataFile, FooterStats | str]]]:
    """Read footers batch by batch, in order, with a few batches under way at any time."""
    reader = FooterReader()

    def read_batch(places: Sequence[int]) -> list[tuple[DataFile, FooterStats | str]]:
        files = [snapshot.file(i) for i in places]
        return [(file, _read(storage, reader, file)) for file in files]

    under_way: collections.deque[Future[list[tuple[DataFile, FooterStats | str]]]] = collections.deque()
    with ThreadPoolExecutor(THREADS, thread_name_prefix="zskip-footers") as pool:
        try:
            for start in range(0, len(which), _BATCH):
                under_way.append(pool.submit(read_batch, which[start : start + _BATCH]))
                if len(under_way) > 2 * THREADS:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def _read(storage: Storage, reader: FooterReader, file: DataFile) -> FooterStats | str:
    if not is_text(file.path):
        return "its name is not UTF-8"
    try:
        with storage.open(file.path) as stream:
            return reader.read(stream, file.size)
    except Exception as error:  # whatever a broken footer sets off must cost no more than its entry
        return " ".join(str(error).split()) or type(error).__name__


def _warn(unreadable: Sequence[str]) -> None:
    named = "; ".join(unreadable[:_NAMED])
    more = f" and {len(unreadable) - _NAMED} more" if len(unreadable) > _NAMED else ""
    message = f"no statistics of {named}{more}: every query will read such files"
    warnings.warn(message, ZskipWarning, stacklevel=4)
