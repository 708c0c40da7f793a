"""Commands that rewrite a table, and the history of what they did."""

from __future__ import annotations

from typing import Annotated

import typer

import zskip
from zskip.cli.app import app
from zskip.cli.options import (
    AsJson,
    Build,
    Curve,
    CurveName,
    Exclusive,
    Files,
    FormatName,
    Sampling,
    Seed,
    SortWithinFiles,
    TablePath,
    TargetFileSize,
    Unseen,
    WorkloadFile,
    Writer,
)
from zskip.cli.tables import column_names, open_table, show, start_session


@app.command()
def optimize(
    path: TablePath,
    by: Annotated[str, typer.Option(metavar="A,B,C", help="Columns to cluster by, separated by commas, or auto.")],
    curve: CurveName = Curve.zorder,
    build: Annotated[Build, typer.Option(help="Rank by sampled bounds, or by leading bytes.")] = Build.sample,
    files: Files = None,
    target_file_size: TargetFileSize = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Rewrite only the Hive partitions that match.")
    ] = None,
    into: Annotated[
        str | None, typer.Option(metavar="PATH", help="Write a new table there and leave this one alone.")
    ] = None,
    sort_within_files: SortWithinFiles = True,
    sampling: Annotated[Sampling, typer.Option(help="How the sample is drawn.")] = Sampling.bernoulli,
    seed: Seed = 0,
    compression: Annotated[
        str, typer.Option(metavar="CODEC", help="Of the new files, such as zstd or zstd:3; else as they are.")
    ] = "keep",
    workload: WorkloadFile = None,
    unseen: Unseen = 0.2,
    exclusive: Exclusive = False,
    max_batch: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Commit after so many bytes, such as 200GB; call again after a crash."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="How many batches at the same time.")] = 1,
    writer: Annotated[
        Writer, typer.Option(help="Arrow where it writes what Spark would, or Spark itself.")
    ] = Writer.auto,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite a table so that rows which are close in several columns lie in the same file.

    Example: zskip optimize events --by user_id,day --target-file-size 256MB
    """
    result = zskip.table(start_session(), path, format=format_name).optimize(
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
        unseen=unseen,
        exclusive=exclusive,
        max_batch=max_batch,
        jobs=jobs,
        writer=writer.value,
    )
    show(result, as_json)


@app.command()
def compact(
    path: TablePath,
    target_file_size: Annotated[str, typer.Option(metavar="SIZE", help="The most that a new file takes.")] = "128MB",
    min_file_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Leave such files alone; by default half of the target.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Merge only in the Hive partitions that match.")
    ] = None,
    exclusive: Exclusive = False,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Merge small files into larger ones, without a change of the order of their rows.

    Example: zskip compact events --target-file-size 256MB
    """
    result = zskip.table(start_session(), path, format=format_name).compact(
        target_file_size=target_file_size, min_file_size=min_file_size, where=where, exclusive=exclusive
    )
    show(result, as_json)


@app.command()
def maintain(
    path: TablePath,
    budget: Annotated[str | None, typer.Option(metavar="SIZE", help="The most to rewrite, such as 10GB.")] = None,
    seconds: Annotated[float | None, typer.Option(metavar="N", help="Begin no batch after so many seconds.")] = None,
    target_file_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="How large files are to be; as the last time.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns to cluster by, of a table that was never clustered.")
    ] = None,
    workload: WorkloadFile = None,
    unseen: Unseen = 0.2,
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit a new tree where the workload has moved, and rewrite by it.")
    ] = False,
    exclusive: Exclusive = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    format_name: FormatName = None,
    as_json: AsJson = False,
) -> None:
    """Keep a table clustered while it is written: rewrite only those files for which that is worth its bytes.

    Example: zskip maintain events --budget 10GB --seconds 600
    """
    result = open_table(path, None, format_name, spark=not dry_run).maintain(
        budget=budget,
        seconds=seconds,
        target_file_size=target_file_size,
        by=None if by is None else column_names(by),
        workload=workload,
        unseen=unseen,
        refit=refit,
        dry_run=dry_run,
        exclusive=exclusive,
    )
    show(result, as_json)


@app.command()
def history(path: TablePath, format_name: FormatName = None, as_json: AsJson = False) -> None:
    """List what zskip did to a table, the latest first.

    Example: zskip history events
    """
    from zskip.cli.show import print_json, print_rows
    from zskip.rows import operations as operations_grid

    operations = open_table(path, None, format_name).history()
    if as_json:
        print_json({"operations": operations})
        return
    grid = operations_grid(operations)
    print_rows(grid.names, grid.rows)
