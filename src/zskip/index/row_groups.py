"""Which row groups of the kept files a query has to read: their statistics, evaluated as if each were a file.

A file whose row groups are not all known is read whole.
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

    of_file: Mapping[int, tuple[int, ...]]
    """By the place of a kept file in the snapshot; without those that must be read whole."""
    counts: Ints
    """(files,) of the snapshot: row groups that the index lists."""
    total: int | None
    """Row groups of all files; None where those of any file are unknown."""


def prune_row_groups(bound: BoundIndex, predicate: Predicate, kept: Bools) -> KeptRowGroups | None:
    """Decide for the row groups of the kept files whether some row might match; None for an index of files alone.

    kept: (files,) what `BoundIndex.prune` says.
    """
    if bound.row_groups is None:
        return None
    segments = bind_segments(bound.snapshot, bound.row_groups, bound.warn)
    counts, known = _known(bound, segments)
    if bound.snapshot.altered is not None:
        known &= ~bound.snapshot.altered
    wanted = known & kept
    seen = _BoundRowGroups(bound, segments, wanted)
    may_match = prune(predicate, seen).kept
    found: dict[int, list[int]] = {file: [] for file in np.flatnonzero(wanted).tolist()}
    order = np.argsort(seen.numbers[may_match], kind="stable")
    files, numbers = seen.files_of[may_match][order], seen.numbers[may_match][order]
    for file, number in zip(files.tolist(), numbers.tolist(), strict=True):
        found[file].append(number)
    return KeptRowGroups(
        of_file={file: tuple(held) for file, held in found.items()},
        counts=counts,
        total=int(counts.sum()) if known.all() else None,
    )


def _known(bound: BoundIndex, segments: Sequence[BoundSegment]) -> tuple[Ints, Bools]:
    """(files,) how many row groups segments list of each file, and whether these are all that it has.

    They are numbered from 0, and their rows add up to those of the file.
    """
    used = [(segment, segment.live >= 0) for segment in segments]
    files = _joined([segment.live[live] for segment, live in used])
    numbers = _joined([_numbers(segment)[live] for segment, live in used])
    rows: Ints = np.zeros(len(bound.snapshot), np.int64)
    np.add.at(rows, files, _joined([segment.rows[live] for segment, live in used]))
    known = (bound.rows >= 0) & (rows == bound.rows)
    counts: Ints = np.bincount(files, minlength=len(rows))
    order = np.lexsort((numbers, files))
    files, numbers = files[order], numbers[order]
    first = np.cumsum(counts) - counts
    known[files[numbers != np.arange(len(files)) - first[files]]] = False
    return counts, known


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _numbers(segment: BoundSegment) -> Ints:
    assert segment.row_groups is not None, "segments of row groups number them"
    return segment.row_groups.astype(np.int64)


class _BoundRowGroups(BoundIndex):
    """What is known of the row groups of some files, which take the place of files.

    What is true of the table as a whole is asked of the index of its files.
    """

    def __init__(self, whole: BoundIndex, segments: Sequence[BoundSegment], files: Bools) -> None:
        placed: list[BoundSegment] = []
        files_of: list[Ints] = []
        numbers: list[Ints] = []
        offset = 0
        for segment in segments:
            used = segment.live >= 0
            used[used] = files[segment.live[used]]
            placed.append(segment.at(np.where(used, offset + np.cumsum(used) - 1, -1)))
            files_of.append(segment.live[used])
            numbers.append(_numbers(segment)[used])
            offset += int(used.sum())
        self.files_of: Ints = _joined(files_of)
        """(row groups,) place of the file in the snapshot."""
        self.numbers: Ints = _joined(numbers)
        """(row groups,) number within the file."""
        self._whole = whole
        # Each row group stands for its file; what the format says of that is not true of its parts.
        snapshot = replace(whole.snapshot.take(self.files_of), known=None)
        super().__init__(snapshot, placed, version=0, size=0, case_sensitive=whole.case_sensitive, warn=whole.warn)

    def type_of(self, path: tuple[str, ...]) -> DataType | None:
        """The table's type of a column."""
        return self._whole.type_of(path)

    def may_default(self, path: tuple[str, ...]) -> bool:
        """Whether files without a column may hold a default in it."""
        return self._whole.may_default(path)
