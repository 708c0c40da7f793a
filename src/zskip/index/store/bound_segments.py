"""Segments bound to a snapshot: which live files they describe, by path, size, time and identity."""

from __future__ import annotations

import bisect
import copy
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zskip.errors import IndexFormatError, ZskipWarning
from zskip.index.store.leaves import Column
from zskip.index.store.listing import Listing
from zskip.index.store.segment import SegmentReader
from zskip.records import Ints, Snapshot

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_THREADS = 4
_MANY_FILES = 100_000
_FIRST_STEP = 256
_FILES_PER_RUN = 500
"""Files for each run of names, on average, below which names are hashed instead of compared in runs."""


def map_segments(work: Callable[[_In], _Out], items: Sequence[_In], *, files: int) -> list[_Out]:
    """Apply a function to each segment; in large indexes, to several at once."""
    if files < _MANY_FILES or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1), thread_name_prefix="zskip-segments") as pool:
        results = list(pool.map(work, items))
    pa.default_memory_pool().release_unused()
    return results


class BoundSegment:
    """A segment, and the position of each of its files in the snapshot."""

    def __init__(self, reader: SegmentReader, listing: Listing, live: Ints) -> None:
        self.reader = reader
        self.rows: Ints = listing.rows
        """(files of the segment,)"""
        self.schema: npt.NDArray[np.int32] = listing.schema
        """(files of the segment,) position in `Segment.schemas`."""
        self.row_groups = listing.row_groups
        """(files of the segment,) number within the data file, for segments of row groups."""
        self.live = live
        """(files of the segment,) position in the snapshot; -1 if the file is not live."""
        self._names: dict[bool, list[str]] = {}
        self._by_id: list[dict[int, int] | None] | None = None
        self._schemas = [frozenset(schema) for schema in reader.segment.schemas]

    def at(self, live: Ints) -> BoundSegment:
        """The same segment with other positions."""
        segment = copy.copy(self)
        segment.live = live
        return segment

    def listing(self) -> Listing:
        """Read the whole listing again, which is not kept because of its names."""
        return self.reader.listing(whole=True)

    def related(self, path: tuple[str, ...], case_sensitive: bool) -> list[list[int]]:
        """The columns, for each schema of the segment, that share a path's top-level column; path: folded."""
        names = self._names.get(case_sensitive)
        if names is None:
            names = fold_names(self.reader.segment.columns.tops(), case_sensitive)
            self._names[case_sensitive] = names
        related = positions_of(path[0], names)
        return [[number for number in related if number in schema] for schema in self._schemas]

    def columns_by_id(self, names: Mapping[tuple[str, ...], int]) -> list[dict[int, int] | None]:
        """The columns, for each schema of the segment, by the ids of their fields; None where ids are not known.

        names: the ids of the columns of files without ids, by path.
        """
        if self._by_id is None:
            columns = list(self.reader.segment.columns)
            self._by_id = [_by_id([(columns[i], i) for i in schema], names) for schema in self.reader.segment.schemas]
        return self._by_id


def _by_id(columns: Sequence[tuple[Column, int]], names: Mapping[tuple[str, ...], int]) -> dict[int, int] | None:
    ids = [column.id for column, _ in columns]
    if None in ids:
        return None
    if set(ids) == {-1}:
        ids = [names.get(column.path, -1) for column, _ in columns]
    by_id = {field_id: number for field_id, (_, number) in zip(ids, columns, strict=True) if field_id is not None}
    by_id.pop(-1, None)
    return by_id if len(by_id) == sum(field_id != -1 for field_id in ids) > 0 else None


def fold_names(names: list[str], case_sensitive: bool) -> list[str]:
    """Fold names to the form in which they are compared."""
    return names if case_sensitive else [name.lower() for name in names]


def positions_of(name: str, names: list[str]) -> list[int]:
    """All positions of a name, among thousands in a few microseconds.

    >>> positions_of("b", ["a", "b", "c", "b"])
    [1, 3]
    """
    positions: list[int] = []
    try:
        while True:
            positions.append(names.index(name, positions[-1] + 1 if positions else 0))
    except ValueError:
        return positions


def warn_damaged(error: IndexFormatError) -> None:
    """Warn that a part of the index is left out."""
    message = f"{error}; the files it describes are read in full. Refresh the index to mend it."
    warnings.warn(message, ZskipWarning, stacklevel=2)


class WarnOnce:
    """Warns about the first part of an index that is left out, and about no other."""

    def __init__(self) -> None:
        self.done = False

    def __call__(self, error: IndexFormatError) -> None:
        """Warn, unless that has been done."""
        if not self.done:
            self.done = True
            warn_damaged(error)


