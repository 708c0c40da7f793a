"""Segments of a layout that lie side by side become one file: as many as their rows are worth, once counted."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from zskip.layout.cells import Keys, byte_matrix
from zskip.layout.curves.fitted import Fitted
from zskip.layout.layout import Layout
from zskip.layout.program import LARGEST, SMALLEST
from zskip.layout.tree.tree import Tree
from zskip.records import Floats, Ints


def side_by_side(layout: Layout) -> tuple[Layout, Ints]:
    """The layout of an unpartitioned table with one file a segment, neighbors next to each other, and its levels.

    A level is that of the cut before each segment but the first: the lower, the larger is what the cut divides.
    """
    segments = len(layout.spread)
    layout = replace(layout, spread=np.ones(segments, np.int32))
    if layout.curve.tree is not None:
        tree, levels = _by_depth(layout.curve.tree)
        return replace(layout, curve=Fitted(tree)), levels
    # The cuts of a plain sort are all alike.
    levels = np.zeros(segments - 1, np.int64) if layout.curve.is_lexicographic else _significant_bits(layout.cut_keys)
    return layout, levels


def _by_depth(tree: Tree) -> tuple[Tree, Ints]:
    """The tree with its leaves numbered from left to right, and the depth of the cut before each but the first."""
    leaves: list[int] = []
    levels: list[int] = []
    pending = [(int(tree.roots[0]), 0, -1)]
    while pending:
        node, depth, level = pending.pop()
        while node >= 0:
            pending.append((int(tree.right[node]), depth + 1, depth))
            node, depth = int(tree.left[node]), depth + 1
        leaves.append(~node)
        levels.append(level)
    numbers = np.empty(len(leaves), np.int32)
    numbers[leaves] = np.arange(len(leaves))
    left, right, roots = (
        np.where(ends < 0, ~numbers[np.maximum(~ends, 0)], ends) for ends in (tree.left, tree.right, tree.roots)
    )
    return replace(tree, left=left, right=right, roots=roots), np.array(levels[1:], np.int64)


def _significant_bits(keys: Keys) -> Ints:
    """The number of leading bits of each key after which all are zero.

    >>> _significant_bits(np.array([1 << 62, 3 << 61])).tolist()
    [2, 3]
    """
    if not len(keys):
        return np.zeros(0, np.int64)
    bits = np.unpackbits(byte_matrix(keys.astype(">i8") if keys.dtype == np.int64 else keys), axis=1)
    return cast(Ints, bits.shape[1] - np.argmax(bits[:, ::-1], axis=1))


def join_segments(sizes: Floats, levels: Ints) -> Ints:
    """The first segment of each file: at the lowest levels, as long as a file is too large and no part too small.

    sizes: (segments,) rows, in files; levels: as `side_by_side` gives them.

    >>> join_segments(np.array([0.4, 0.4, 0.2, 0.5, 0.5]), np.array([2, 1, 0, 1])).tolist()
    [0, 3]
    """
    before = np.concatenate([[0.0], np.cumsum(sizes)])
    starts, pending = [], [(0, len(sizes))]
    while pending:
        first, last = pending.pop()
        below = before[first + 1 : last] - before[first]
        above = before[last] - before[first + 1 : last]
        is_large = before[last] - before[first] > LARGEST
        cuts = np.flatnonzero(is_large & (np.minimum(below, above) >= SMALLEST))
        if not len(cuts):
            starts.append(first)
            continue
        cut_levels = levels[first + cuts]
        cuts = cuts[cut_levels == cut_levels.min()]
        cut = first + 1 + int(cuts[np.argmin(np.abs(below - above)[cuts])])
        pending += [(cut, last), (first, cut)]
    return np.array(starts, np.int64)
