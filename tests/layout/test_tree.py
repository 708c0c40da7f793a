"""Trees of cuts: the walk of many rows at once is the walk of each row by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import tiers
from hypothesis import given
from hypothesis import strategies as st

from zskip.layout.tree.tree import Tree


@st.composite
def trees(draw: Any, columns: int, ranks: int, partitions: int) -> Tree:
    """Any trees, some of them shared, some a single leaf."""
    nodes: list[list[int]] = []
    roots = []

    def grow(depth: int, leaves: list[int]) -> int:
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            leaves.append(len(leaves))
            return ~leaves[-1]
        number = len(nodes)
        nodes.append([draw(st.integers(0, columns - 1)), draw(st.integers(0, ranks)), 0, 0])
        nodes[number][2:] = [grow(depth - 1, leaves), grow(depth - 1, leaves)]
        return number

    for _ in range(partitions):
        shared = draw(st.booleans()) and roots
        roots.append(draw(st.sampled_from(roots)) if shared else grow(draw(st.integers(0, 5)), []))
    arrays = np.array(nodes, np.int32).reshape(-1, 4)
    return Tree(columns=arrays[:, 0], cuts=arrays[:, 1], left=arrays[:, 2], right=arrays[:, 3],
                roots=np.array(roots, np.int32))  # fmt: skip


def walk(tree: Tree, row: list[int], partition: int) -> int:
    """The leaf of one row, in plain Python."""
    node = int(tree.roots[partition])
    while node >= 0:
        node = int((tree.right if row[tree.columns[node]] >= tree.cuts[node] else tree.left)[node])
    return ~node


@given(st.data())
@tiers.examples(60, quick=20)
def test_many_rows_walk_as_each_does(data: st.DataObject) -> None:
    tree = data.draw(trees(3, 9, 3))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    ranks = [random.integers(0, 10, 50) for _ in range(3)]
    partition = random.integers(0, 3, 50)
    rows = np.column_stack(ranks).tolist()
    expected = [walk(tree, row, p) for row, p in zip(rows, partition.tolist(), strict=True)]
    assert tree.leaves(ranks, partition).tolist() == expected
    assert tree.leaves(ranks, 1).tolist() == [walk(tree, row, 1) for row in rows]
    again = Tree.from_document(tree.to_document())
    assert again.leaves(ranks, partition).tolist() == expected


def test_more_rows_than_a_chunk() -> None:
    tree = Tree(columns=np.array([0, 1], np.int32), cuts=np.array([5, 3], np.int32), left=np.array([~0, ~1], np.int32),
                right=np.array([1, ~2], np.int32), roots=np.array([0], np.int32))  # fmt: skip
    ranks = list(np.random.default_rng(0).integers(0, 10, (2, 70_000)))
    expected = np.where(ranks[0] < 5, 0, np.where(ranks[1] < 3, 1, 2))
    assert (tree.leaves(ranks, 0) == expected).all()
    assert tree.leaf_count == 3
