"""Fit a tree of cuts to a sample and a workload, one for each Hive partition with enough sampled rows."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zskip.layout.program import LARGEST
from zskip.layout.ranks import dense_ranks, position
from zskip.layout.tree.grow import Grower, Guide, Node
from zskip.layout.tree.queries import TreeQueries
from zskip.layout.tree.tree import Int32s, Tree
from zskip.layout.workload import Workload
from zskip.records import Ints, Sample, Values

_LEAST_ROWS = 20
"""A partition with at least this many sampled rows a file gets a tree of its own."""
_EXPLAINED = 15
"""Nodes that keep the reason for their cut: four levels."""

Cut = tuple[int, Any]
"""A column, and the lowest value that goes to the right; None if only nulls do."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _GrownTree:
    """One tree; its cuts are indices into `_Forest.cuts`."""

    table: Ints
    """(nodes, 3) cut, left and right; a leaf is its bitwise complement."""
    spread: npt.NDArray[np.int32]
    """(leaves,) files of each leaf."""
    reasons: list[str]


def grow_trees(
    sample: Sample,
    files: Ints,
    workload: Workload,
    bounds: Sequence[Values],
    guide: tuple[Tree, Sequence[Values]] | None = None,
) -> tuple[Tree, tuple[Values, ...], list[npt.NDArray[np.int32]]]:
    """Grow one tree of cuts for each partition, joined into one.

    files: (partitions,), at least 1; workload: over the dense ranks of the sample; bounds: of each column, to which the
    values of the cuts are added; guide: another tree and its bounds, whose cuts are reused as far as the sample has
    rows for them. Returns the tree, its bounds, and for each partition the files of each leaf.
    """
    forest = _Forest(sample, workload, guide)
    trees = forest.grow(files)
    cut_values = [
        np.unique(forest.values(d, [value for column, value in forest.cuts if column == d and value is not None]))
        for d in range(len(sample.fields))
    ]
    all_bounds = tuple(np.union1d(b, values) for b, values in zip(bounds, cut_values, strict=True))
    return _join_trees(trees, forest.cuts, all_bounds), all_bounds, [tree.spread for tree in trees]


class _Forest:
    """Grows the trees of all partitions over the dense ranks of one sample."""

    def __init__(self, sample: Sample, workload: Workload, guide: tuple[Tree, Sequence[Values]] | None) -> None:
        self._sample = sample
        self._ends = workload.ends
        dense = [dense_ranks(values, nulls) for values, nulls in zip(sample.columns, sample.nulls, strict=True)]
        self._distinct = [distinct for distinct, _ in dense]
        null_ranks = np.array([len(distinct) for distinct in self._distinct], np.int64)
        self._ranks: Int32s = np.array(
            [np.where(ranks < 0, null, ranks) for (_, ranks), null in zip(dense, null_ranks, strict=True)], np.int32
        )
        nan = [
            len(distinct) - 1 if len(distinct) and distinct[-1] != distinct[-1] else -1 for distinct in self._distinct
        ]
        self._guide = guide
        self._grower = Grower(
            queries=TreeQueries(workload),
            null_ranks=null_ranks,
            uncut=np.array(nan, np.int64),
            guide=None if guide is None else self._rank_guide(*guide),
        )
        self.cuts: list[Cut] = []
        """The cuts of all nodes of all trees."""

    def values(self, column: int, values: Sequence[Any]) -> Values:
        """Convert values to an array with the dtype of a column."""
        array: Any = np.empty(len(values), self._sample.columns[column].dtype)
        array[:] = values
        return cast(Values, array)

    def grow(self, file_counts: Ints) -> list[_GrownTree]:
        """Grow a tree for each partition; those with too few sampled rows share one by their number of files."""
        sample = self._sample
        sampled_rows = np.bincount(sample.partition, minlength=len(file_counts))
        sparse = (file_counts > 1) & (sampled_rows < _LEAST_ROWS * file_counts)
        single = _GrownTree(table=np.empty((0, 3), np.int64), spread=np.ones(1, np.int32), reasons=[])
        trees = [single] * len(file_counts)
        by_partition = np.argsort(sample.partition, kind="stable")
        starts = np.concatenate([[0], np.cumsum(sampled_rows)])
        for partition in np.flatnonzero((file_counts > 1) & ~sparse).tolist():
            rows = by_partition[starts[partition] : starts[partition + 1]]
            trees[partition] = self._grow_tree(rows, int(file_counts[partition]))
        pooled = np.flatnonzero(sparse[sample.partition])
        for files in np.unique(file_counts[sparse]).tolist() if len(pooled) else []:
            shared = self._grow_tree(pooled, files)
            for partition in np.flatnonzero(sparse & (file_counts == files)).tolist():
                trees[partition] = shared
        return trees

    def _grow_tree(self, rows: Ints, files: int) -> _GrownTree:
        weights = self._sample.weights[rows]
        nodes = self._grower.grow(np.ascontiguousarray(self._ranks[:, rows]), weights * (files / weights.sum()))
        _join_leaves(nodes, files)
        ends, inner, leaves = _breadth_first(nodes)
        table = np.column_stack([np.arange(len(inner)) + len(self.cuts), ends])
        self.cuts += [self._cut_value(nodes[number]) for number in inner]
        return _GrownTree(
            table=table,
            spread=np.array([nodes[number].files for number in leaves], np.int32),
            reasons=[nodes[number].reason for number in inner[:_EXPLAINED]],
        )

    def _cut_value(self, node: Node) -> Cut:
        """Choose the value of a cut: between the sampled values, the query end with the most weight."""
        column, cut, distinct = node.column, node.cut, self._distinct[node.column]
        if cut >= len(distinct):
            return column, None
        if node.guide >= 0 and self._guide is not None:
            tree, bounds = self._guide
            return column, bounds[column][tree.cuts[node.guide] - 1]
        if self._ends:
            ends, weights = self._ends[column]
            first, last = (int(np.searchsorted(ends, distinct[i : i + 1], "right")[0]) for i in (cut - 1, cut))
            if last > first:
                return column, ends[first + int(np.argmax(weights[first:last]))]
        return column, distinct[cut]

    def _rank_guide(self, tree: Tree, bounds_of_tree: Sequence[Values]) -> Guide:
        """Express the cuts of a tree as dense ranks of the sample."""
        cuts = np.empty(len(tree.cuts), np.int32)
        for column, (distinct, bounds) in enumerate(zip(self._distinct, bounds_of_tree, strict=True)):
            in_column = tree.columns == column
            ranks = np.append(np.searchsorted(distinct, bounds, "left"), len(distinct))
            cuts[in_column] = ranks[tree.cuts[in_column] - 1]
        root = 0 if len(cuts) else -1
        arrays = {name: getattr(tree, name) for name in ("columns", "left", "right", "roots")}
        return Guide(tree=Tree(**arrays, cuts=cuts), root=root)


