"""Join leaves of a tree again, those whose cut saves least first, until there are as many as there should be files."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from zskip.layout.program import LARGEST
from zskip.layout.tree.grow import Node
from zskip.records import Ints


def join_leaves(nodes: Sequence[Node], files: int) -> None:
    """Make leaves of nodes until at most `files` files are left; larger ones than `LARGEST` only where they must be."""
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


def breadth_first(nodes: Sequence[Node]) -> tuple[Ints, list[int], list[int]]:
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
