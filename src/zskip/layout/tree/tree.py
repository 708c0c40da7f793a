"""The tree of cuts as flat arrays, and the walk of many rows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zskip.records import Ints

Int32s = npt.NDArray[np.int32]

_CHUNK_ROWS = 1 << 14
"""Rows whose walk stays in the processor's cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """A binary tree for each Hive partition, several of which may share one (Yang et al. 2020, "Qd-tree").

    A row whose rank in the node's column is at least the node's cut goes to the right. Nodes come after their parents,
    the nodes of one level together.
    """

    columns: Int32s
    """(nodes,) column of each inner node."""
    cuts: Int32s
    """(nodes,) the lowest rank that goes to the right."""
    left: Int32s
    """(nodes,) the node on the left; a leaf is its bitwise complement, ~leaf."""
    right: Int32s
    roots: Int32s
    """(partitions,) where the walk of each Hive partition starts; ~0 where all its rows are one leaf."""
    reasons: tuple[str, ...] = ()
    """For the first nodes, the query that gains most by the cut, in words."""

    # Not by `cached_property`: before Python 3.12 its lock keeps the class from being pickled by value.
    _steps: tuple[Ints, Int32s, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_steps", self._compile())

    def _compile(self) -> tuple[Ints, Int32s, int]:
        """Nodes as (column, cut) in one integer, their children side by side, and the levels below the roots.

        A leaf is a node of its own that leads to itself, so that all rows take the same number of steps.
        """
        inner, leaves = len(self.columns), self.leaf_count
        children = np.empty((inner + leaves, 2), np.int32)
        for side, numbers in enumerate((self.left, self.right)):
            children[:inner, side] = np.where(numbers < 0, inner + ~numbers, numbers)
        children[inner:] = np.arange(inner, inner + leaves, dtype=np.int32)[:, None]
        packed = np.full(inner + leaves, np.iinfo(np.int32).max, np.int64) << 8
        packed[:inner] = (self.cuts.astype(np.int64) << 8) | self.columns
        levels, frontier = 0, self.roots[self.roots >= 0]
        while len(frontier):
            below = np.unique(children[frontier])
            levels, frontier = levels + 1, below[below < inner]
        return packed, children.reshape(-1), levels

    @property
    def leaf_count(self) -> int:
        """Number of different leaves that the nodes name; a tree of one leaf has no node."""
        ends = np.concatenate([self.left, self.right, self.roots])
        return int((~ends[ends < 0]).max(initial=0)) + 1

    @property
    def levels(self) -> int:
        """The most steps from a root to a leaf."""
        return self._steps[2]

    def leaves(self, ranks: Sequence[Ints], partition: int | npt.NDArray[np.integer[Any]]) -> Ints:
        """The leaf of each row within its partition's tree: one NumPy step a level.

        ranks: for each column (rows,), null's last; partition: one ordinal for all rows, or (rows,).
        """
        packed, children, levels = self._steps
        inner, rows, width = len(self.columns), len(ranks[0]), len(ranks)
        starts = np.where(self.roots < 0, inner + ~self.roots, self.roots).astype(np.int32)[partition]
        leaves = np.empty(rows, np.int64)
        for first in range(0, rows, _CHUNK_ROWS):
            last = min(first + _CHUNK_ROWS, rows)
            matrix = np.empty((last - first, width), np.int32)
            for column, of_column in enumerate(ranks):
                matrix[:, column] = of_column[first:last]
            flat = matrix.reshape(-1)
            offsets = np.arange(last - first, dtype=np.int64) * width
            node = np.full(last - first, starts) if np.ndim(starts) == 0 else starts[first:last]
            for _ in range(levels):
                step = packed[node]
                is_right = flat[offsets + (step & 0xFF)] >= (step >> 8)
                node = children[2 * node + is_right]
            leaves[first:last] = node
        return cast(Ints, leaves - inner)

    def to_document(self) -> dict[str, Any]:
        """The tree for JSON."""
        arrays = {name: getattr(self, name).tolist() for name in ("columns", "cuts", "left", "right", "roots")}
        return {**arrays, "reasons": list(self.reasons)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Tree:
        """Read what `to_document` wrote."""
        names = ("columns", "cuts", "left", "right", "roots")
        arrays = {name: np.array(document[name], np.int32) for name in names}
        return cls(**arrays, reasons=tuple(str(reason) for reason in document["reasons"]))
