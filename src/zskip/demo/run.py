"""Clusters tables, runs queries before and after, compares the answers, and shows what was not read."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Grid

from zskip.demo.data import TABLES, check, generate
from zskip.demo.queries import QUERIES
from zskip.errors import InputError, MissingDependencyError
from zskip.records import RewriteResult
from zskip.table import Table, table
from zskip.table import open as open_table
from zskip.units import show_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY = {"lineitem": ["l_partkey", "l_suppkey", "l_shipdate"], "orders": ["o_orderdate", "o_custkey"]}
_WIDTH = 132
"""Width of the output if it is no terminal."""
_BYTES_PER_FILE = 1_600_000
"""Small on purpose, so that the tables of the demo have as many files as large tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One query, before and after."""

    query: str
    files: int
    files_total: int
    rows: int
    rows_total: int
    bytes: int
    bytes_total: int
    seconds_before: float
    seconds_after: float
    identical: bool


def run_demo(
    scale: float, keep: str | None = None, *, as_json: bool = False, show: Callable[[Path], None] | None = None
) -> bool:
    """Run the demo; returns whether every query answered the same before and after.

    scale: TPC-H's scale factor; keep: a directory for the tables, which are removed at the end without it; show: called
    with the path of the report.
    """
    check(scale)
    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=_WIDTH)
    with _directory(keep) as directory:
        console.print(f"[bold]1.[/bold] generating TPC-H, scale factor {scale:g}, in {directory}")
        generate(scale, directory)
        from zskip.spark.jvm.session import local_session

        spark = local_session("zskip demo")
        console.print(
            f"[bold]2.[/bold] Spark {spark.version} answers {len(QUERIES)} queries over the tables as they are"
        )
        before = _run_all(spark, {name: spark.read.parquet(str(directory / name)) for name in TABLES})
        console.print("[bold]3.[/bold] clustering")
        tables, results = {}, []
        for name in TABLES:
            tables[name] = table(spark, str(directory / name))
            results.append(_cluster(tables[name], name, console))
        console.print("[bold]4.[/bold] the same queries again, through zskip")
        readings = _run_again(spark, tables, before)
        report = _write_report(directory, console, kept=keep is not None)
    identical = all(reading.identical for reading in readings)
    if as_json:
        document = {
            "scale": scale,
            "optimize": [dataclasses.asdict(result) for result in results],
            "queries": [dataclasses.asdict(reading) for reading in readings],
            "identical": identical,
            "report": None if report is None else str(report),
        }
        print(json.dumps(document, default=str))
    else:
        _print(readings, identical, console)
        if report is not None:
            console.print(f"the report on lineitem and its queries: {report}", soft_wrap=True)
    if report is not None and show is not None:
        show(report)
    return identical


def _write_report(directory: Path, console: Console, *, kept: bool) -> Path | None:
    """Write a report of lineitem with the queries of the demo; it outlives the tables."""
    parent = directory.parent if kept else Path(tempfile.mkdtemp(prefix="zskip-demo-report-"))
    page = parent / f"{directory.name if kept else 'lineitem'}-report.html"
    try:
        return open_table(str(directory / "lineitem")).report(page, workload=list(QUERIES.values()))
    except MissingDependencyError as error:
        console.print(f"no report: {error}", markup=False)
        return None


@contextlib.contextmanager
def _directory(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="zskip-demo-") as name:
            yield Path(name)
        return
    directory = Path(keep).expanduser().absolute()
    if directory.exists() and any(directory.iterdir()):
        raise InputError(f'--keep "{directory}" is not empty; name a new directory')
    directory.mkdir(parents=True, exist_ok=True)
    yield directory


def _cluster(opened: Table, name: str, console: Console) -> RewriteResult:
    size = opened.info().bytes
    result = opened.optimize(_BY[name], files=max(8, min(64, size // _BYTES_PER_FILE)))
    console.print(
        f"   {name}: {result.rows:,} rows by {', '.join(result.by)}, "
        f"{result.files_before} -> {result.files_after} files, "
        f"{show_size(result.bytes_before)} -> {show_size(result.bytes_after)}, {sum(result.seconds.values()):.1f} s"
    )
    return result


def _run_all(spark: SparkSession, views: dict[str, Any]) -> dict[str, tuple[list[tuple[Any, ...]], float]]:
    """Return the sorted rows of each query, and its seconds."""
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    spark.sql("SELECT count(*) FROM lineitem").collect()
    answers = {}
    for name, sql in QUERIES.items():
        answers[name] = _run_query(spark, sql)
    return answers


def _run_query(spark: SparkSession, sql: str) -> tuple[list[tuple[Any, ...]], float]:
    """Return the sorted rows of a query, and the seconds of its second run; the first also compiles Java."""
    spark.sql(sql).collect()
    start = time.perf_counter()
    rows = [tuple(row) for row in spark.sql(sql).collect()]
    return sorted(rows, key=repr), time.perf_counter() - start


def _run_again(
    spark: SparkSession, tables: dict[str, Table], before: dict[str, tuple[list[tuple[Any, ...]], float]]
) -> list[Reading]:
    for name, opened in tables.items():
        opened.df().createOrReplaceTempView(name)
    spark.sql("SELECT count(*) FROM lineitem").collect()
    readings = []
    for name, sql in QUERIES.items():
        for opened in tables.values():
            opened.last_scan = None
        rows, seconds = _run_query(spark, sql)
        expected, seconds_before = before[name]
        scans = [opened.last_scan for opened in tables.values() if opened.last_scan is not None]
        readings.append(
            Reading(
                query=name,
                files=sum(scan.files for scan in scans),
                files_total=sum(scan.files_total for scan in scans),
                rows=sum(scan.rows or 0 for scan in scans),
                rows_total=sum(scan.rows_total or 0 for scan in scans),
                bytes=sum(scan.bytes for scan in scans),
                bytes_total=sum(scan.bytes_total for scan in scans),
                seconds_before=round(seconds_before, 3),
                seconds_after=round(seconds, 3),
                identical=same_rows(expected, rows),
            )
        )
    return readings


def same_rows(expected: list[tuple[Any, ...]], actual: list[tuple[Any, ...]]) -> bool:
    """Whether two sorted results are equal: doubles to within 1e-9 of their size, the rest exactly.

    >>> same_rows([(1, 0.3)], [(1, 0.1 + 0.2)]), same_rows([(1,)], [(2,)])
    (True, False)
    """
    return len(expected) == len(actual) and all(
        len(left) == len(right) and all(map(_same_value, left, right))
        for left, right in zip(expected, actual, strict=True)
    )


def _same_value(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9) or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def _print(readings: list[Reading], identical: bool, console: Console) -> None:
    grid = Grid(title="What each query no longer reads")
    for name in ("query", "files", "rows", "bytes", "before s", "after s", "identical"):
        grid.add_column(name, justify="left" if name == "query" else "right", no_wrap=True)
    for reading in readings:
        grid.add_row(
            reading.query,
            f"{reading.files_total - reading.files} of {reading.files_total}",
            f"{reading.rows_total - reading.rows:,} of {reading.rows_total:,}",
            f"{show_size(reading.bytes_total - reading.bytes)} of {show_size(reading.bytes_total)}",
            f"{reading.seconds_before:.2f}",
            f"{reading.seconds_after:.2f}",
            "yes" if reading.identical else "[red]NO[/red]",
        )
    console.print(grid)
    read, total = sum(reading.bytes for reading in readings), sum(reading.bytes_total for reading in readings)
    verdict = "all results are identical" if identical else "[red]some results differ[/red]"
    console.print(f"{len(readings)} queries, {100 * (1 - read / max(total, 1)):.0f} % of the bytes not read, {verdict}")
