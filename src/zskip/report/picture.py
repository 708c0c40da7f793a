"""Files as rectangles over two columns, and how many of them cover each place."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from zskip.records import Floats, Ints, Snapshot
from zskip.report.spread import Spread
from zskip.report.values import clean
from zskip.units import show_size

DRAWN = 1_000
"""Files that are drawn one by one, the most: of more, as many, evenly along the table."""
_GRID = 40
GRAY = "rgba(128, 128, 128, 0.35)"
"""Lines that can be seen on a light page and on a dark one."""

Figure = dict[str, Any]
"""Traces and layout, as Plotly takes them."""


def drawn(files: int) -> Ints:
    """Places of the files that are drawn one by one."""
    return np.unique(np.linspace(0, files - 1, min(files, DRAWN)).astype(np.int64)) if files else np.zeros(0, np.int64)


def rectangles(x: Spread, y: Spread, places: Ints, colors: list[float]) -> Figure:
    """Each file as a bar of its own width that begins where its values do; those without values are left out.

    places: of the files; colors: one number for each.
    """
    shown = ~(x.empty | y.empty)[places]
    at = places[shown]
    trace = {
        "type": "bar",
        "x": _short(x.first[at]),
        "width": _short(x.last[at] - x.first[at]),
        "base": _short(y.first[at]),
        "y": _short(y.last[at] - y.first[at]),
        "offset": 0,
        "customdata": np.flatnonzero(shown).tolist(),
        "marker": {
            "color": [color for color, show in zip(colors, shown.tolist(), strict=True) if show],
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
    """How many files may hold a row at each place of a grid."""
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


def labels(spreads: tuple[Spread, ...], snapshot: Snapshot, rows: Ints, places: Ints) -> list[dict[str, Any]]:
    """Name, size and ranges of files, for people."""
    return [
        {
            "name": clean(snapshot.paths[i]),
            "size": show_size(int(snapshot.sizes[i])),
            "rows": "unknown" if rows[i] < 0 else f"{int(rows[i]):,}",
            "ranges": [spread.range_of(i) for spread in spreads],
        }
        for i in places.tolist()
    ]


def figure(spreads: tuple[Spread, ...], snapshot: Snapshot, rows: Ints) -> Figure:
    """The picture of one or two columns by itself: rectangles for two, for one its depth."""
    if len(spreads) == 1:
        return depth_line(spreads[0])
    places = drawn(len(snapshot))
    found = rectangles(spreads[0], spreads[1], places, [float(size) for size in snapshot.sizes[places].tolist()])
    texts = [hover(label, spreads) for label in labels(spreads, snapshot, rows, places)]
    found["data"][0]["hovertext"] = [texts[i] for i in found["data"][0].pop("customdata")]
    found["data"][0]["marker"]["colorbar"]["title"] = {"text": "bytes"}
    found["layout"] |= {"template": "none", "height": 480, "title": {"text": _many(len(places), len(snapshot))}}
    return found


def hover(label: dict[str, Any], spreads: tuple[Spread, ...]) -> str:
    """What is shown beside a file that is pointed at."""
    ranges = zip(spreads, label["ranges"], strict=True)
    lines = [label["name"], f"{label['size']}, {label['rows']} rows", *(f"{s.name}: {text}" for s, text in ranges)]
    return "<br>".join(escaped(line) for line in lines)


def depth_line(spread: Spread) -> Figure:
    """How many files hold a value, along a column."""
    steps = len(spread.depth)
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": _short(np.arange(steps + 1) / max(steps, 1)),
        "y": [*spread.depth.tolist(), *spread.depth[-1:].tolist()],
        "line": {"shape": "hv", "color": "#3b82c4", "width": 1.5},
        "fill": "tozeroy",
        "hovertemplate": "%{y} files<extra></extra>",
    }
    axes = {"xaxis": scale(spread), "yaxis": {"rangemode": "tozero", "title": {"text": "files"}, "gridcolor": GRAY}}
    return {"data": [trace], "layout": axes}


def scale(spread: Spread) -> dict[str, Any]:
    """The axis of a column."""
    return {
        "title": {"text": escaped(spread.name)},
        "range": [0, 1],
        "tickvals": [place for place, _ in spread.ticks],
        "ticktext": [escaped(text[:16] + "…" if len(text) > 17 else text) for _, text in spread.ticks],
        "gridcolor": GRAY,
        "zeroline": False,
        "automargin": True,
        "ticklabeloverflow": "allow",
    }


def escaped(text: str) -> str:
    """Text that Plotly shows as it is: some tags in its texts are markup, and $ can begin a formula."""
    return html.escape(clean(text), quote=False).replace("$", "&#36;")


def _axes(x: Spread, y: Spread) -> dict[str, Any]:
    return {"xaxis": scale(x), "yaxis": scale(y), "hovermode": "closest"}


def _cell(at: Floats) -> Ints:
    return np.minimum((at * _GRID).astype(np.int64), _GRID - 1)


def _short(values: Floats) -> list[float]:
    return np.round(values, 5).tolist()  # type: ignore[no-any-return]


def _many(shown: int, files: int) -> str:
    return f"{files:,} files" if shown == files else f"{shown:,} of {files:,} files"
