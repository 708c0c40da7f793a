"""`Table`, whose methods are the verbs of zskip.

Each method imports what it needs, so that `import zskip` and `zskip --help` take no time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zskip.errors import public_methods

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    import pyarrow.compute as pc
    from plotly.graph_objects import Figure
    from pyspark.sql import DataFrame

    from zskip.advisor.advice.advice import Advice, Candidate
    from zskip.advisor.workload.workload import Workload
    from zskip.records import (
        Cleaning,
        Explanation,
        IndexedPart,
        IndexInfo,
        Maintenance,
        Operation,
        RewriteResult,
        ScanReport,
        TableInfo,
        Verification,
        WriteResult,
    )
    from zskip.table.handle import Handle
    from zskip.table.optimize_request import Given
    from zskip.table.read.kept_file import KeptFile
    from zskip.table.read.plan import ScanPlan


@public_methods
class Table:
    """A table that zskip clusters, indexes and prunes.

    Get one from `zskip.table(spark, path)`, or from `zskip.open(path)` without Spark.

    All methods raise InputError for an invalid argument or if they need a Spark session and there is none, ColumnError
    for columns that do not exist, PredicateError for SQL that does not parse, and StorageError if the file system
    refuses.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._root = handle.address
        """What errors call the table."""
        self._last_scan: ScanReport | None = None

    @property
    def last_scan(self) -> ScanReport | None:
        """Reports the latest scan of any `df()` or `files()` of this object; None before the first."""
        from zskip.table.read.query import report_scans

        report_scans(self._handle)
        return self._last_scan

    @last_scan.setter
    def last_scan(self, scan: ScanReport | None) -> None:
        self.last_scan  # noqa: B018 (earlier scans are reported first)
        self._last_scan = scan

    @property
    def path(self) -> str:
        """Absolute path or URI of the table."""
        return self._handle.storage.root

    def optimize(
        self,
        by: Sequence[str] | str,
        *,
        curve: str = "zorder",
        build: str = "sample",
        files: int | None = None,
        target_file_size: int | str | None = None,
        where: str | None = None,
        into: str | None = None,
        sampling: str = "bernoulli",
        seed: int = 0,
        compression: str = "keep",
        workload: Given = None,
        unseen: float = 0.2,
        exclusive: bool = False,
        max_batch: int | str | None = None,
        jobs: int = 1,
    ) -> RewriteResult:
        """Rewrite the table so that rows with similar values in the columns `by` lie in the same files, and index it.

        Args:
            by: 2 to 32 columns that queries filter on (one is enough for curve="linear"), or "auto" to let the workload
                choose. With "auto", zskip writes nothing if no layout reads noticeably less.
            curve: "zorder", "hilbert", "linear", "fitted", or "auto" for the best of them. "fitted" is a tree of cuts
                fitted to the workload; "auto" takes the tree only if it reads 5 % less than the best curve on queries
                that it was not fitted to.
            build: "sample" ranks values among bounds sampled from the table, "direct" uses their leading bytes.
            files: Number of files to write.
            target_file_size: Size of the new files, "128MB" by default. Give this or `files`.
            where: Rewrite only the Hive partitions that match.
            into: Path or new catalog name of a new table to write, which appears all at once; this table stays as it
                is.
            sampling: "bernoulli", or "reservoir", the weighted process of Delta and Hudi.
            seed: The same seed on the same table gives the same files.
            compression: Codec of the new files: "zstd", "snappy", "gzip", "lz4_raw" or "uncompressed", with an optional
                level such as "zstd:3", or "keep" for that of most rows. A table without rows gets zstd.
            workload: File of queries to fit the layout to, one a line or as JSON; defaults to the recorded ones where
                the layout needs queries. Also a list, as in `advise`. If a workload is needed and none was recorded,
                zskip makes up ranges on one or two columns.
            unseen: Share of tomorrow's queries that the workload does not show, 0 to 1. Made-up queries stand for them.
            exclusive: Promise that no other process rewrites the table at the same time. Plain Parquet needs it in an
                object store without conditional writes.
            max_batch: For large tables, the most bytes of files to rewrite in one commit, such as "200GB". After an
                interruption, the same call does the rest. A batch is whole partitions, or files that lie near each
                other.
            jobs: Number of batches to rewrite at the same time.

        Raises:
            UnsupportedError: zskip must not rewrite this table.
            CorruptFileError: A file of the table cannot be read.
            ConflictError: Another writer changed the files at the same time.

        After an error the table is as it was, except for batches that were committed before.
        """
        from zskip.table.catalog_updates import notifying_catalog, registering_new_table
        from zskip.table.optimize_request import RewriteJob, check_request
        from zskip.table.rewrite.batches import optimize_in_batches
        from zskip.table.rewrite.optimize import optimize

        request = check_request(
            by=by,
            curve=curve,
            build=build,
            files=files,
            target_file_size=target_file_size,
            where=where,
            into=into,
            sampling=sampling,
            seed=seed,
            compression=compression,
            workload=workload,
            unseen=unseen,
            max_batch=max_batch,
            jobs=jobs,
        )
        handle = self._handle.for_rewrites(exclusive)
        with notifying_catalog(handle), registering_new_table(into, handle) as path:
            request = dataclasses.replace(request, into=path)
            if request.max_batch is not None:
                return optimize_in_batches(handle, request)
            return optimize(handle, RewriteJob(options=request))

    def append(
        self,
        df: DataFrame,
        *,
        batch: tuple[str, int] | None = None,
        branch: str | None = None,
        exclusive: bool = False,
    ) -> WriteResult:
        """Append the rows of a DataFrame in the table's own layout, and index the new files.

        The new rows are split at the table's own bounds and cuts, or into the leaves of its tree, so that each new file
        is narrow in the clustering columns. A table that was never clustered takes the rows in input order, and the
        result's `curve` says so. The commit is an append, and readers of changes see it as one.

        Args:
            df: The new rows. Columns may come in any order, and nullable ones may be missing. The plan runs once; if
                the table has Hive partitions it runs twice, so persist a DataFrame that is slow or gives other rows
                each time.
            batch: Name of a writer and number of its batch, such as ("orders", 7) in `foreachBatch`. A batch that the
                table or branch already holds, or an earlier one, is left out.
            branch: Branch of an Iceberg table that takes the rows; by default the one that queries read. Its files are
                indexed once they reach that one.
            exclusive: As in `optimize`.

        Raises:
            ColumnError: Columns are missing, extra or of another type.
            InputError: `df` is no DataFrame or a stream, the branch does not exist, or a required column has nulls.
            UnsupportedError: The format has no branches, or only the table's own engine can append to it.
            ConflictError: The columns changed at the same time.

        After an error the table is as it was.
        """
        from zskip.table.catalog_updates import notifying_catalog
        from zskip.table.write.append import append, read_batch

        batch_id = read_batch(batch)
        handle = self._handle.exclusively(exclusive).for_new_rows(branch)
        with notifying_catalog(handle):
            return append(handle, df, batch_id)

    def compact(
        self,
        *,
        target_file_size: int | str = "128MB",
        min_file_size: int | str | None = None,
        where: str | None = None,
        exclusive: bool = False,
    ) -> RewriteResult:
        """Merge the small files of each partition into larger ones, without changing rows or their order.

        Files that were written one after another are merged. A large table takes several commits, each complete by
        itself.

        Args:
            target_file_size: Most bytes that the files merged into one may take together.
            min_file_size: Leave files of this size or more alone; by default half of the target.
            where: Merge only in the Hive partitions that match.
            exclusive: As in `optimize`.

        It raises what `optimize` raises. Earlier commits stay.
        """
        from zskip.table.catalog_updates import notifying_catalog
        from zskip.table.rewrite.compact import check_sizes, compact

        sizes = check_sizes(target_file_size, min_file_size)
        handle = self._handle.for_rewrites(exclusive)
        with notifying_catalog(handle):
            return compact(handle, *sizes, where)

    def index(
        self,
        *,
        collect: str = "auto",
        sketches: Sequence[str] | str = (),
        drop: Sequence[str] = (),
        budget: int | str | None = None,
        total_budget: int | str | None = None,
        granularity: str | None = None,
        workload: Given = None,
    ) -> IndexInfo:
        """Bring the index up to date: read the footers of files without a valid entry, and build sketches.

        Footers lack NaN, the bounds of 96-bit timestamps, and the bounds of types that a file's writer is known to get
        wrong. Sketches are built by Spark, in one pass over their columns.

        Args:
            collect: "footers" reads footers only, "auto" also has Spark compute what they lack, "scan" has Spark read
                all columns of all files again. "auto" reads each such column once; without a Spark session it is the
                same as "footers".
            sketches: Sketches of columns or expressions to keep for all files from now on, such as
                "bloom(0.01):l_comment", or "auto" to let the workload choose them. "auto" tries sketches on some files,
                builds what saves queries most bytes for each byte kept, and drops what it chose before and no query
                needs any more.
            drop: Sketches to remove.
            budget: Most bytes that a sketch built now may take for one file, such as "64kB". A sketch that takes more
                is left out; queries then read its file.
            total_budget: Most bytes that all sketches may take for all files together. Beyond that, the largest of
                those built now are left out. With "auto", the default leaves 0.5 % of the table's bytes, and at least
                1 MB, to the sketches that it chooses.
            granularity: "file" keeps statistics of files only, "row_group" also those of their row groups; unchanged by
                default. With "row_group", `files` says which row groups to read. A new index starts with "file".
            workload: File of queries for "auto", one a line or as JSON; defaults to the recorded ones. Also a list, as
                in `advise`.
        """
        from zskip.table.advice.choose_sketches import check_queries, index_by_workload, is_auto
        from zskip.table.refresh_index import refresh_index
        from zskip.table.version import open_version

        self._handle.check_on_main()
        version = open_version(self._handle)
        by_workload = is_auto(sketches, workload)
        if by_workload:
            check_queries(self._handle, workload)
        refreshed = refresh_index(
            version,
            collect,
            sketches=() if by_workload else sketches,
            drop=drop,
            budget=budget,
            total_budget=total_budget,
            granularity=granularity,
        )
        if by_workload:
            return index_by_workload(refreshed, workload, budget, total_budget)
        return refreshed.bind().info()

    def df(self, where: str | None = None) -> DataFrame:
        """Open the table as a DataFrame for which Spark reads only the files that a query needs.

        The DataFrame shows the table as it is now. Open it again after the table has changed.

        Args:
            where: Keep only rows for which this SQL is true, like `df().where(...)`. Under Spark Connect it decides
                which files are read; without it, the filters of each query do.

        Raises:
            UnsupportedError: Spark Connect, and the table is one of Hudi.

        It also raises what `files` raises.
        """
        if self._handle.connected is not None:
            from zskip.table.read.spark_connect import open_kept

            frame, self.last_scan = open_kept(self._handle.for_queries(), where, self._record)
            return frame
        from zskip.table.read.query import open_frame

        frame = open_frame(self._handle.for_queries(), self._record)
        return frame if where is None else frame.where(where)

    def files(self, where: str | pc.Expression | None = None, *, deletes: bool = False) -> list[KeptFile]:
        """List the absolute paths of the files that might hold a row for which `where` is true; no Spark needed.

        Each path is a `str` with an attribute `row_groups`: the row groups of the file to read, or None if the index
        does not know.

        Args:
            where: Predicate in SQL. Also an expression of pyarrow.compute, which means what it means to pyarrow.
            deletes: List files with deleted rows, too, each with an attribute `deletes` that says what deletes them.

        Raises:
            UnsupportedError: A file has deleted rows, and `deletes` is false.
        """
        return list(self._plan(where, deletes=deletes).files)

    def plan(self, where: str | pc.Expression | None = None) -> ScanPlan:
        """Plan a scan: which files and row groups to read, what deletes rows of them, and why; no Spark needed.

        The plan hands its rows to DuckDB and Polars with `to_duckdb` and `to_polars`.

        Args:
            where: As in `files`.

        Raises:
            UnsupportedError: The files are not the table's rows, even without deleted ones.

        It also raises what `files` raises.
        """
        return self._plan(where, deletes=True)

    def _plan(self, where: str | pc.Expression | None, *, deletes: bool) -> ScanPlan:
        from zskip.table.read.query import plan_scan

        plan = plan_scan(self._handle.for_queries(), where, deletes=deletes)
        self._last_scan = plan.report
        return plan

    def prune(self, where: str | pc.Expression | None = None) -> ScanReport:
        """Report what a scan with this predicate would read, and what each part of the predicate skips.

        Args:
            where: As in `files`.
        """
        from zskip.table.read.query import plan_snapshot
        from zskip.table.version import read_snapshot

        handle = self._handle.for_queries()
        return plan_snapshot(handle, read_snapshot(handle), where).report

    def explain(self, where: str | pc.Expression | None = None, *, analyze: bool = False) -> Explanation:
        """Explain step by step which files a predicate keeps, what each part skips, and why a part skips nothing.

        Args:
            where: As in `files`.
            analyze: Also run the query with Spark, and count the files that it read without finding a matching row.
                zskip must understand the whole predicate for that.

        Raises:
            InputError: zskip does not understand all of the predicate that it is to analyze.

        It also raises what `files` raises.
        """
        from zskip.table.read.explain import explain

        return explain(self._handle.for_queries(), where, analyze=analyze)

    def record(self, on: bool = True) -> None:
        """Record the predicate of each scan through zskip from now on, in any process, or stop recording.

        zskip records predicates with their literals, and the rows and files that were read: a sample of at most 10,000
        scans and 1 MB, in which a scan loses half of its weight in 30 days. DataFrames that are already open do not
        follow the switch.

        Args:
            on: Whether to record.
        """
        from zskip.table.workload.recording import record

        record(self._handle, on)

    def workload(self, *, clear: bool = False) -> Workload:
        """Read the recorded workload: predicates with weights, the number of scans and since when, and their shapes.

        Args:
            clear: Empty it as well.

        Raises:
            IndexFormatError: Another version of zskip wrote it.
        """
        from zskip.table.workload.recording import read_workload

        return read_workload(self._handle, clear=clear)

    def advise(
        self,
        workload: Given = None,
        *,
        columns: Sequence[str] | None = None,
        files: int | None = None,
        target_file_size: int | str | None = None,
        unseen: float = 0.2,
        seed: int = 0,
    ) -> Advice:
        """Recommend columns and a curve to cluster by, and say what that would save and which queries would get slower.

        It writes nothing; one Spark job reads a sample. Shares are shares of rows, 0 to 1, with 90 % intervals. For a
        table of more than some thousand files they are rather too high than too low.

        Args:
            workload: File of queries, one a line or as JSON; defaults to the recorded ones, or to made-up ranges if
                there are none. Also a list of predicates or whole queries, each as SQL text or as (text, weight).
            columns: Columns to choose from; by default those that queries filter on.
            files: Number of files to plan for.
            target_file_size: As in `optimize`.
            unseen: As in `optimize`.
            seed: The same seed gives the same advice.

        Raises:
            InputError: The workload has no usable query, or the table no column with an order.
        """
        from zskip.table.advice.advise import advise
        from zskip.table.optimize_request import check_request

        request = check_request(
            by="auto" if columns is None else [columns] if isinstance(columns, str) else columns,
            curve="auto",
            files=files,
            target_file_size=target_file_size,
            workload=workload,
            unseen=unseen,
            seed=seed,
        )
        return advise(self._handle, request)

    def what_if(
        self,
        by: Sequence[str] | str,
        *,
        curve: str = "auto",
        files: int | None = None,
        target_file_size: int | str | None = None,
        workload: Given = None,
        unseen: float = 0.2,
    ) -> Candidate:
        """Predict what the workload would read if the table were clustered in this way, and write nothing.

        It raises what `advise` raises.

        Args:
            by: Columns to cluster by.
            curve: "zorder", "hilbert", "linear", "fitted", or "auto" for the best of them.
            files: As in `advise`.
            target_file_size: As in `advise`.
            workload: As in `advise`.
            unseen: As in `advise`.
        """
        from zskip.table.advice.advise import what_if
        from zskip.table.optimize_request import check_request

        request = check_request(
            by=[by] if isinstance(by, str) else by,
            curve=curve,
            files=files,
            target_file_size=target_file_size,
            workload=workload,
            unseen=unseen,
        )
        return what_if(self._handle, request)

    def verify(self, where: str | None = None, *, queries: int = 20, seed: int = 0) -> Verification:
        """Prove that no row is lost: compare every statistic in the index with its file, and run queries both ways.

        It reads all files whole, twice.

        Args:
            where: Query to run with and without the index; by default random ones.
            queries: Number of random queries, drawn from the values of the table.
            seed: The same seed draws the same queries.

        Raises:
            ConflictError: Another writer changed the table at the same time.
        """
        from zskip.table.read.verify import verify

        return verify(self._handle.for_queries(), where, queries=queries, seed=seed)

    def info(self, by: Sequence[str] | str | None = None) -> TableInfo:
        """Describe files, rows, columns, partitions, index and layout of the table, and how well it is clustered.

        Args:
            by: Columns whose clustering to show; by default those the table was last clustered by.
        """
        from zskip.table.read.info import describe
        from zskip.table.version import open_version

        return describe(open_version(self._handle), by)

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        workload: Given = None,
        by: Sequence[str] | str | None = None,
    ) -> Path:
        """Write a report of the table as one HTML file that opens offline, and return its path; no Spark needed.

        Only metadata is read. With Spark, the report also holds advice, for which zskip reads a sample of the rows.

        Args:
            path: Where to write it, by default the table's name and "-report.html" in the working directory. An
                existing file is replaced.
            workload: File of queries to explain, one a line or as JSON; defaults to the recorded ones. The report says
                what each reads, and why not less. Also a list, as in `advise`.
            by: Columns to draw files along; by default those of the layout and of the queries.

        Raises:
            MissingDependencyError: The extra `report` is not installed.
        """
        from zskip.table.show.report import report

        return report(self._handle, path, workload, by)

    def plot(self, by: Sequence[str] | str | None = None) -> Figure:
        """Draw the table's files with Plotly: over two columns as rectangles of their values, over one by its depth.

        Args:
            by: One or two columns; by default the first ones of the layout.

        Raises:
            MissingDependencyError: The extra `report` is not installed.
            InputError: `by` names more than two columns, or no bounds are known.
        """
        from zskip.table.show.report import plot

        return plot(self._handle, by)

    def maintain(
        self,
        *,
        budget: int | str | None = None,
        seconds: float | None = None,
        target_file_size: int | str | None = None,
        by: Sequence[str] | str | None = None,
        workload: Given = None,
        unseen: float = 0.2,
        refit: bool = False,
        sketches: str | None = None,
        dry_run: bool = False,
        exclusive: bool = False,
    ) -> Maintenance:
        """Keep the table clustered: rewrite only the files that are worth the bytes.

        zskip puts files that arrived after the clustering in order, alone or together with files that overlap them, and
        merges small files. Each batch is one commit.

        Args:
            budget: Most bytes of files to rewrite, such as "10GB"; the last batch may exceed it by one file.
            seconds: Start no batch after this many seconds.
            target_file_size: Size of the new files; by default that of the last run.
            by: Columns to cluster by, needed once, for a table that was never clustered. Other columns start a new
                layout.
            workload: File of queries to choose files by, one a line or as JSON; defaults to the recorded ones, or to
                made-up ones. Also a list, as in `advise`.
            unseen: As in `optimize`.
            refit: Fit a new tree of cuts if it would read 20 % less, and rewrite the most read files by it, within the
                budget. Without `refit`, the result only says so.
            sketches: "auto" lets the workload choose the sketches of the index afterwards. See `index`.
            dry_run: Predict what a run would do, and change nothing.
            exclusive: As in `optimize`.

        Raises:
            InputError: The table has no layout, and `by` is missing.
            ColumnError: A column of the layout is gone.

        It also raises what `optimize` raises. Earlier commits stay.
        """
        from zskip.table.catalog_updates import notifying_catalog
        from zskip.table.optimize_request import check_arguments
        from zskip.table.rewrite.maintain import maintain
        from zskip.table.rewrite.maintenance_request import MaintenanceRequest

        request = check_arguments(
            MaintenanceRequest,
            budget=budget,
            seconds=seconds,
            target_file_size=target_file_size,
            by=by,
            workload=workload,
            unseen=unseen,
            refit=refit,
            sketches=sketches,
            dry_run=dry_run,
        )
        handle = self._handle.for_rewrites(exclusive)
        if dry_run:
            return maintain(handle, request)
        with notifying_catalog(handle):
            return maintain(handle, request)

    def history(self) -> tuple[Operation, ...]:
        """List what zskip did to the table, the latest first: when, what, and how much it wrote; no Spark needed.

        If scans are recorded, each operation also has what they read afterwards. The table keeps the last 1,000
        records, and older ones as long as files that they wrote are live.
        """
        from zskip.table.read.info import history

        return history(self._handle)

    def clean(self, *, delete: bool = False) -> Cleaning:
        """List what interrupted operations left: staged and replaced files, unfinished tables; no Spark needed.

        It never lists live files, files of earlier versions, or files of a running process.

        Args:
            delete: Remove what is listed.

        Raises:
            TableNotFoundError: There is nothing at the path.
        """
        from zskip.table.rewrite.clean import clean

        return clean(self._handle, delete=delete)

    def describe_index(self) -> tuple[IndexedPart, ...]:
        """Describe what the index keeps of each column and expression, for how many files, and why not for the others.

        Raises:
            InputError: There is no index.
            IndexFormatError: The index cannot be read.
        """
        from zskip.table.read.info import describe_index
        from zskip.table.version import open_version

        return describe_index(open_version(self._handle))

    def _record(self, scan: ScanReport) -> None:
        self._last_scan = scan

    def __repr__(self) -> str:
        return f"zskip.Table({self.path!r})"
