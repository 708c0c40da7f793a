"""Reports: of a million files of three columns from their index, and of a lineitem with 200 queries.

python bench/index/report.py --million 1000000 --scale 1

Each part runs in a process of its own; `mb` is what the process grows by while it makes the report, beside the list of
the files and the libraries; `first_cpu_s` is what the processors worked for it. `first_paint_ms` is
Chromium's, where there is one.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import common
from shared.index_data import keep, make_index, read_snapshot
from zskip.formats.parquet.format import ParquetFormat
from zskip.report.page import _library

PARTS = ("million", "lineitem")
FILES = 64
"""Of lineitem."""


def main() -> None:
    """Run the parts one after another, and print the figures."""
    options = common.arguments(__doc__ or "", million=1_000_000, scale=1.0, queries=200, only="", make="")
    if options.make:
        keep(Path(options.make), make_index(options.make, options.million, 3, options.seed))
    elif options.only:
        print(json.dumps(million(options) if options.only == "million" else lineitem(options)))
    else:
        figures: dict[str, Any] = {"machine": common.machine()}
        for part in PARTS:
            figures[part] = in_a_process(part, options)
        common.emit(figures, options.json)


def in_a_process(part: str, options: Any) -> dict[str, Any]:
    given = [f"--{name}={getattr(options, name)}" for name in ("million", "scale", "queries", "seed")]
    return common.in_a_process(__file__, part, given, common.HOME / "report-million" if part == "million" else None)


def million(options: Any) -> dict[str, Any]:
    """A report of a table of which only the index and the list of files exist."""
    import zskip

    path = common.HOME / "report-million"
    snapshot = read_snapshot(path)
    ParquetFormat.snapshot = lambda self: snapshot  # type: ignore[method-assign]
    table = zskip.open(str(path), format="parquet")
    return {"files": len(snapshot), **made(table, path.with_suffix(".html"))}


def lineitem(options: Any) -> dict[str, Any]:
    """A report of a lineitem in the order of its dates, with queries."""
    import zskip

    path = common.HOME / f"report-lineitem-sf{options.scale:g}"
    if not path.exists():
        rows = pq.read_table(common.lineitem(options.scale), columns=common.CLUSTER_BY).sort_by("l_shipdate")
        path.mkdir()
        each = -(-rows.num_rows // FILES)
        for i in range(FILES):
            pq.write_table(rows.slice(i * each, each), path / f"part-{i:05d}.parquet")
    asked = common.queries(path, common.CLUSTER_BY, options.queries, options.seed)
    table = zskip.open(str(path))
    table.index()
    return {"files": table.info().files, "queries": len(asked), **made(table, path.with_suffix(".html"), asked)}


def made(table: Any, target: Path, workload: list[str] | None = None) -> dict[str, Any]:
    before, worked = common.resident(), time.process_time()
    took = common.seconds(lambda: table.report(target, workload=workload))
    worked = time.process_time() - worked
    grown = common.peak() - before
    again = [common.seconds(lambda: table.report(target, workload=workload)) for _ in range(3)]
    size = target.stat().st_size
    return {
        "first_s": round(took, 2),
        "first_cpu_s": round(worked, 2),
        "median_s": common.median(again),
        "mb": round(grown, 1),
        "html_mb": round(size / 1e6, 2),
        "html_mb_beyond_the_library": round((size - len(_library()[0])) / 1e6, 2),
        **painted(target),
    }


def painted(page: Path) -> dict[str, int]:
    """How long Chromium takes: something is seen, the charts near the window are drawn, all are."""
    sys.path.insert(0, str(common.ROOT / "tests" / "support"))
    from chromium import browser

    try:
        with browser() as opened:
            opened.open(page)
            opened.wait("document.documentElement.dataset.drawn")
            near = opened.run("performance.now()")
            opened.draw()
            drawn = opened.run("performance.now()")
            first = opened.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    except LookupError as error:
        common.log(str(error))
        return {}
    return {"first_paint_ms": round(first), "near_drawn_ms": round(near), "all_drawn_ms": round(drawn)}


if __name__ == "__main__":
    main()
