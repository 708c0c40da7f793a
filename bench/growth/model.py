"""What the slopes say of tables of 1 TB and of 100 TB, and which of the numbers are guesses."""

from __future__ import annotations

from shared import growth

FILE_BYTES, CORES, TASK_BYTES = 128 << 20, 100, 128 << 20
TABLES = {"1 TB": 10**12, "100 TB": 10**14}
DRIVER = ("query_s", "info_s", "maintain_plan_s", "survey_s", "append_index_s", "fit_s", "tasks_s")


def model_table(results: dict[str, growth.Row]) -> str:
    """The section with the model; what was not measured is left out."""
    lines = [
        "## What that says of 1 TB and 100 TB",
        "",
        "Files of 128 MB and 100 cores. A figure is that of the largest size measured, times the power of the "
        "factor that the slope of its last sizes says (a falling one counts as flat); where fewer than four sizes "
        "were measured there is none. Guesses, since no such table was there: that the slope goes on; that a core "
        "of the cluster is one of the machine above; that 100 cores work as 100 times one, without waiting for "
        "network or disks; 30 ms for a request to an object store, of which 16 run at once.",
        "",
        "| | 1 TB | 100 TB | from |",
        "|---|---|---|---|",
    ]
    if "files" in results:
        result = results["files"]
        for figure in filter(lambda name: growth.slope(result, name) is not None, DRIVER):
            cells = [f"{growth.at(result, figure, size / FILE_BYTES):,.2g} s" for size in TABLES.values()]
            lines.append(f"| `{figure}` on the driver | {' | '.join(cells)} | slope of Files |")
        for figure, unit in (("driver_mb", "MB"), ("closure_kb", "kB")):
            if growth.slope(result, figure) is None:
                continue
            cells = [f"{growth.at(result, figure, size / FILE_BYTES):,.0f} {unit}" for size in TABLES.values()]
            lines.append(f"| `{figure}` | {' | '.join(cells)} | slope of Files |")
        if growth.slope(result, "layout_in_a_task_s") is not None:
            cells = []
            for size in TABLES.values():
                tasks, seconds = size / TASK_BYTES, growth.at(result, "layout_in_a_task_s", size / FILE_BYTES)
                cells.append(f"{tasks * seconds / CORES / 60:,.1f} min")
            lines.append(
                f"| all tasks of an optimize read the layout | {' | '.join(cells)} | Files; 100 cores: a guess |"
            )
    if "rows" in results:
        row = results["rows"]["rows"][-1]
        for name in ("copy", "optimize"):
            rate = row[f"{name}_cpu_s"] / (row["table_mb"] * 1e6)
            cells = [f"{rate * size / CORES / 3600:,.2g} h" for size in TABLES.values()]
            lines.append(
                f"| `{name}`, 100 cores | {' | '.join(cells)} | processor seconds a byte of Rows; cores: a guess |"
            )
        cells = [f"{row['shuffle_over_table'] * size / 1e12:,.2g} TB" for size in TABLES.values()]
        lines.append(f"| shuffle of an optimize | {' | '.join(cells)} | `shuffle_over_table` of Rows |")
    cells = [
        f"{requests:,.0f} ({requests * 0.03 / 16 / 60:,.1f} min)" for requests in map(_list_requests, TABLES.values())
    ]
    lines.append(
        f"| requests to list a plain table in a store | {' | '.join(cells)} | 1,000 names each; 30 ms: a guess |"
    )
    return "\n".join(lines)


def _list_requests(size: int) -> float:
    return size / FILE_BYTES / 1_000