def bind_segments(
    snapshot: Snapshot, readers: Sequence[SegmentReader], warn: Callable[[IndexFormatError], None] = warn_damaged
) -> list[BoundSegment]:
    """Match the files of segments with the live ones, by path, size, modification time and identity.

    A segment with an unreadable listing is left out with a warning. If several segments describe a file, the last one
    counts.
    """
    results = _bind_each(snapshot, readers)
    bound = [segment for segment in results if isinstance(segment, BoundSegment)]
    damaged = [error for error in results if isinstance(error, IndexFormatError)]
    if damaged:
        warn(damaged[0])
    _keep_last(bound, len(snapshot))
    return bound


def _bind_each(snapshot: Snapshot, readers: Sequence[SegmentReader]) -> list[BoundSegment | IndexFormatError]:
    live = path_array(snapshot.paths) if readers else None

    def bind(reader: SegmentReader) -> BoundSegment | IndexFormatError:
        try:
            listing = reader.listing()
        except IndexFormatError as error:
            return error
        positions = match_live_files(
            snapshot, live, listing.paths, listing.sizes, listing.mtimes_ms, listing.identities
        )
        positions[listing.rows < 0] = -1
        return BoundSegment(reader, listing, positions)

    return map_segments(bind, readers, files=len(snapshot))


def _keep_last(bound: Sequence[BoundSegment], files: int) -> None:
    """Assign each file to the last segment that describes it."""
    owner = np.full(files, -1, np.int16 if len(bound) < 1 << 15 else np.int64)
    for i, segment in enumerate(bound):
        owner[segment.live[segment.live >= 0]] = i
    for i, segment in enumerate(bound[:-1]):
        positions = np.flatnonzero(segment.live >= 0)
        segment.live[positions[owner[segment.live[positions]] != i]] = -1


def match_live_files(
    snapshot: Snapshot, live: pa.Array, listed: pa.Array, sizes: Ints, mtimes_ms: Ints, identities: Ints
) -> Ints:
    """The position of each listed file in the snapshot; -1 if it is not the live file of that name.

    live: the snapshot's `path_array`; listed, sizes, mtimes_ms, identities: (listed files,).
    """
    positions = find_positions(listed, live, snapshot.paths)
    if not len(snapshot):
        return positions
    index = as_slice(positions)
    is_same = sizes == snapshot.sizes[index]
    is_same &= mtimes_ms == snapshot.mtimes_ms[index]
    if snapshot.identities is not None:
        live_identities = snapshot.identities[index]
        is_same &= (identities == live_identities) | (identities == 0) | (live_identities == 0)
    positions[~is_same] = -1
    return positions


def as_slice(positions: Ints) -> Ints | slice:
    """Consecutive positions as a slice, which copies faster."""
    if (
        len(positions)
        and positions[0] >= 0
        and positions[-1] - positions[0] == len(positions) - 1
        and (np.diff(positions) == 1).all()
    ):
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def find_positions(listed: pa.Array, live: pa.Array, paths: Sequence[str]) -> Ints:
    """The position of each name among the live ones; -1 if it is missing.

    live, paths: the live names in order, in both forms. Segments mostly list files that are also consecutive in the
    snapshot, so such runs are compared as a whole.

    >>> find_positions(pa.array(["a", "b", "x"]), pa.array(["a", "b", "c"]), ("a", "b", "c")).tolist()
    [0, 1, -1]
    """
    positions: Ints = np.full(len(listed), -1, np.int64)
    runs_left = 16 + (len(listed) + len(paths)) // _FILES_PER_RUN
    i = 0
    while i < len(listed):
        if not runs_left:
            positions[i:] = pc.index_in(listed.slice(i), value_set=live).fill_null(-1).to_numpy()
            break
        runs_left -= 1
        name = listed[i].as_py()
        start = bisect.bisect_left(paths, name)
        count = 1
        if start < len(paths) and paths[start] == name:
            count = _run_length(listed.slice(i), live.slice(start))
            positions[i : i + count] = np.arange(start, start + count)
        i += count
    return positions


def _run_length(a: pa.Array, b: pa.Array) -> int:
    """The number of equal names at the beginning."""
    done, step = 1, _FIRST_STEP
    while step := min(step, len(a) - done, len(b) - done):
        one, other = a.slice(done, step), b.slice(done, step)
        if not one.equals(other):
            return done + int(pc.index(pc.equal(one, other), False).as_py())
        done, step = done + step, 4 * step
    return done


def path_array(paths: Sequence[str]) -> pa.Array:
    """Paths as an Arrow array; empty for those that are not UTF-8."""
    try:
        return pa.array(paths, pa.string())
    except UnicodeEncodeError:
        return pa.array([path if is_text(path) else "" for path in paths], pa.string())


def is_text(path: str) -> bool:
    """Whether a path can be encoded as UTF-8; file systems also hold names that cannot."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
