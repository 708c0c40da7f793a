"""The row groups of the kept files that a query has to read, by their statistics, evaluated as if each were a file.

A file is read whole unless all its row groups are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zskip.index.bound_index import BoundIndex
from zskip.index.store.bound_segments import BoundSegment, bind_segments
from zskip.predicate import Predicate
from zskip.prune import prune
from zskip.records import Bools, Ints
from zskip.types import DataType


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class KeptRowGroups:
    """The row groups that a query has to read."""

    by_file: Mapping[int, tuple[int, ...]]
    """By a kept file's position in the snapshot; files that must be read whole are missing."""
    counts: Ints
    """(files of the snapshot,) the number of row groups in the index."""
    total: int | None
    """The row groups of all files; None if those of any file are unknown."""


def prune_row_groups(bound: BoundIndex, predicate: Predicate, kept: Bools) -> KeptRowGroups | None:
    """Decide for the kept files' row groups whether some row might match; None if the index describes only files.

    kept: (files,) result of `BoundIndex.prune`.
    """
    if bound.row_groups is None:
        return None
    segments = bind_segments(bound.snapshot, bound.row_groups, bound.warn)
    counts, known = _known(bound, segments)
    known = bound.snapshot.reading.drop_changed(known)
    pruned = known & kept
    row_groups = _BoundRowGroups(bound, segments, pruned)
    sketches = bound.sketches
    places = None if sketches is None else sketches.of_parts(predicate, row_groups.files_of, row_groups.ends)
    may_match = prune(predicate, row_groups, places).kept
    kept_numbers: dict[int, list[int]] = {file: [] for file in np.flatnonzero(pruned).tolist()}
    files, numbers = row_groups.files_of[may_match], row_groups.numbers[may_match]
    for file, number in zip(files.tolist(), numbers.tolist(), strict=True):
        kept_numbers[file].append(number)
    return KeptRowGroups(
        by_file={file: tuple(ids) for file, ids in kept_numbers.items()},
        counts=counts,
        total=int(counts.sum()) if known.all() else None,
    )


def _known(bound: BoundIndex, segments: Sequence[BoundSegment]) -> tuple[Ints, Bools]:
    """(files,) the number of row groups in segments, and whether they are complete.

    Complete ones are numbered from 0, and their rows add up to those of the file.
    """
    live_files = [(segment, segment.live >= 0) for segment in segments]
    files = _concatenate([segment.live[live] for segment, live in live_files])
    numbers = _concatenate([_numbers(segment)[live] for segment, live in live_files])
    rows: Ints = np.zeros(len(bound.snapshot), np.int64)
    np.add.at(rows, files, _concatenate([segment.rows[live] for segment, live in live_files]))
    known = (bound.rows >= 0) & (rows == bound.rows)
    counts: Ints = np.bincount(files, minlength=len(rows))
    order = np.lexsort((numbers, files))
    files, numbers = files[order], numbers[order]
    first = np.cumsum(counts) - counts
    known[files[numbers != np.arange(len(files)) - first[files]]] = False
    return counts, known


def _concatenate(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _numbers(segment: BoundSegment) -> Ints:
    assert segment.row_groups is not None, "segments of row groups number them"
    return segment.row_groups.astype(np.int64)


class _BoundRowGroups(BoundIndex):
    """The statistics of some files' row groups, which take the place of files.

    Questions about the table as a whole go to the index of its files.
    """

    def __init__(self, whole: BoundIndex, segments: Sequence[BoundSegment], files: Bools) -> None:
        used = [np.isin(segment.live, np.flatnonzero(files)) for segment in segments]
        parts = list(zip(segments, used, strict=True))
        files_of = _concatenate([segment.live[mask] for segment, mask in parts])
        numbers = _concatenate([_numbers(segment)[mask] for segment, mask in parts])
        order = np.lexsort((numbers, files_of))
        self.files_of: Ints = files_of[order]
        """(row groups,) position of the file in the snapshot, ascending."""
        self.numbers: Ints = numbers[order]
        """(row groups,) number within the file, ascending."""
        places, bound_segments = np.split(np.argsort(order), np.cumsum([mask.sum() for mask in used])[:-1]), []
        for (segment, mask), own in zip(parts, places, strict=False):
            live: Ints = np.full(len(mask), -1, np.int64)
            live[mask] = own
            bound_segments.append(segment.at(live))
        self._whole = whole
        # Each row group stands for its file; the format's statistics of the file do not hold for its parts.
        snapshot = replace(whole.snapshot.take(self.files_of), known=None)
        super().__init__(
            snapshot,
            bound_segments,
            version=0,
            size=0,
            case_sensitive=whole.case_sensitive,
            warn=whole.warn,
        )
        ends = np.cumsum(self.rows)
        is_first = np.diff(self.files_of, prepend=-1) > 0
        self.ends: Ints = ends - (ends - self.rows)[is_first][np.cumsum(is_first) - 1]
        """(row groups,) the rows of the file up to the end of each."""

    def type_of(self, path: tuple[str, ...]) -> DataType | None:
        """The table's type of a column."""
        return self._whole.type_of(path)

    def may_default(self, path: tuple[str, ...]) -> bool:
        """Whether files without a column may hold a default in it."""
        return self._whole.may_default(path)
