"""The page: facts to one HTML file that needs nothing else, neither a network nor a server.

The chart library is inside, gzipped, and started by a script of a few lines. The page's Content-Security-Policy lets
these two scripts run, named by their hashes, and nothing else, and lets it ask nobody for anything.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import json
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from zskip.errors import MissingDependencyError
from zskip.records import Ints
from zskip.report import charts, words
from zskip.report.facts import Asked, Facts
from zskip.report.picture import DRAWN, Figure, cover, depth_line, drawn, hover, labels, rectangles
from zskip.report.values import clean, percent
from zskip.units import show_size

_WORST = 10
_LISTED = 50


def need_libraries(*names: str) -> None:
    """Raise MissingDependencyError where a library is missing that draws reports."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(f'a report needs {" and ".join(missing)}: pip install "zskip[report]"')


def to_html(facts: Facts, rows: Ints) -> str:
    """The report as HTML.

    rows: (files,) of the table, -1 where unknown. Raises MissingDependencyError where the chart library is missing.
    """
    need_libraries("jinja2", "plotly")
    import jinja2

    here = resources.files(__package__) / "assets"
    style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    library, library_hash = _library()
    places = drawn(len(facts.snapshot))
    figures = _figures(facts, places)
    files = labels(facts.spreads, facts.snapshot, rows, places)
    data = {
        "figures": figures,
        "files": files,
        "hover": [hover(file, facts.spreads) for file in files],
        "names": [clean(spread.name) for spread in facts.spreads],
        "bytes": facts.snapshot.sizes[places].tolist(),
        "reads": None if facts.queries is None else np.round(100 * facts.queries.reads[places], 2).tolist(),
    }
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(size=show_size, share=percent, clean=clean, moment=words.moment)
    template = environment.from_string(here.joinpath("page.html").read_text("utf-8"))
    page = template.render(
        facts=facts,
        info=facts.info,
        words=words,
        figures=figures,
        shown=len(places),
        most=DRAWN,
        worst=_worst(facts),
        often=_often(facts),
        history=facts.history[:_LISTED],
        style=style,
        script=script,
        library=library,
        data=_json(data),
        policy=f"script-src {_hash(script)} {library_hash}",
    )
    return page.encode("utf-8", "replace").decode()


def _figures(facts: Facts, places: Ints) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    if facts.info.files:
        found["sizes"] = charts.file_sizes(facts.snapshot.sizes)
    spreads = facts.spreads
    for i, spread in enumerate(spreads):
        if spread.clustering.files:
            found[f"depth-{i}"] = depth_line(spread)
    if any(spread.clustering.files for spread in spreads):
        found["depths"] = charts.depths(spreads, facts.deep)
    colors = [0.0] * len(places)  # The page has each file's bytes and reads once, for all pairs of columns.
    for i in range(len(spreads)):
        for j in range(i + 1, len(spreads)):
            found[f"files-{i}-{j}"] = rectangles(spreads[i], spreads[j], places, colors)
            found[f"files-{i}-{j}"]["data"][0]["marker"].pop("color")
            found[f"cover-{i}-{j}"] = cover(spreads[i], spreads[j])
    if facts.queries is not None and facts.queries.asked:
        found["reads"] = charts.reads(facts.queries, facts.info.bytes)
        found["prunings"] = charts.prunings(facts.queries, facts.info.files)
    if facts.advice is not None:
        found["candidates"] = charts.candidates(facts.advice)
        if len(facts.advice.by_number_of_columns) > 1:
            found["by-columns"] = charts.by_columns(facts.advice)
    if any(of.share_after is not None or of.share_measured is not None for of in facts.history):
        moments = [words.moment(of.time_ms) for of in facts.history]
        found["operations"] = charts.operations(facts.history, moments)
    return found


def _worst(facts: Facts) -> list[Asked]:
    asked = () if facts.queries is None else facts.queries.asked
    return sorted(asked, key=lambda query: (-query.bytes, query.where))[:_WORST]


def _often(facts: Facts) -> list[dict[str, Any]]:
    """The files that most queries read."""
    if facts.queries is None or not facts.queries.asked:
        return []
    order = np.argsort(-facts.queries.reads, kind="stable")[:_WORST].tolist()
    sizes, paths = facts.snapshot.sizes, facts.snapshot.paths
    return [{"name": paths[i], "bytes": int(sizes[i]), "share": float(facts.queries.reads[i])} for i in order]


def _json(data: dict[str, Any]) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _library() -> tuple[str, str]:
    """Plotly's script as base64 of gzip, and its hash."""
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    packed = base64.b64encode(gzip.compress(script.encode(), 6, mtime=0)).decode()
    return packed, _hash(script)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
