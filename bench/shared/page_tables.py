"""Tables of the page of benchmarks that say more than figure by figure."""

from __future__ import annotations

from typing import Any

Figures = dict[str, Any]

RFC27 = (
    ("RFC-27: HFile", "100 MB", "15 s", "51 ms", "17 s"),
    ("RFC-27: Parquet", "43 MB", "6.1 s", "1.9 s", "2.1 s"),
    ("RFC-27: Parquet by Spark SQL", "43 MB", "7 s", "440 ms", "1.5 s"),
)
"""As the proposal reports them, on its own machine."""


def beside_rfc27(figures: Figures) -> list[str]:
    """RFC-27's own table, and below it the same of zskip and of others in the same run."""

    def told(name: str, unit: str) -> str:
        value = figures.get(f"rfc27_{name}")
        return "" if value is None else f"{value} {unit}"

    rows = [
        *RFC27,
        ("zskip", *(told(n, u) for n, u in (("mb", "MB"), ("full_s", "s"), ("ten_ms", "ms"), ("range_ms", "ms")))),
        (
            "zskip, as a query does it",
            "",
            "",
            told("ten_by_a_query_ms", "ms"),
            told("range_by_a_query_ms", "ms"),
        ),
        (
            "one row a file in Parquet, by pyarrow",
            told("wide_mb", "MB"),
            told("wide_full_s", "s"),
            told("wide_ten_ms", "ms"),
            told("wide_range_ms", "ms"),
        ),
        ("Spark SQL on one row a file", "", "", told("spark_wide_ten_ms", "ms"), told("spark_wide_range_ms", "ms")),
        (
            "Spark SQL on zskip's entries",
            "",
            told("spark_full_s", "s"),
            told("spark_ten_ms", "ms"),
            told("spark_range_ms", "ms"),
        ),
    ]
    return table(("", "size", "all entries", "10 entries", "5,000 entries (here 5,152)"), rows)


def of_sketches(figures: Figures) -> list[str]:
    """What each sketch saves, and what it takes."""
    names = [name.removesuffix("_kb_a_file") for name in figures if name.endswith("_kb_a_file")]
    what = ("sketch", "files", "files_read_by_bounds", "files_read", "files_with_a_match", "mb_saved", "kb")
    rows = [(name, *(str(figures[f"{name}_{part}"]) for part in what)) for name in names]
    head = ("", "sketch", "files", "read by bounds", "read with it", "hold a match", "MB saved a query", "KB it takes")
    return table(head, rows)


def of_workloads(figures: Figures) -> list[str]:
    """What each workload reads."""
    what = ("delta_pct", "without_pct", "with_pct", "predicted_pct", "stale_pct", "curve")
    names = [name.removesuffix("_curve") for name in figures if name.endswith("_curve")]
    rows = [(name, *(str(figures[f"{name}_{part}"]) for part in what)) for name in names]
    return table(("workload", *(part.removesuffix("_pct") for part in what)), rows)


def table(head: tuple[str, ...], rows: list[Any]) -> list[str]:
    """Lines of Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


TABLES = {
    "The index by itself": beside_rfc27,
    "What sketches save": of_sketches,
    "Layouts fitted to a workload": of_workloads,
}
"""By the titles of sections; each stands above the section's figures."""
