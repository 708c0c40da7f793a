"""The commands, and how they end: exit code 2 for what the user can mend, 130 for Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import zskip
from zskip.errors import InputError, ZskipError, ZskipWarning

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

app = typer.Typer(
    help="Make Spark read only the files a query needs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

TablePath = Annotated[str, typer.Argument(metavar="PATH", help="The table: a directory of Parquet files.")]
IndexPath = Annotated[
    str | None,
    typer.Option("--index-path", metavar="DIR", help="Where the index of a table lies that may not be written to."),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="The table's format: parquet, delta, iceberg or hudi; detected by default."
    ),
]
WorkloadFile = Annotated[
    str | None,
    typer.Option("--workload", metavar="FILE", help="Queries to fit to, one a line or as JSON; else those recorded."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


class Curve(str, Enum):
    """How rows are ordered."""

    zorder = "zorder"
    hilbert = "hilbert"
    linear = "linear"
    fitted = "fitted"
    auto = "auto"


class Build(str, Enum):
    """What values are ranked by."""

    sample = "sample"
    direct = "direct"


class Sampling(str, Enum):
    """How the sample is drawn."""

    bernoulli = "bernoulli"
    reservoir = "reservoir"


class Collect(str, Enum):
    """Where statistics come from."""

    footers = "footers"
    auto = "auto"
    scan = "scan"


class Granularity(str, Enum):
    """What the index has entries for."""

    file = "file"
    row_group = "row_group"


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"zskip {zskip.__version__}")
        raise typer.Exit


Exclusive = Annotated[
    bool, typer.Option("--exclusive", help="Nobody else rewrites it; for stores that cannot tell who was first.")
]


@app.command()
def optimize(
    path: TablePath,
    by: Annotated[
        str, typer.Option("--by", metavar="A,B,C", help="Columns to cluster by, separated by commas, or auto.")
    ],
    curve: Annotated[Curve, typer.Option("--curve", help="The order of the rows.")] = Curve.zorder,
    build: Annotated[Build, typer.Option("--build", help="Rank by sampled bounds, or by leading bytes.")] = (
        Build.sample
    ),
    files: Annotated[int | None, typer.Option("--files", metavar="N", help="How many files to write.")] = None,
    target_file_size: Annotated[
        str | None,
        typer.Option("--target-file-size", metavar="SIZE", help="How large files should be; 128MB by default."),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Rewrite only the Hive partitions that match.")
    ] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="PATH", help="Write a new table there and leave this one alone.")
    ] = None,
    sort_within_files: Annotated[
        bool, typer.Option("--sort/--no-sort", help="Sort rows inside files, so that pages are skipped as well.")
    ] = True,
    sampling: Annotated[Sampling, typer.Option("--sampling", help="How the sample is drawn.")] = Sampling.bernoulli,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same files.")] = 0,
    compression: Annotated[
        str,
        typer.Option(
            "--compression", metavar="CODEC", help="Of the new files, such as zstd or zstd:3; else as they are."
        ),
    ] = "keep",
    workload: WorkloadFile = None,
    exclusive: Exclusive = False,
    max_batch: Annotated[
        str | None,
        typer.Option(
            "--max-batch", metavar="SIZE", help="Commit after so many bytes, such as 200GB; call again after a crash."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", help="How many batches at the same time.")] = 1,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite a table so that rows which are close in several columns lie in the same file.

    Example: zskip optimize events --by user_id,day --target-file-size 256MB
    """
    from zskip.cli.show import print_json, print_result

    result = zskip.table(_spark(), path, format=format_name).optimize(
        "auto" if by.strip() == "auto" else column_names(by),
        curve=curve.value,
        build=build.value,
        files=files,
        target_file_size=target_file_size,
        where=where,
        into=into,
        sort_within_files=sort_within_files,
        sampling=sampling.value,
        seed=seed,
        compression=compression,
        workload=workload,
        exclusive=exclusive,
        max_batch=max_batch,
        jobs=jobs,
    )
    print_json(result) if as_json else print_result(result)


