"""One page on many tables: what queries read of them, what could be saved, and what was done lately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zskip.report.charts import COLORS, lying_bars
from zskip.report.page import render
from zskip.report.picture import GRAY, Figure, escape

_BARS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class TableBar:
    """A table's bar: what queries read of it a day."""

    name: str
    link: str
    """To its own report, relative to the page; empty where there is none."""
    cells: Sequence[Any]
    """The other columns of its line."""
    read: float
    """Bytes a day, with what opening files costs."""
    saved: float
    """Of these, what the best action would save."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeFacts:
    """Everything that a lake's page shows."""

    title: str
    created: str
    summary: str
    names: Sequence[str]
    """Of the columns of `TableBar.cells`."""
    tables: Sequence[TableBar]
    operations: Sequence[tuple[Any, ...]]
    """When, table, what, files before and after, bytes, the latest first."""
    notes: Sequence[str] = ()


def lake_to_html(facts: LakeFacts) -> str:
    """Return the page as HTML; raises MissingDependencyError without the libraries for reports."""
    return render("lake.html", {"figures": {"tables": _tables(facts.tables)}}, facts=facts, shown=_BARS)


def _tables(tables: Sequence[TableBar]) -> Figure:
    """Draw the most read tables, the most read on top."""
    shown = sorted((table for table in tables if table.read > 0), key=lambda table: -table.read)[:_BARS]
    series = [
        {
            "name": name,
            "x": [round(value) for value in values],
            "marker": {"color": color},
            "hovertext": [escape(table.name) for table in shown],
            "hovertemplate": f"%{{x:.3s}}B a day of %{{hovertext}} {name}<extra></extra>",
        }
        for name, values, color in (
            ("stays", [table.read - table.saved for table in shown], COLORS[0]),
            ("could be saved", [table.saved for table in shown], COLORS[1]),
        )
    ]
    names = [escape(table.name if len(table.name) <= 30 else "… " + table.name[-28:]) for table in shown]
    axis = {"title": {"text": "bytes a day"}, "tickformat": ".2s", "gridcolor": GRAY}
    return lying_bars(series, names, axis, "stack", 26)
