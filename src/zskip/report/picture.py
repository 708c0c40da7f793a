"""Draws files as rectangles over two columns, and the number of files that cover each cell of a grid."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from zskip.records import Floats, Ints, Snapshot
from zskip.report.spread import Spread
from zskip.report.values import clean
from zskip.units import show_size

MOST_DRAWN = 1_000
"""Most files that are drawn one by one; of more files, an even selection is drawn."""
_GRID = 40
GRAY = "rgba(128, 128, 128, 0.35)"
"""A color for lines on light and dark pages."""

Figure = dict[str, Any]
"""Traces and layout for Plotly."""


def drawn_files(files: int) -> Ints:
    """Return the indexes of the files that are drawn one by one."""
    return (
        np.unique(np.linspace(0, files - 1, min(files, MOST_DRAWN)).astype(np.int64))
        if files
        else np.zeros(0, np.int64)
    )


def rectangles(x: Spread, y: Spread, indexes: Ints, colors: list[float]) -> Figure:
    """Draw each file as a bar over the ranges of its values; files without values are left out.

    indexes: of the files; colors: one number for each.
    """
    has_values = ~(x.empty | y.empty)[indexes]
    visible = indexes[has_values]
    trace = {
        "type": "bar",
        "x": _round(x.first[visible]),
        "width": _round(x.last[visible] - x.first[visible]),
        "base": _round(y.first[visible]),
        "y": _round(y.last[visible] - y.first[visible]),
        "offset": 0,
        "customdata": np.flatnonzero(has_values).tolist(),
        "marker": {
            "color": [color for color, show in zip(colors, has_values.tolist(), strict=True) if show],
            "colorscale": "Viridis",
            "opacity": 0.5,
            "line": {"width": 1, "color": GRAY},
            "showscale": True,
            "colorbar": {"thickness": 10, "outlinewidth": 0},
        },
        "hoverinfo": "text",
    }
    return {"data": [trace], "layout": {**_axes(x, y), "barmode": "overlay", "bargap": 0}}


def cover(x: Spread, y: Spread) -> Figure:
    """Draw the number of files that may hold a row in each cell of a grid."""
    used = ~(x.empty | y.empty)
    sides = [(_cell(s.first[used]), np.maximum(_cell(s.last[used] - 1e-9), _cell(s.first[used])) + 1) for s in (x, y)]
    (left, right), (bottom, top) = sides
    wide = _GRID + 1
    change = np.zeros(wide * wide)
    for row, column, sign in ((bottom, left, 1), (top, left, -1), (bottom, right, -1), (top, right, 1)):
        change += sign * np.bincount(row * wide + column, minlength=wide * wide)
    counts = change.reshape(wide, wide).cumsum(0).cumsum(1)[:_GRID, :_GRID]
    middles = ((np.arange(_GRID) + 0.5) / _GRID).tolist()
    trace = {
        "type": "heatmap",
        "x": middles,
        "y": middles,
        "z": np.rint(counts).astype(np.int64).tolist(),
        "zmin": 0,
        "colorscale": "Viridis",
        "hovertemplate": "%{z} files<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0},
    }
    return {"data": [trace], "layout": _axes(x, y)}


def labels(spreads: tuple[Spread, ...], snapshot: Snapshot, rows: Ints, indexes: Ints) -> list[dict[str, Any]]:
    """Return name, size, rows, and ranges of files for people."""
    return [
        {
            "name": clean(snapshot.paths[i]),
            "size": show_size(int(snapshot.sizes[i])),
            "rows": "unknown" if rows[i] < 0 else f"{int(rows[i]):,}",
            "ranges": [spread.range_of(i) for spread in spreads],
        }
        for i in indexes.tolist()
    ]


def figure(spreads: tuple[Spread, ...], snapshot: Snapshot, rows: Ints) -> Figure:
    """Draw one or two columns alone: rectangles for two, the depth for one."""
    if len(spreads) == 1:
        return depth_line(spreads[0])
    indexes = drawn_files(len(snapshot))
    picture = rectangles(spreads[0], spreads[1], indexes, [float(size) for size in snapshot.sizes[indexes].tolist()])
    texts = [hover(label, spreads) for label in labels(spreads, snapshot, rows, indexes)]
    picture["data"][0]["hovertext"] = [texts[i] for i in picture["data"][0].pop("customdata")]
    picture["data"][0]["marker"]["colorbar"]["title"] = {"text": "bytes"}
    picture["layout"] |= {
        "template": "none",
        "height": 480,
        "title": {"text": _count_text(len(indexes), len(snapshot))},
    }
    return picture


def hover(label: dict[str, Any], spreads: tuple[Spread, ...]) -> str:
    """Return the text for a file under the pointer."""
    ranges = zip(spreads, label["ranges"], strict=True)
    lines = [label["name"], f"{label['size']}, {label['rows']} rows", *(f"{s.name}: {text}" for s, text in ranges)]
    return "<br>".join(escape(line) for line in lines)


def depth_line(spread: Spread) -> Figure:
    """Draw the number of files that hold a value, along a column."""
    steps = len(spread.depth)
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": _round(np.arange(steps + 1) / max(steps, 1)),
        "y": [*spread.depth.tolist(), *spread.depth[-1:].tolist()],
        "line": {"shape": "hv", "color": "#3b82c4", "width": 1.5},
        "fill": "tozeroy",
        "hovertemplate": "%{y} files<extra></extra>",
    }
    axes = {"xaxis": scale(spread), "yaxis": {"rangemode": "tozero", "title": {"text": "files"}, "gridcolor": GRAY}}
    return {"data": [trace], "layout": axes}


def scale(spread: Spread) -> dict[str, Any]:
    """Return the axis of a column."""
    return {
        "title": {"text": escape(spread.name)},
        "range": [0, 1],
        "tickvals": [position for position, _ in spread.ticks],
        "ticktext": [escape(text[:16] + "…" if len(text) > 17 else text) for _, text in spread.ticks],
        "gridcolor": GRAY,
        "zeroline": False,
        "automargin": True,
        "ticklabeloverflow": "allow",
    }


def escape(text: str) -> str:
    """Escape text for Plotly, which reads some tags as markup and $ as the start of a formula."""
    return html.escape(clean(text), quote=False).replace("$", "&#36;")


def _axes(x: Spread, y: Spread) -> dict[str, Any]:
    return {"xaxis": scale(x), "yaxis": scale(y), "hovermode": "closest"}


def _cell(positions: Floats) -> Ints:
    return np.minimum((positions * _GRID).astype(np.int64), _GRID - 1)


def _round(values: Floats) -> list[float]:
    return np.round(values, 5).tolist()  # type: ignore[no-any-return]


def _count_text(count: int, files: int) -> str:
    return f"{files:,} files" if count == files else f"{count:,} of {files:,} files"
