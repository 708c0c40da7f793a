"""The command line: each command is one call of the library."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import warnings
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Optional

import typer
from rich.console import Console
from rich.table import Table as Grid

import zskip
from zskip.errors import InputError, ZskipError, ZskipWarning
from zskip.units import show_size

if TYPE_CHECKING:
    from zskip.records import IndexInfo, OptimizeResult, ScanReport, TableInfo

app = typer.Typer(
    help="Make Spark read only the files a query needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console(soft_wrap=True)
_err = Console(stderr=True, soft_wrap=True)

Path_ = Annotated[str, typer.Argument(metavar="PATH", help="The table: a directory of Parquet files.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Where = Annotated[Optional[str], typer.Option("--where", metavar="SQL", help="A predicate in Spark SQL.")]  # noqa: UP045


class Curve(str, Enum):
    """How rows are ordered."""

    zorder = "zorder"
    hilbert = "hilbert"
    linear = "linear"


class Build(str, Enum):
    """What values are ranked by."""

    sample = "sample"
    direct = "direct"


class Sampling(str, Enum):
    """How the sample is drawn."""

    bernoulli = "bernoulli"
    reservoir = "reservoir"


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"zskip {zskip.__version__}")
        raise typer.Exit


@app.command()
def optimize(
    path: Path_,
    by: Annotated[str, typer.Option("--by", metavar="A,B,C", help="Columns to cluster by, with commas between.")],
    curve: Annotated[Curve, typer.Option("--curve", help="The order of the rows.")] = Curve.zorder,
    build: Annotated[
        Build, typer.Option("--build", help="Rank by sampled bounds, or by leading bytes.")
    ] = Build.sample,
    files: Annotated[Optional[int], typer.Option("--files", metavar="N", help="How many files to write.")] = None,  # noqa: UP045
    target_file_size: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--target-file-size", metavar="SIZE", help="How large files are to be, such as 128MB (default)."),
    ] = None,
    where: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--where", metavar="SQL", help="Rewrite only the Hive partitions that match."),
    ] = None,
    into: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--into", metavar="PATH", help="Write a new table there and leave this one alone."),
    ] = None,
    sort_within_files: Annotated[
        bool, typer.Option("--sort/--no-sort", help="Sort rows inside files, so that pages skip, too.")
    ] = True,
    sampling: Annotated[Sampling, typer.Option("--sampling", help="How the sample is drawn.")] = Sampling.bernoulli,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same files.")] = 0,
    as_json: Json = False,
) -> None:
    """Rewrite a table so that rows which are close in several columns lie in the same file.

    Example: zskip optimize events --by user_id,day --target-file-size 256MB
    """
    result = _table(path).optimize(
        [name.strip() for name in by.split(",") if name.strip()],
        curve=curve.value,
        build=build.value,
        files=files,
        target_file_size=target_file_size,
        where=where,
        into=into,
        sort_within_files=sort_within_files,
        sampling=sampling.value,
        seed=seed,
    )
    _show(result, as_json, _optimized)


@app.command()
def index(path: Path_, as_json: Json = False) -> None:
    """Bring the index up to date: read the footers of files that are not in it yet.

    Example: zskip index events
    """
    _show(zskip.open(path).index(), as_json, _indexed)


@app.command()
def files(path: Path_, where: Where = None, as_json: Json = False) -> None:
    """List the files that might hold a matching row.

    Example: zskip files events --where "day = DATE '2024-03-01' AND user_id < 100"
    """
    table = zskip.open(path)
    names = table.files(where)
    if as_json:
        scan = table.prune(where)
        _print_json({"path": table.path, "where": where, "files": names, "kept": scan.files, "total": scan.files_total})
    else:
        for name in names:
            print(name)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query in Spark SQL.")],
    table: Annotated[
        list[str], typer.Option("--table", metavar="NAME=PATH", help="A table of the query; may be repeated.")
    ],
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Print at most this many rows.")] = 100,
    as_json: Json = False,
) -> None:
    """Answer a query, reading only the files it needs.

    Example: zskip query "SELECT count(*) FROM e WHERE user_id = 7" --table e=events
    """
    named = [_named(text) for text in table]
    spark = _spark()
    tables = {name: zskip.table(spark, path) for name, path in named}
    for name, opened in tables.items():
        opened.df().createOrReplaceTempView(name)
    try:
        frame = spark.sql(sql)
        rows = frame.limit(limit + 1).collect()
    except Exception as error:
        if type(error).__module__.startswith("pyspark.errors"):
            raise InputError(f"Spark refuses the query: {str(error).splitlines()[0]}") from error
        raise
    scans = {name: opened.last_scan for name, opened in tables.items() if opened.last_scan is not None}
    if as_json:
        _print_json(
            {
                "columns": frame.columns,
                "rows": [list(row) for row in rows[:limit]],
                "truncated": len(rows) > limit,
                "scans": {name: dataclasses.asdict(scan) for name, scan in scans.items()},
            }
        )
        return
    grid = _grid(*frame.columns)
    for row in rows[:limit]:
        grid.add_row(*["NULL" if value is None else str(value) for value in row])
    _out.print(grid)
    if len(rows) > limit:
        _out.print(f"only the first {limit} rows; see --limit")
    for name, scan in scans.items():
        _out.print(f"{name}: {_scanned(scan)}")


@app.command()
def info(path: Path_, as_json: Json = False) -> None:
    """Show what lies at a path: files, rows, columns, index and layout.

    Example: zskip info events --json
    """
    _show(zskip.open(path).info(), as_json, _described)


@app.command()
def demo(
    scale: Annotated[float, typer.Option("--scale", metavar="F", help="TPC-H scale factor: 1 is 6M rows.")] = 0.5,
    keep: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--keep", metavar="DIR", help="Keep the tables in this directory."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Cluster TPC-H tables and answer the same queries before and after.

    Example: zskip demo --scale 0.1
    """
    from zskip.demo import run_demo

    same = run_demo(scale, keep, as_json=as_json)
    raise typer.Exit(0 if same else 1)


