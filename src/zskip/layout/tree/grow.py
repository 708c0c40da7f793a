"""Grow a tree of cuts: greedily, each cut where the most rows times queries miss one of its sides.

After Yang et al. 2020, "Qd-tree: Learning Data Layouts for Big Data Analytics" (SIGMOD).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from zskip.layout.program import SMALLEST, own_files
from zskip.layout.tree.queries import FREE_HIGH, FREE_LOW, Box, TreeQueries
from zskip.layout.tree.tree import Int32s, Tree
from zskip.records import Bools, Floats, Ints

_QUANTILES = 16
"""Cuts are tried between this many parts of a node's rows, and at the ends of queries."""
_EXACT = 3
"""Cuts of each column whose gain is computed by the boxes of both sides."""


@dataclass(kw_only=True, slots=True, eq=False)
class Node:
    """A node of a growing tree."""

    size: float
    """Rows below it, in files."""
    column: int = -1
    cut: int = 0
    """The lowest dense rank that goes to the right."""
    gain: float = 0.0
    """Rows times queries that the cut saves."""
    reason: str = ""
    guide: int = -1
    """The node of the guide with the same cut."""
    children: tuple[int, ...] = ()
    """Left and right; empty for a leaf."""
    files: int = 1
    """Files of a leaf; more than one if a value with more rows than a file keeps the leaf whole."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Guide:
    """A tree over the same ranks, whose cuts are reused where there are rows for them, and the node to start from."""

    tree: Tree
    root: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Piece:
    """The rows below a node, and the queries that a cut may help."""

    ranks: Int32s
    """(columns, rows), those of `TreeQueries.null_columns` last, as 0 and 1."""
    sizes: Floats
    """(rows,) in files."""
    queries: Ints
    nominal: Box
    """The part of the domain that the cuts above leave."""
    guide: int
    """The node of the guide; below 0 at its leaves."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Division:
    """A cut of a piece, and its savings."""

    column: int
    cut: int
    is_right: Bools
    boxes: tuple[Box, Box]
    meets: tuple[Bools, Bools]
    """For each side (queries,)."""
    gains: Floats
    """(queries,)."""
    merit: tuple[float, float]
    """The sum of the gains, and the size of the smaller side."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Grower:
    """Grows trees over a sample's dense ranks for a workload."""

    queries: TreeQueries
    null_ranks: Ints
    """For each column the rank of null, after that of the last value."""
    uncut: Ints
    """For each column a rank that no cut can have, such as NaN's; -1 where there is none."""
    guide: Guide | None = None

    def grow(self, ranks: Int32s, sizes: Floats) -> list[Node]:
        """Cut until no piece can be divided into two of at least half a file; nodes come after their parents.

        ranks: (columns, rows); sizes: (rows,) what each row stands for, in files.
        """
        null_columns = self.queries.null_columns
        is_null = ranks[null_columns] == self.null_ranks[null_columns, None]
        width = len(ranks) + len(null_columns)
        root = _Piece(
            ranks=np.concatenate([ranks, is_null.astype(np.int32)]),
            sizes=sizes,
            queries=np.arange(len(self.queries)),
            nominal=Box(low=np.full(width, FREE_LOW), high=np.full(width, FREE_HIGH)),
            guide=-1 if self.guide is None else self.guide.root,
        )
        nodes, open_ = [Node(size=float(sizes.sum()))], [(0, root)]
        while open_:
            number, piece = open_.pop()
            node = nodes[number]
            if node.size < 2 * SMALLEST:
                continue
            piece, division = self._choose_division(piece, node.size)
            if division is None:
                node.files = int(own_files(np.array([node.size]))[0])
                continue
            node.column, node.cut = self._sample_cut(division)
            node.gain, node.guide = division.merit[0], piece.guide
            node.reason = self.queries.reason(piece.queries, division.gains)
            node.children = (len(nodes), len(nodes) + 1)
            for side in (0, 1):
                child = self._take_side(piece, division, side)
                open_.append((len(nodes), child))
                nodes.append(Node(size=float(child.sizes.sum())))
        return nodes

    def _sample_cut(self, division: _Division) -> tuple[int, int]:
        """Convert a cut to a column and rank of the sample."""
        columns = len(self.null_ranks)
        if division.column < columns:
            return division.column, division.cut
        column = self.queries.null_columns[division.column - columns]
        return column, int(self.null_ranks[column])

    def _choose_division(self, piece: _Piece, size: float) -> tuple[_Piece, _Division | None]:
        """Choose the best cut of a piece, skipping unusable nodes of the guide; None if no cut leaves enough rows."""
        while self.guide is not None and piece.guide >= 0:
            tree = self.guide.tree
            guided = self._evaluate(piece, size, int(tree.columns[piece.guide]), int(tree.cuts[piece.guide]))
            if guided.merit[1] >= SMALLEST:
                return piece, guided
            is_right = 2 * float(piece.sizes[guided.is_right].sum()) > size
            below = int((tree.right if is_right else tree.left)[piece.guide])
            piece = replace(piece, guide=below)
        divisions = (self._evaluate(piece, size, *cut) for cut in self._find_candidates(piece, size))
        return piece, max(divisions, key=lambda division: division.merit, default=None)

    def _find_candidates(self, piece: _Piece, size: float) -> list[tuple[int, int]]:
        """Find the cuts of each column that save most by this column alone."""
        candidates: list[tuple[int, int]] = []
        rows = len(piece.sizes)
        order = np.argsort(piece.ranks, axis=1)
        steps = np.arange(1, _QUANTILES) * rows // _QUANTILES
        for column, by_rank in enumerate(order):
            ranks = piece.ranks[column][by_rank]
            if ranks[0] == ranks[-1]:
                continue
            quantiles = ranks[steps]
            cuts = np.unique(np.concatenate([*self.queries.ends(piece.queries, column), quantiles, quantiles + 1]))
            left = np.cumsum(piece.sizes[by_rank])
            cuts = cuts[(cuts > ranks[0]) & (cuts <= ranks[-1])]
            if column < len(self.uncut):
                cuts = cuts[cuts != self.uncut[column]]
            sizes = left[np.searchsorted(ranks, cuts) - 1]
            enough = (sizes >= SMALLEST - 1e-9) & (size - sizes >= SMALLEST - 1e-9)
            cuts, sizes = cuts[enough], sizes[enough]
            if not len(cuts):
                continue
            missing = self.queries.missing(piece.queries, column, cuts)
            gains = sizes * missing[0] + (size - sizes) * missing[1]
            best = np.lexsort((-np.minimum(sizes, size - sizes), -gains))[:_EXACT]
            candidates += [(column, cut) for cut in cuts[best].tolist()]
        return candidates

    def _evaluate(self, piece: _Piece, size: float, column: int, cut: int) -> _Division:
        is_right = piece.ranks[column] >= cut
        right = float(piece.sizes[is_right].sum())
        left = size - right
        boxes = self._bound_rows(piece, ~is_right, column, cut, 0), self._bound_rows(piece, is_right, column, cut, 1)
        meets = self.queries.met(piece.queries, boxes[0]), self.queries.met(piece.queries, boxes[1])
        missed = [self.queries.missing_weights(piece.queries, side) for side in meets]
        gains = left * missed[0] + right * missed[1]
        return _Division(
            column=column,
            cut=cut,
            is_right=is_right,
            boxes=boxes,
            meets=meets,
            gains=gains,
            merit=(float(gains.sum()), min(left, right)),
        )

    def _bound_rows(self, piece: _Piece, chosen: Bools, column: int, cut: int, side: int) -> Box:
        """Bound some rows by a box, stretched by the expected gap to the rows that were not sampled."""
        nominal = _half(piece.nominal, column, cut, side)
        low, high = nominal.low, nominal.high
        ranks = piece.ranks[:, chosen]
        if not ranks.shape[1]:
            return Box(low=low, high=np.full(len(high), -3))
        lowest, highest = ranks.min(axis=1), ranks.max(axis=1)
        for nullable in np.flatnonzero(highest[: len(self.null_ranks)] == self.null_ranks).tolist():
            values = ranks[nullable]
            highest[nullable] = np.where(values == self.null_ranks[nullable], -1, values).max()
        gap = np.maximum(2 * (highest - lowest), 0) // max(ranks.shape[1] - 1, 1)
        return Box(low=np.maximum(low, 2 * lowest - gap), high=np.minimum(high, 2 * highest + gap))

    def _take_side(self, piece: _Piece, division: _Division, side: int) -> _Piece:
        chosen = division.is_right if side else ~division.is_right
        box = division.boxes[side]
        guide = -1
        if self.guide is not None and piece.guide >= 0:
            guide = int((self.guide.tree.right if side else self.guide.tree.left)[piece.guide])
        met = piece.queries[division.meets[side]]
        return _Piece(
            ranks=np.ascontiguousarray(piece.ranks[:, chosen]),
            sizes=piece.sizes[chosen],
            queries=self.queries.helped(met, box),
            nominal=_half(piece.nominal, division.column, division.cut, side),
            guide=guide,
        )


def _half(box: Box, column: int, cut: int, side: int) -> Box:
    """The left or the right side of a cut."""
    low, high = box.low.copy(), box.high.copy()
    if side:
        low[column] = max(low[column], 2 * cut - 1)
    else:
        high[column] = min(high[column], 2 * cut - 2)
    return Box(low=low, high=high)
