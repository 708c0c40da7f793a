"""The text of docs/growth.md: what grows with the size of a table, and what that says of 1 TB and 100 TB."""

from __future__ import annotations

from pages.cells import Cells, shown
from pages.tables import Table
from shared.runs import Figures
from shared.slopes import LARGEST, at

INTRODUCTION = """# How it grows

What an append, a query, a rewrite or a session costs, measured at several sizes. The *slope* of a figure is the
exponent of the power of the size that fits it best (least squares of the logarithms): at 1 it grows as the size does,
at 0 not at all. If the load of a machine is above the number of cores, only processor seconds are reliable.
`python3 dev.py bench growth` repeats this and writes the page from `bench/results`."""
PARTS = {
    "Rewrites": ("growth-rows",),
    "Queries": ("growth-files",),
    "Appends": ("growth-history-parquet", "growth-history-delta", "growth-history-iceberg"),
    "Sessions": ("growth-session",),
}
CALLS = ("append", "insert", "delete", "maintenance", "df", "query")
MANY = Table(
    "",
    "",
    ("table, maintenance", "appends", "inserts", "deletes", "maintenance", "`df()`", "queries", "torn", "whole"),
    tuple(
        (
            f"{table}, {'zskip' if way == 'zskip' else 'its own'}",
            "growth-concurrency",
            (
                *(f"{table}_{way}_{what}_done & {table}_{way}_{what}_refused" for what in CALLS),
                *(f"{table}_{way}_{what}" for what in ("query_torn", "whole")),
            ),
        )
        for table, way in (
            ("parquet", "zskip"), ("delta", "zskip"), ("delta", "own"), ("iceberg", "zskip"), ("iceberg", "own")
        )
    ),
)  # fmt: skip
FILE_BYTES, CORES, SIZES = 128 << 20, 100, (10**12, 10**14)
DRIVER = ("query_s", "maintain_plan_s", "append_index_s", "fit_s", "driver_mb", "closure_kb")
MODEL = """## What that says about 1 TB and 100 TB

Files of 128 MB and 100 cores. A figure is that of the largest size measured, extrapolated by the slope of its last
{largest} sizes (a falling one counts as flat). No such table was measured, so these are guesses. They assume that the
slope goes on, that a core of the cluster is as fast as one of the machine above, and that 100 cores do the work of 100,
without waiting for network or disks.

| | 1 TB | 100 TB |
|---|---|---|"""


def growth_page(cells: Cells) -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, names in PARTS.items():
        parts.append(f"## {title}\n\n{cells.runs[names[0]].text}")
        for name in names:
            parts.append(sizes_table(cells, name) if name in cells.results else "")
            parts[-1] += f"\n\n{cells.source(name)}"
    parts.append(f"## Many at once\n\n{cells.runs['growth-concurrency'].text}\n\n{cells.section(MANY)}")
    parts.append(model(cells.results))
    return "\n\n".join(parts) + "\n"


def sizes_table(cells: Cells, name: str) -> str:
    """Figures of a run at some of its sizes, and their slopes."""
    series = cells.results[name]["series"]
    size, *_ = series
    count = len(series[size])
    places = sorted({round(i * (count - 1) / 3) for i in range(4)})
    lines = [f"| {size.replace('_', ' ')} | {' | '.join(shown(series[size][i]) for i in places)} | slope |"]
    lines.append("|---" * (len(places) + 2) + "|")
    for figure in cells.runs[name].shown:
        values = [shown(series[figure][i]) for i in places]
        if figure in cells.goals[name]:
            values[-1] = cells.figure(name, figure)
        lines.append(f"| `{figure}` | {' | '.join(values)} | {cells.figure(name, f'{figure}_slope')} |")
    return "\n".join(lines)


def model(results: dict[str, Figures]) -> str:
    """What the slopes say of larger tables."""
    lines = [MODEL.format(largest=LARGEST)]
    if files := results.get("growth-files", {}).get("series"):
        for figure in DRIVER:
            unit = figure.rpartition("_")[2].replace("mb", "MB").replace("kb", "kB")
            values = [f"{float(f'{at(files, figure, size / FILE_BYTES):.2g}'):,g} {unit}" for size in SIZES]
            lines.append(f"| driver: `{figure}` | {' | '.join(values)} |")
        each = [size / FILE_BYTES * at(files, "layout_in_a_task_s", size / FILE_BYTES) / CORES / 60 for size in SIZES]
        lines.append(f"| all tasks of an optimize read the layout | {' | '.join(f'{v:.1f} min' for v in each)} |")
    if rows := results.get("growth-rows", {}).get("series"):
        read = rows["table_mb"][-1] * 1e6
        for name in ("copy", "optimize"):
            hours = [rows[f"{name}_cpu_s"][-1] / read * size / CORES / 3600 for size in SIZES]
            lines.append(f"| `{name}` | {' | '.join(f'{v:.2g} h' for v in hours)} |")
        shuffled = [rows["shuffle_over_table"][-1] * size / 1e12 for size in SIZES]
        lines.append(f"| shuffle of an optimize | {' | '.join(f'{v:.2g} TB' for v in shuffled)} |")
    return "\n".join(lines)