def _join_trees(trees: Sequence[_GrownTree], cuts: Sequence[Cut], bounds: Sequence[Values]) -> Tree:
    """Join all trees into one, the largest first."""
    distinct = sorted({id(tree): tree for tree in trees if len(tree.table)}.values(), key=lambda t: -len(t.table))
    starts = np.concatenate([[0], np.cumsum([len(tree.table) for tree in distinct])]).astype(np.int64)
    start_of = {id(tree): int(start) for tree, start in zip(distinct, starts, strict=False)}
    parts = [
        np.column_stack([tree.table[:, 0], *(np.where(e < 0, e, e + start) for e in tree.table[:, 1:].T)])
        for tree, start in zip(distinct, starts.tolist(), strict=False)
    ]
    table = np.concatenate(parts) if parts else np.empty((0, 3), np.int64)
    used_cuts = [cuts[number] for number in table[:, 0].tolist()]
    ranks = [
        len(bounds[column]) + 1 if value is None else position(bounds[column], value, "left") + 1
        for column, value in used_cuts
    ]
    return Tree(
        columns=np.array([column for column, _ in used_cuts], np.int32),
        cuts=np.array(ranks, np.int32),
        left=table[:, 1].astype(np.int32),
        right=table[:, 2].astype(np.int32),
        roots=np.array([start_of.get(id(tree), ~0) for tree in trees], np.int32),
        reasons=tuple(distinct[0].reasons) if distinct else (),
    )


def _join_leaves(nodes: Sequence[Node], files: int) -> None:
    """Make leaves of nodes, those whose cut saves least first, until at most `files` files are left.

    Leaves are larger than `LARGEST` only where they must be.
    """
    parents = {child: number for number, node in enumerate(nodes) for child in node.children}
    count = sum(node.files for node in nodes if not node.children)
    open_: list[tuple[float, float, int]] = []

    def offer(number: int) -> None:
        node = nodes[number]
        if node.children and not any(nodes[child].children for child in node.children):
            heapq.heappush(open_, (max(node.size, LARGEST), node.gain, number))

    for number in range(len(nodes)):
        offer(number)
    while count > files and open_:
        number = heapq.heappop(open_)[2]
        node = nodes[number]
        count += node.files - sum(nodes[child].files for child in node.children)
        node.children = ()
        if number in parents:
            offer(parents[number])


def _breadth_first(nodes: Sequence[Node]) -> tuple[Ints, list[int], list[int]]:
    """Both ends of each inner node, (nodes, 2), a leaf as its complement; the inner nodes by level; the leaves."""
    inner, leaves = [0] if nodes[0].children else [], [] if nodes[0].children else [0]
    table = []
    for number in inner:
        ends = []
        for child in nodes[number].children:
            if nodes[child].children:
                ends.append(len(inner))
                inner.append(child)
            else:
                ends.append(~len(leaves))
                leaves.append(child)
        table.append(ends)
    return np.array(table, np.int64).reshape(-1, 2), inner, leaves
