"""Fit a tree of cuts to a sample and a workload, one for each Hive partition with enough sampled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from zskip.errors import InputError
from zskip.layout.curves import zorder_pattern
from zskip.layout.fit import MOST_COLUMNS, column_bounds
from zskip.layout.layout import FITTED, Layout
from zskip.layout.predict import sample_ranks
from zskip.layout.ranks import dense_ranks, needed_bits, position
from zskip.layout.tree.grow import Grower, Guide, Node
from zskip.layout.tree.join import breadth_first, join_leaves
from zskip.layout.tree.queries import TreeQueries
from zskip.layout.tree.tree import Int32s, Tree
from zskip.layout.workload import Workload, column_weights
from zskip.records import Floats, Ints, Sample, Values

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


def fit_tree(
    sample: Sample,
    files: npt.NDArray[np.integer[Any]],
    *,
    partition_rows: npt.NDArray[np.integer[Any]],
    workload: Workload,
    beside: Sequence[tuple[Values, Floats]] = (),
    guide: Layout | None = None,
) -> Layout:
    """Fit a tree of cuts to a workload; inside a leaf each page is a box of rows.

    files, partition_rows, beside: as `fit` takes them; workload: over the dense ranks of the sample; guide: a layout of
    the same columns, whose tree's cuts are reused as far as the sample has rows for them. Raises InputError unless
    there are 2 to 32 columns.
    """
    if not 2 <= len(sample.fields) <= MOST_COLUMNS:
        raise InputError(f'curve="{FITTED}" goes with 2 to {MOST_COLUMNS} columns, not {len(sample.fields)}')
    forest = _Forest(sample, workload, guide)
    rows = np.asarray(partition_rows, np.float64)
    file_counts = np.minimum(np.maximum(np.asarray(files, np.int64), 1), np.maximum(rows, 1)).astype(np.int64)
    trees = forest.grow(file_counts)
    cut_values = [
        np.unique(forest.values(d, [value for column, value in forest.cuts if column == d and value is not None]))
        for d in range(len(sample.fields))
    ]
    quantiles = column_bounds(sample, "zorder", "sample", int(file_counts.max(initial=1)), beside)
    bounds = tuple(np.union1d(q, values) for q, values in zip(quantiles, cut_values, strict=True))
    null_ranks = tuple(bool(nulls.any()) for nulls in sample.nulls)
    spread = [trees[p].spread for p in range(len(file_counts))]
    per_segment = np.concatenate(spread) if spread else np.ones(0, np.int32)
    return Layout(
        fields=sample.fields,
        curve=FITTED,
        build="sample",
        bounds=bounds,
        null_ranks=null_ranks,
        pattern=zorder_pattern([needed_bits(len(b), null) for b, null in zip(bounds, null_ranks, strict=True)]),
        cut_keys=np.empty(0, np.int64),
        cut_starts=np.concatenate([[0], np.cumsum([len(s) - 1 for s in spread])]).astype(np.int64),
        spread=per_segment,
        tree=_join_trees(trees, forest.cuts, bounds),
        column_weights=column_weights(workload, sample_ranks(sample)),
    )


class _Forest:
    """Grows the trees of all partitions over the dense ranks of one sample."""

    def __init__(self, sample: Sample, workload: Workload, guide: Layout | None) -> None:
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
            guide=None if guide is None or guide.tree is None else self._rank_guide(guide, guide.tree),
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
        join_leaves(nodes, files)
        ends, inner, leaves = breadth_first(nodes)
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
        if node.guide >= 0 and self._guide is not None and self._guide.tree is not None:
            return column, self._guide.bounds[column][self._guide.tree.cuts[node.guide] - 1]
        if self._ends:
            ends, weights = self._ends[column]
            first, last = (int(np.searchsorted(ends, distinct[i : i + 1], "right")[0]) for i in (cut - 1, cut))
            if last > first:
                return column, ends[first + int(np.argmax(weights[first:last]))]
        return column, distinct[cut]

    def _rank_guide(self, guide: Layout, tree: Tree) -> Guide:
        """Express the cuts of a tree as dense ranks of the sample."""
        cuts = np.empty(len(tree.cuts), np.int32)
        for column, (distinct, bounds) in enumerate(zip(self._distinct, guide.bounds, strict=True)):
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