@app.command()
def compact(
    path: TablePath,
    target_file_size: Annotated[
        str, typer.Option("--target-file-size", metavar="SIZE", help="The most that a new file takes.")
    ] = "128MB",
    min_file_size: Annotated[
        str | None,
        typer.Option("--min-file-size", metavar="SIZE", help="Leave such files alone; by default half of the target."),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Merge only in the Hive partitions that match.")
    ] = None,
    exclusive: Exclusive = False,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Merge small files into larger ones, without a change of the order of their rows.

    Example: zskip compact events --target-file-size 256MB
    """
    from zskip.cli.show import print_json, print_result

    result = zskip.table(_spark(), path, format=format_name).compact(
        target_file_size=target_file_size, min_file_size=min_file_size, where=where, exclusive=exclusive
    )
    print_json(result) if as_json else print_result(result)


@app.command()
def maintain(
    path: TablePath,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="SIZE", help="The most to rewrite, such as 10GB.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="N", help="Begin no batch after so many seconds.")
    ] = None,
    target_file_size: Annotated[
        str | None,
        typer.Option("--target-file-size", metavar="SIZE", help="How large files are to be; as the last time."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="A,B,C", help="Columns to cluster by, of a table that was never clustered."),
    ] = None,
    workload: WorkloadFile = None,
    exclusive: Exclusive = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Keep a table clustered while it is written: rewrite only those files for which that is worth its bytes.

    Example: zskip maintain events --budget 10GB --seconds 600
    """
    from zskip.cli.show import print_json, print_result

    result = open_table(path, None, format_name, spark=not dry_run).maintain(
        budget=budget,
        seconds=seconds,
        target_file_size=target_file_size,
        by=None if by is None else column_names(by),
        workload=workload,
        dry_run=dry_run,
        exclusive=exclusive,
    )
    print_json(result) if as_json else print_result(result)


@app.command()
def history(path: TablePath, format_name: FormatName = None, as_json: AsJson = False) -> None:
    """List what zskip did to a table, the latest first.

    Example: zskip history events
    """
    from zskip.cli.show import print_json, print_rows
    from zskip.rows import operations

    found = open_table(path, None, format_name).history()
    if as_json:
        print_json({"operations": found})
        return
    grid = operations(found)
    print_rows(grid.names, grid.rows)


@app.command()
def index(
    path: TablePath,
    collect: Annotated[
        Collect,
        typer.Option(
            "--collect", help="Read footers only, let Spark also count what they do not tell, or count everything."
        ),
    ] = Collect.footers,
    sketch: Annotated[
        list[str] | None,
        typer.Option("--sketch", metavar="SPEC", help="A sketch to keep, such as bloom(0.01):key; may be repeated."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="SPEC", help="A sketch to drop; may be repeated.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="SIZE", help="The most that one sketch may take for a file.")
    ] = None,
    total_budget: Annotated[
        str | None,
        typer.Option("--total-budget", metavar="SIZE", help="The most that all sketches may take for all files."),
    ] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Start Spark, so that the sketches of new files are built as well.")
    ] = False,
    granularity: Annotated[
        Granularity | None,
        typer.Option("--granularity", help="Keep entries for files only, or for row groups as well."),
    ] = None,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Bring the index up to date: read the footers of files that are not in it yet, and build sketches.

    Example: zskip index events --sketch 'bloom(0.01):user_id'
    """
    from zskip.cli.show import print_json, print_result

    spark = refresh or bool(sketch) or collect is not Collect.footers
    found = open_table(path, index_path, format_name, spark=spark).index(
        collect=collect.value,
        sketches=sketch or (),
        drop=drop or (),
        budget=budget,
        total_budget=total_budget,
        granularity=None if granularity is None else granularity.value,
    )
    print_json(found) if as_json else print_result(found)


@app.command()
def files(
    path: TablePath,
    where: Annotated[str | None, typer.Option("--where", metavar="SQL", help="A predicate in Spark SQL.")] = None,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """List the files that might hold a matching row.

    Example: zskip files events --where "day = DATE '2024-03-01' AND user_id < 100"
    """
    table = open_table(path, index_path, format_name)
    names = table.files(where)
    if not as_json:
        for name in names:
            print(name)
        return
    from zskip.cli.show import print_json

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        scan = table.prune(where)
    row_groups = [name.row_groups for name in names]
    print_json({"path": table.path, "where": where, "files": names, "row_groups": row_groups, "scan": scan})


@app.command()
def explain(
    path: TablePath,
    where: Annotated[str | None, typer.Option("--where", metavar="SQL", help="A predicate in Spark SQL.")] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the query with Spark, and say which files were read for nothing.")
    ] = False,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Say why files are read or skipped: what is left after each part of a predicate, and what each part skips.

    Example: zskip explain events --where "day = DATE '2024-03-01' AND lower(name) = 'x'"
    """
    from zskip.cli.show import print_json, print_result

    table = open_table(path, index_path, format_name, spark=analyze)
    found = table.explain(where, analyze=analyze)
    print_json(found) if as_json else print_result(found)


@app.command()
def verify(
    path: TablePath,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="The query to run; by default random ones.")
    ] = None,
    queries: Annotated[int, typer.Option("--queries", metavar="N", min=0, help="How many random queries.")] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="The same seed draws the same queries.")] = 0,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Prove that no row is lost: compare all statistics with the data, and run queries with the index and without.

    Exit code 1 if something is wrong. Example: zskip verify events --queries 100
    """
    from zskip.cli.show import plain, print_json, print_result

    with _spark_errors():
        found = open_table(path, index_path, format_name, spark=True).verify(where, queries=queries, seed=seed)
    print_json({"ok": found.ok, **plain(found)}) if as_json else print_result(found)
    if not found.ok:
        raise typer.Exit(1)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A query in Spark SQL.")],
    table: Annotated[
        list[str], typer.Option("--table", metavar="NAME=PATH", help="A table of the query; may be repeated.")
    ],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Print at most this many rows.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Answer a query, reading only the files it needs.

    Example: zskip query "SELECT count(*) FROM e WHERE user_id = 7" --table e=events
    """
    from zskip.cli.show import print_json, print_rows
    from zskip.rows import scan_summary

    named = dict(_named(text) for text in table)
    spark = _spark()
    tables = {name: zskip.table(spark, path) for name, path in named.items()}
    for name, opened in tables.items():
        opened.df().createOrReplaceTempView(name)
    with _spark_errors():
        frame = spark.sql(sql)
        rows = frame.limit(limit + 1).collect()
    scans = {name: opened.last_scan for name, opened in tables.items() if opened.last_scan is not None}
    shown = [list(row) for row in rows[:limit]]
    if as_json:
        print_json({"columns": frame.columns, "rows": shown, "truncated": len(rows) > limit, "scans": scans})
        return
    print_rows(frame.columns, shown)
    if len(rows) > limit:
        print(f"only the first {limit} rows; see --limit")
    for name, scan in scans.items():
        print(f"{name}: {scan_summary(scan)}")