def _spark() -> Any:
    from zskip.spark.session import local_session

    return local_session("zskip")


def _table(path: str) -> zskip.Table:
    return zskip.table(_spark(), path)


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name.isidentifier() or not path:
        raise InputError(f'--table "{text}" is not of the form NAME=PATH, such as e=/data/events')
    return name, path


def _show(record: Any, as_json: bool, for_people: Callable[[Any], list[tuple[str, str]]]) -> None:
    if as_json:
        _print_json(dataclasses.asdict(record))
        return
    grid = Grid(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in for_people(record):
        grid.add_row(f"[bold]{name}[/bold]", value)
    _out.print(grid)


def _print_json(document: Any) -> None:
    print(json.dumps(document, default=str))


def _grid(*names: str) -> Grid:
    grid = Grid()
    for name in names:
        grid.add_column(name)
    return grid


def _optimized(result: OptimizeResult) -> list[tuple[str, str]]:
    return [
        ("table", result.path),
        ("clustered by", f"{', '.join(result.by)} ({result.curve}, {result.build})"),
        ("rows", f"{result.rows:,}"),
        ("files", f"{result.files_before:,} -> {result.files_after:,}"),
        ("bytes", f"{show_size(result.bytes_before)} -> {show_size(result.bytes_after)}"),
        ("predicted rows read", f"{_share(result.predicted_share_before)} -> {_share(result.predicted_share_after)}"),
        ("seconds", ", ".join(f"{name} {took:.1f}" for name, took in result.seconds.items())),
    ]


def _share(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"


def _indexed(found: IndexInfo) -> list[tuple[str, str]]:
    return [
        ("index version", str(found.version)),
        ("files", f"{found.files:,} of {found.files_total:,}"),
        ("columns", str(found.columns)),
        ("size", show_size(found.bytes)),
    ]


def _described(found: TableInfo) -> list[tuple[str, str]]:
    layout = found.layout
    return [
        ("table", f"{found.path} ({found.format}, version {found.version})"),
        ("files", f"{found.files:,} in {found.partitions:,} partitions, {show_size(found.bytes)}"),
        ("rows", "unknown (no index)" if found.rows is None else f"{found.rows:,}"),
        ("columns", ", ".join(f"{name} {kind}" for name, kind in found.columns.items())),
        ("partitioned by", ", ".join(found.partition_columns) or "nothing"),
        ("index", "none" if found.index is None else f"{found.index.files:,} of {found.index.files_total:,} files"),
        ("clustered by", "nothing" if layout is None else f"{', '.join(layout.by)} ({layout.curve}, {layout.build})"),
    ]


def _scanned(scan: ScanReport) -> str:
    rows = "" if scan.rows is None else f", {scan.rows:,} of {scan.rows_total:,} rows"
    return (
        f"read {scan.files:,} of {scan.files_total:,} files{rows}, "
        f"{show_size(scan.bytes)} of {show_size(scan.bytes_total)}"
    )


def main() -> NoReturn:
    """Run a command: exit code 2 for what the user can mend, 130 for Ctrl-C."""
    warnings.showwarning = _warn
    try:
        code = app(standalone_mode=False)
    except ZskipError as error:
        _fail(f"[red]error:[/red] {_escaped(str(error))}", 2)
    except KeyboardInterrupt:
        _fail("interrupted; the table is as it was, or whole as after: zskip's next call sees to it", 130)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _fail(f"[red]error:[/red] {_escaped(error.format_message())}; see --help", 2)
    sys.exit(code if isinstance(code, int) else 0)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _fail(text: str, code: int) -> NoReturn:
    _err.print(text)
    sys.stdout.flush()
    sys.exit(code)


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, ZskipWarning) or os.environ.get("PYTHONWARNINGS"):
        _err.print(f"[yellow]warning:[/yellow] {_escaped(str(message))}")


if __name__ == "__main__":
    main()
