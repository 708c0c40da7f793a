"""Writes the facts as one HTML file that needs neither a network nor a server.

The file contains the chart library, gzipped, and a short script that starts it. The Content-Security-Policy of the page
allows only these two scripts, by their hashes, and no requests.
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
from zskip.report.facts import Facts, QueryReads
from zskip.report.picture import MOST_DRAWN, Figure, cover, depth_line, drawn_files, hover, labels, rectangles
from zskip.report.values import clean, percent
from zskip.rows import moment
from zskip.units import show_size

_WORST = 10
_LISTED = 50


def need_libraries(*names: str) -> None:
    """Raise MissingDependencyError if a library for reports is missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(f'a report needs {" and ".join(missing)}: pip install "zskip[report]"')


def to_html(facts: Facts, rows: Ints) -> str:
    """Return the report as HTML.

    rows: (files,) of the table, -1 where unknown. Raises MissingDependencyError if the chart library is missing.
    """
    need_libraries("jinja2", "plotly")
    indexes = drawn_files(len(facts.snapshot))
    figures = _figures(facts, indexes)
    files = labels(facts.spreads, facts.snapshot, rows, indexes)
    data = {
        "figures": figures,
        "files": files,
        "hover": [hover(file, facts.spreads) for file in files],
        "names": [clean(spread.name) for spread in facts.spreads],
        "bytes": facts.snapshot.sizes[indexes].tolist(),
        "reads": None if facts.queries is None else np.round(100 * facts.queries.reads[indexes], 2).tolist(),
    }
    return render(
        "page.html",
        data,
        facts=facts,
        info=facts.info,
        words=words,
        figures=figures,
        shown=len(indexes),
        most=MOST_DRAWN,
        worst=_worst_queries(facts),
        often=_most_read_files(facts),
        history=facts.history[:_LISTED],
    )


def render(name: str, data: dict[str, Any], **variables: Any) -> str:
    """Fill a template with variables, and with the data that its script draws, as one page.

    Raises MissingDependencyError if a library is missing.
    """
    need_libraries("jinja2", "plotly")
    import jinja2

    here = resources.files(__package__) / "assets"
    style, script = (here.joinpath(asset).read_text("utf-8") for asset in ("page.css", "page.js"))
    library, library_hash = _library()
    loader = jinja2.FunctionLoader(lambda asset: here.joinpath(asset).read_text("utf-8"))
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(size=show_size, share=percent, clean=clean, moment=moment)
    page = environment.get_template(name).render(
        **variables,
        style=style,
        script=script,
        library=library,
        data=_json(data),
        policy=f"script-src {_hash(script)} {library_hash}",
    )
    return page.encode("utf-8", "replace").decode()


def _figures(facts: Facts, indexes: Ints) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    if facts.info.files:
        figures["sizes"] = charts.file_sizes(facts.snapshot.sizes)
    spreads = facts.spreads
    for i, spread in enumerate(spreads):
        if spread.clustering.files:
            figures[f"depth-{i}"] = depth_line(spread)
    colors = [0.0] * len(indexes)  # The page stores the bytes and reads of each file once, for all pairs of columns.
    for i in range(len(spreads)):
        for j in range(i + 1, len(spreads)):
            figures[f"files-{i}-{j}"] = rectangles(spreads[i], spreads[j], indexes, colors)
            figures[f"files-{i}-{j}"]["data"][0]["marker"].pop("color")
            figures[f"cover-{i}-{j}"] = cover(spreads[i], spreads[j])
    if facts.queries is not None and facts.queries.entries:
        figures["reads"] = charts.reads(facts.queries, facts.info.bytes)
        figures["prunings"] = charts.prunings(facts.queries, facts.info.files)
    if facts.advice is not None:
        figures["candidates"] = charts.candidates(facts.advice)
    return figures


def _worst_queries(facts: Facts) -> list[QueryReads]:
    queries = () if facts.queries is None else facts.queries.entries
    return sorted(queries, key=lambda query: (-query.bytes, query.where))[:_WORST]


def _most_read_files(facts: Facts) -> list[dict[str, Any]]:
    """Return the files that most queries read."""
    if facts.queries is None or not facts.queries.entries:
        return []
    order = np.argsort(-facts.queries.reads, kind="stable")[:_WORST].tolist()
    sizes, paths = facts.snapshot.sizes, facts.snapshot.paths
    return [{"name": paths[i], "bytes": int(sizes[i]), "share": float(facts.queries.reads[i])} for i in order]


def _json(data: dict[str, Any]) -> str:
    """Write JSON that is safe inside a script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@cache
def _library() -> tuple[str, str]:
    """Return Plotly's script, gzipped and base64-encoded, and its hash."""
    script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")
    packed = base64.b64encode(gzip.compress(script.encode(), 6, mtime=0)).decode()
    return packed, _hash(script)


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