@app.command(name="sql")
def run_sql(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One statement.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Print at most this many rows.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Run a statement: OPTIMIZE, EXPLAIN SKIPPING, VERIFY, CREATE SKIPPING INDEX, or any query over indexed tables.

    Example: zskip sql "OPTIMIZE 'events' ZORDER BY (user_id, day)"
    """
    from zskip.cli.show import flat, print_json, print_pairs, print_rows
    from zskip.rows import scan_summary
    from zskip.sql.run import run
    from zskip.sql.statements.statement import Optimize, Verify, read_statement

    statement = read_statement(text)
    scans: dict[str, Any] = {}
    spark = _spark()
    with _spark_errors():
        frame = run(spark, text, scans.__setitem__)
        rows = frame.limit(limit + 1).collect()
    shown = [list(row) for row in rows[:limit]]
    if as_json:
        print_json({"columns": frame.columns, "rows": shown, "truncated": len(rows) > limit, "scans": scans})
    elif isinstance(statement, Optimize | Verify):
        print_pairs(flat(rows[0]))
    else:
        print_rows(frame.columns, shown)
        if len(rows) > limit:
            print(f"only the first {limit} rows; see --limit")
        for name, scan in scans.items():
            print(f"{name}: {scan_summary(scan)}")
    if isinstance(statement, Verify) and not rows[0]["ok"]:
        raise typer.Exit(1)


@app.command()
def info(
    path: TablePath,
    by: Annotated[str | None, typer.Option("--by", metavar="A,B,C", help="Columns whose clustering is shown.")] = None,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Show what lies at a path: files, rows, columns, index, layout, and how well columns are clustered.

    Example: zskip info events --by user_id,day
    """
    from zskip.cli.show import print_json, print_result

    found = open_table(path, index_path, format_name).info(None if by is None else column_names(by))
    print_json(found) if as_json else print_result(found)


@app.command()
def report(
    path: TablePath,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; else PATH's name and -report.html.")
    ] = None,
    workload: WorkloadFile = None,
    by: Annotated[str | None, typer.Option("--by", metavar="A,B,C", help="Columns that files are drawn along.")] = None,
    advice: Annotated[bool, typer.Option("--advice", help="Start Spark, and add advice by the workload.")] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Write what is known of a table as one HTML file, with pictures of its layout; nothing of the table is read.

    Example: zskip report events -o events.html --open
    """
    from zskip.cli.show import print_json

    columns = None if by is None else column_names(by)
    written = open_table(path, index_path, format_name, spark=advice).report(output, workload=workload, by=columns)
    print_json({"report": str(written)}) if as_json else print(written)
    if open_it:
        show_page(written)


@app.command()
def clean(
    path: TablePath,
    delete: Annotated[bool, typer.Option("--delete", help="Remove what is listed.")] = False,
    index_path: IndexPath = None,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """List what interrupted operations left in a table, or remove it; live files and earlier versions are not touched.

    Example: zskip clean events --delete
    """
    from zskip.cli.show import plain, print_json, print_result

    found = open_table(path, index_path, format_name).clean(delete=delete)
    print_json({"bytes": found.bytes, **plain(found)}) if as_json else print_result(found)


@app.command()
def demo(
    scale: Annotated[float, typer.Option("--scale", metavar="F", help="TPC-H scale factor: 1 is 6M rows.")] = 0.5,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Keep the tables in this directory.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Show the report of it in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Cluster TPC-H tables, answer the same queries before and after, and report what was done.

    Example: zskip demo --scale 0.1 --open
    """
    from zskip.demo import run_demo

    same = run_demo(scale, keep, as_json=as_json, show=show_page if open_it else None)
    raise typer.Exit(0 if same else 1)


def open_table(path: str, index_path: str | None, format_name: str | None, *, spark: bool = False) -> zskip.Table:
    """Open a table without Spark where that will do and knows the place, else through a session."""
    if spark or not (_needs_no_spark(path) and _needs_no_spark(index_path or "")):
        return zskip.table(_spark(), path, index_path=index_path, format=format_name)
    return zskip.open(path, index_path=index_path, format=format_name)


def _needs_no_spark(path: str) -> bool:
    from importlib.util import find_spec

    from zskip.storage import is_remote

    scheme, separator, _ = path.partition("://")
    if scheme.lower() == "hdfs":
        return find_spec("hdfs_native") is not None or find_spec("pyspark") is None
    return not separator or scheme == "file" or is_remote(path)


def _spark() -> SparkSession:
    from zskip.spark.jvm.session import local_session

    return local_session("zskip")


def column_names(by: str) -> list[str]:
    """Names with commas between; raises InputError for an empty one."""
    names = [name.strip() for name in by.split(",")]
    if not all(names):
        raise InputError(f'--by "{by}" has an empty name; write columns with one comma between, such as a,b,c')
    return names


def show_page(page: Path) -> None:
    """Open a page in the browser, where there is one."""
    import webbrowser

    if not webbrowser.open(page.as_uri()):
        _say("warning", "yellow", f"no browser was found; open {page.as_uri()} in one")


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not name.isidentifier() or not path:
        raise InputError(f'--table "{text}" is not of the form NAME=PATH, such as e=/data/events')
    return name, path


@contextlib.contextmanager
def _spark_errors() -> Iterator[None]:
    """Raise what Spark says against a user's query as one sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise InputError(f"Spark refuses the query: {str(error).strip().splitlines()[0]}") from error


def main() -> NoReturn:
    """Run a command: exit code 2 for what the user can mend, 130 for Ctrl-C."""
    warnings.showwarning = _warn
    try:
        code = app(standalone_mode=False)
    except ZskipError as error:
        _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        said = error.format_message().rstrip(".")
        _fail(f"{said}; see --help", 2) if said else sys.exit(2)
    if code == 130:
        _fail("interrupted; a table in the middle of a commit is put right by the next zskip call on it", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(text: str, code: int) -> NoReturn:
    sys.stdout.flush()
    _say("error", "red", text)
    sys.exit(code)


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, ZskipWarning) or os.environ.get("PYTHONWARNINGS"):
        _say("warning", "yellow", str(message))


def _say(kind: str, color: str, text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text.assemble((f"{kind}:", color), " ", text))
