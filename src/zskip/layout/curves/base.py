"""The protocol of curves, which order the rows of a table and cut them into files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from zskip.layout.cells import Keys
from zskip.layout.patterns import Pattern, Words, interleave_words, spread
from zskip.layout.tree.tree import Int32s, Tree
from zskip.layout.workload import Workload
from zskip.records import Ints, Sample, Values

Partition = int | npt.NDArray[np.integer[Any]]
"""One ordinal of a Hive partition for all rows, or (rows,)."""
CountCuts = Callable[[Keys, Partition], Ints]
"""Counts the cuts at or below each key among those of its partition."""
Bounds = tuple[Values, ...]
"""For each column its distinct split values, ascending."""
Guide: TypeAlias = "tuple[Curve, Bounds] | None"
Grown: TypeAlias = "tuple[Curve, Bounds, list[Int32s] | None]"
"""The curve, its bounds, and for each partition the files of its segments; None to have cuts of the key fitted."""


class Curve(ABC):
    """A curve: the codes of a row's columns give its key, and the key, or the ranks, the segment that the row is in.

    A subclass has a `name` and a `pattern`: then a key is the bits of the codes in the pattern's order. One that makes
    other keys overrides `table`, `keys` and `byte_keys`, and is not separable. One that needs more than its name to
    place rows has fields, `to_document` and `from_document`.
    """

    name: ClassVar[str]
    """As users and stored layouts write it."""
    least_columns: ClassVar[int] = 2
    is_separable: ClassVar[bool] = True
    """Whether a key of ranks is the OR of one entry of each column's `table`, and tells the segment."""
    is_lexicographic: ClassVar[bool] = False
    """Whether rows lie by the first column, and by the next only where that is equal."""
    has_boxes: ClassVar[bool] = True
    """Whether the pages of a file may be boxes, by the codes in the keys, rather than runs of keys."""
    needs_workload: ClassVar[bool] = False
    """Whether it is fitted to queries: then new rows follow the cuts of the table's last layout."""
    margin: ClassVar[float] = 1.0
    """It is chosen only if it reads less than this share of what the best other curve reads."""
    format: ClassVar[int] = 1
    """The version of stored layouts that have it."""
    tree: Tree | None = None
    """The tree of cuts that rows are placed by, if any."""

    @staticmethod
    @abstractmethod
    def pattern(widths: Sequence[int], bits: int) -> Pattern:
        """Lay out a key of at most `bits` bits; widths: the bits that tell the values of each column apart."""

    def table(self, codes: Ints, pattern: Pattern, column: int) -> Ints:
        """Prepare the codes of a column's ranks, (ranks,), for `keys`."""
        return spread(codes, pattern, column)

    def keys(self, parts: Iterable[Ints], pattern: Pattern) -> Ints:
        """Compute the keys of rows; parts: for each column (rows,) entries of its table, which may be overwritten."""
        columns = iter(parts)
        keys = next(columns)
        for part in columns:
            keys |= part
        return keys

    def byte_keys(self, words: Sequence[Words], pattern: Pattern) -> npt.NDArray[np.bytes_]:
        """Compute the keys of rows without a sample; words: for each column (rows,)."""
        return interleave_words(words, pattern)

    def segments(self, ranks: Sequence[Ints], keys: Keys, partition: Partition, count_cuts: CountCuts) -> Ints:
        """Find the segment of each row among those of its partition."""
        return count_cuts(keys, partition)

    @classmethod
    def grow(cls, sample: Sample, files: Ints, workload: Workload | None, bounds: Bounds, guide: Guide) -> Grown:
        """Fit the curve to a sample, if it has more than a name.

        files: (partitions,), at least 1; workload: over the dense ranks of the sample, known if `needs_workload`;
        guide: a layout of the same columns, whose cuts are reused as far as there are rows for them.
        """
        return cls(), bounds, None

    def to_document(self) -> dict[str, Any]:
        """Return what the JSON of a layout holds for it besides its name."""
        return {}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Curve:
        """Read it from the JSON of a layout."""
        return cls()
