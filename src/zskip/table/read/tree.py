"""Show a tree of cuts: how often and where it cuts each column, its first levels, and the queries they were cut for."""

from __future__ import annotations

from typing import Any

import numpy as np

from zskip.layout.layout import Layout
from zskip.layout.tree.tree import Tree
from zskip.predicate import Column, Compare, IsNull, Not, Predicate, to_sql
from zskip.records import ColumnCuts, Field, TreeCut, TreeInfo

_LEVELS = 3
"""Levels of cuts to show."""


def describe_tree(layout: Layout | None) -> TreeInfo | None:
    """Describe the tree of a layout; None without one."""
    if layout is None or (tree := layout.curve.tree) is None:
        return None
    columns = []
    for column, (field, bounds) in enumerate(zip(layout.fields, layout.bounds, strict=True)):
        cuts = tree.cuts[tree.columns == column]
        values = bounds[np.unique(cuts[cuts <= len(bounds)]) - 1]
        lowest, highest = (_literal(field, values[end]) for end in (0, -1)) if len(values) else ("", "")
        columns.append(ColumnCuts(column=field.name, cuts=len(cuts), lowest=lowest, highest=highest))
    return TreeInfo(
        leaves=len(layout.spread), levels=tree.levels, columns=tuple(columns), first=tuple(_first(layout, tree))
    )


def _first(layout: Layout, tree: Tree) -> list[TreeCut]:
    """The cuts of the first levels of the largest tree, each before those below it."""
    cuts: list[TreeCut] = []

    def show(node: int, way: str) -> None:
        if node < 0 or len(way) == _LEVELS:
            return
        reason = tree.reasons[node] if node < len(tree.reasons) else ""
        cuts.append(TreeCut(way=way, left=to_sql(_condition(layout, tree, node)), reason=reason))
        show(int(tree.left[node]), way + "L")
        show(int(tree.right[node]), way + "R")

    show(0 if len(tree.columns) else -1, "")
    return cuts


def _condition(layout: Layout, tree: Tree, node: int) -> Predicate:
    """What is true of the rows that go to the left."""
    field, bounds = layout.fields[tree.columns[node]], layout.bounds[tree.columns[node]]
    column = Column(field.path, field.type)
    cut = int(tree.cuts[node]) - 1
    return Compare("<", column, _value(bounds[cut])) if cut < len(bounds) else Not(IsNull(column))


def _literal(field: Field, value: Any) -> str:
    return to_sql(Compare("=", Column(field.path, field.type), _value(value))).partition(" = ")[2]


def _value(value: Any) -> Any:
    return value if isinstance(value, bytes) else value.item()
