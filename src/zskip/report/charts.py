"""The charts of a report besides its picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from zskip.advisor.advice.advice import Advice, Candidate
from zskip.records import Ints
from zskip.report.facts import Queries
from zskip.report.picture import GRAY, Figure, escape
from zskip.report.values import clean
from zskip.units import show_size

COLORS = ("#3b82c4", "#d9772b", "#4a9d5f", "#a05fb5", "#b5974a")
NEEDLESS = "#c0392b"
_BINS = 30
_SHAPES = 12


def file_sizes(sizes: Ints) -> Figure:
    """Draw the number of files of each size."""
    least, most = int(sizes.min()), int(sizes.max())
    if most > 50 * max(least, 1):
        edges = np.geomspace(max(least, 1), most, _BINS + 1)
        edges[0] = min(edges[0], least)
    else:
        edges = np.linspace(least, max(most, least + 1), min(_BINS, max(len(sizes), 1)) + 1)
    counts, _ = np.histogram(sizes, edges)
    names = [show_size(edge) for edge in edges.tolist()]
    bars = {
        "type": "bar",
        "x": list(range(len(counts))),
        "y": counts.tolist(),
        "hovertext": [f"{a} to {b}" for a, b in pairwise(names)],
        "hovertemplate": "%{y} files of %{hovertext}<extra></extra>",
        "marker": {"color": COLORS[0]},
    }
    ticks = sorted({0, len(counts) // 2, len(counts)})
    axis = {"tickvals": [i - 0.5 for i in ticks], "ticktext": [names[i] for i in ticks], "title": {"text": "size"}}
    return {"data": [bars], "layout": {"xaxis": axis, "yaxis": _files(), "bargap": 0.05}}


def reads(queries: Queries, total_bytes: int) -> Figure:
    """Draw the share of the table's bytes that each query reads, the largest first."""
    ordered = sorted(queries.entries, key=lambda query: -query.bytes)
    line = {
        "type": "scatter",
        "mode": "lines+markers" if len(ordered) <= 60 else "lines",
        "x": list(range(1, len(ordered) + 1)),
        "y": [round(100 * query.bytes / max(total_bytes, 1), 3) for query in ordered],
        "line": {"color": COLORS[0]},
        "fill": "tozeroy",
        "hovertext": [escape(query.where[:120]) for query in ordered],
        "hovertemplate": "%{y} % of the bytes: %{hovertext}<extra></extra>",
    }
    axis = {"title": {"text": "queries, the worst first"}, "gridcolor": GRAY, "dtick": max(1, len(ordered) // 8)}
    return {"data": [line], "layout": {"xaxis": axis, "yaxis": _percents("bytes read, %")}}


def prunings(queries: Queries, files: int) -> Figure:
    """Draw what skips files for each shape of queries, and which files are read for nothing if that is known."""
    kinds = {
        "partitions": ("are skipped by partitions", COLORS[0]),
        "bounds": ("are skipped by bounds", COLORS[1]),
        "sketches": ("are skipped by sketches", COLORS[2]),
        "read": ("are read", GRAY),
        "read for nothing": ("are read, and no row group of them holds a match", NEEDLESS),
    }
    if all(query.idle_files is None for query in queries.entries):
        del kinds["read for nothing"]
    groups: dict[str, list[float]] = {}
    for query in queries.entries:
        sums = groups.setdefault(query.shape, [0.0] * 6)
        idle = query.idle_files or 0
        counts = (query.by_partitions, query.by_bounds, query.by_sketches, query.files - idle, idle, 1)
        for i, count in enumerate(counts):
            sums[i] += query.weight * count
    most = sorted(groups.items(), key=lambda item: -item[1][-1])[:_SHAPES]
    shapes = [escape(clean(shape, 36)) for shape, _ in most]
    traces = [
        {
            "name": name,
            "x": [round(100 * sums[i] / (sums[-1] * max(files, 1)), 2) for _, sums in most],
            "marker": {"color": color},
            "hovertemplate": f"%{{x}} % of the files {action}<extra></extra>",
        }
        for i, (name, (action, color)) in enumerate(kinds.items())
    ]
    return lying_bars(traces, shapes, _percents("files, %"), "stack", 34)


def candidates(advice: Advice) -> Figure:
    """Draw what a query reads under each layout, with intervals."""
    layouts = [("as it is", advice.current), *((c.name, c) for c in advice.candidates[:_SHAPES])]
    traces = [
        {
            "name": name,
            **_interval([c for _, c in layouts], figure),
            "marker": {"color": color},
            "hovertemplate": f"%{{x}} % of the {name}<extra></extra>",
        }
        for name, figure, color in (
            ("rows in files that are read", "kept", COLORS[0]),
            ("rows in pages that are decoded", "decoded", COLORS[1]),
        )
    ]
    names = [escape(clean(name, 36)) for name, _ in layouts]
    return lying_bars(traces, names, _percents("rows, %"), "group", 42)


def _interval(layouts: Sequence[Candidate], figure: str) -> dict[str, Any]:
    """Return the means of a figure of layouts and their intervals, in percent."""
    mean, low, high = ([100 * getattr(c, figure + end) for c in layouts] for end in ("", "_low", "_high"))
    above = [round(max(b - a, 0.0), 2) for a, b in zip(mean, high, strict=True)]
    below = [round(max(a - b, 0.0), 2) for a, b in zip(mean, low, strict=True)]
    error = {"type": "data", "array": above, "arrayminus": below, "symmetric": False}
    return {"x": [round(share, 2) for share in mean], "error_x": error}


def _files() -> dict[str, Any]:
    return {"title": {"text": "files"}, "rangemode": "tozero", "gridcolor": GRAY}


def _percents(title: str) -> dict[str, Any]:
    return {"title": {"text": title}, "range": [0, 100], "gridcolor": GRAY, "zeroline": False}


def lying_bars(
    series: Sequence[dict[str, Any]], names: Sequence[str], axis: dict[str, Any], mode: str, height: int
) -> Figure:
    """Draw series of horizontal bars, the first name on top.

    axis: of the values; mode: `stack` or `group`; height: of a name, in pixels.
    """
    places = list(range(len(names)))
    traces = [{"type": "bar", "orientation": "h", "y": places, **one} for one in series]
    ticks = {"tickvals": places, "ticktext": list(names), "autorange": "reversed", "automargin": True}
    legend = {"showlegend": True, "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}}
    layout = {"barmode": mode, "xaxis": axis, "yaxis": ticks, "height": 120 + height * max(len(names), 1), **legend}
    return {"data": traces, "layout": layout}
