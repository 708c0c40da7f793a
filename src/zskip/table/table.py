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
        CompactResult,
        Explanation,
        IndexedPart,
        IndexInfo,
        Maintenance,
        Operation,
        OptimizeResult,
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
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._root = handle.storage.root
        """The table's path in the session."""
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
        sort_within_files: bool = True,
        sampling: str = "bernoulli",
        seed: int = 0,
        compression: str = "keep",
        workload: Given = None,
        unseen: float = 0.2,
        exclusive: bool = False,
        max_batch: int | str | None = None,
        jobs: int = 1,
        writer: str = "auto",
    ) -> OptimizeResult:
        """Rewrite the table so that rows with close values in the columns `by` lie in the same file, and index it.

        by: 2 to 32 columns that queries filter by (one is enough for curve="linear"), or "auto" to let the workload
        choose; then zskip writes nothing where no layout reads noticeably less. curve: "zorder", "hilbert", "linear",
        "fitted" (a tree of cuts fitted to the workload), or "auto" for the best on queries that it was not fitted to;
        it is a tree only if that reads 5 % less than the best curve. build: "sample" ranks values among bounds drawn
        from the table, "direct" takes their leading bytes; files: how many files to write; target_file_size: how large
        files should be, "128MB" by default; give this or `files`; where: rewrite only the Hive partitions that match;
        into: write a new table there, a path or a new name in the session's catalog, and leave this one unchanged;
        sort_within_files: sort rows inside files, so that queries also skip row groups and pages; sampling: "bernoulli"
        or "reservoir"; seed: the same seed on the same table gives the same files; compression: the codec of new files,
        "keep" for that of most rows, or "zstd", "snappy", "gzip", "lz4_raw" or "uncompressed", with a level such as
        "zstd:3"; without rows, "keep" is zstd. workload: a file of queries to fit the layout to, one a line or as JSON,
        by default those recorded if zskip chooses the columns or the curve; or a list of them, as in `advise`. Ranges
        on one or two columns stand for a workload that is needed and was not recorded. unseen: the share of tomorrow's
        queries that the workload does not tell, 0 to 1; made-up ones stand for it. exclusive: promise that nobody else
        rewrites the table meanwhile, for plain Parquet in an object store without conditional writes.

        max_batch: for large tables, the most bytes of files to rewrite in one commit, such as "200GB", so that the same
        call after an interruption does the rest; a batch is whole partitions, or files that lie near each other; jobs:
        how many batches to rewrite at the same time.

        writer: "auto" has Spark's tasks read and write files through Arrow if the new files are as Spark would write
        them, else Spark itself writes; the result says which, and why. "arrow" raises UnsupportedError instead of
        going Spark's way, and "spark" never uses Arrow.

        Raises InputError for invalid arguments, UnsupportedError and CorruptFileError for tables that must not be
        rewritten, StorageError if the file system refuses, and ConflictError if another writer has changed the files
        meanwhile. In each case the table is as it was, except for committed batches.
        """
        from zskip.table.catalog_updates import notifying_catalog, registering_new_table
        from zskip.table.optimize_request import check_request
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
            sort_within_files=sort_within_files,
            sampling=sampling,
            seed=seed,
            compression=compression,
            workload=workload,
            unseen=unseen,
            max_batch=max_batch,
            jobs=jobs,
            writer=writer,
        )
        handle = self._handle.for_rewrites(exclusive)
        with notifying_catalog(handle), registering_new_table(into, handle) as path:
            request = dataclasses.replace(request, into=path)
            return (optimize if request.max_batch is None else optimize_in_batches)(handle, request)

    def append(
        self,
        df: DataFrame,
        *,
        batch: tuple[str, int] | None = None,
        branch: str | None = None,
        exclusive: bool = False,
    ) -> WriteResult:
        """Append the rows of a DataFrame, placed by the table's own layout, and index the new files.

        df: has the table's columns in any order, with the same types; columns that may be null may be missing. Its plan
        runs once, and once more if the table has Hive partitions: persist it then if it is slow or gives other rows
        each time. batch: the name of a writer and the number of its batch,
        such as ("orders", 7) in `foreachBatch`: a batch that the table or the branch holds already, or one before it,
        is left out; branch: the branch of an Iceberg table that takes the rows; by default the one that queries read.
        Its files are indexed once they are in that one. exclusive: as in `optimize`.

        The new rows lie between the table's own bounds and cuts, or in the leaves of its tree, in as many files as they
        are worth, each narrow in the clustering columns. A table that was never clustered takes them in input order,
        and the result's `curve` says so. The commit is an append: readers of changes see it as one.

        Raises ColumnError for columns that are missing, extra or of another type, InputError for what is no DataFrame,
        for a stream, for a branch that is not there, and for nulls in columns that must have none, UnsupportedError for
        branches of other formats and for tables that only their own
        engine can append to, and ConflictError if the columns changed meanwhile. In each case the table is as it was.
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
    ) -> CompactResult:
        """Merge small files of each partition into larger ones, without changing rows or their order.

        target_file_size: the most that the files merged into one may take together (bytes, or text such as "128MB");
        min_file_size: leave files of this size or more alone, by default half of the target; where: merge only in the
        Hive partitions that match; exclusive: as in `optimize`. Files that were written one after another are merged.
        A large table takes several commits, each complete by itself.

        Raises InputError for invalid arguments, and otherwise what `optimize` raises; commits stay.
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
        sketches: Sequence[str] = (),
        drop: Sequence[str] = (),
        budget: int | str | None = None,
        total_budget: int | str | None = None,
        granularity: str | None = None,
    ) -> IndexInfo:
        """Bring the index up to date: read the footers of files without a valid entry.

        collect: "footers" reads footers only, "auto" also has Spark count what they lack, "scan" counts all columns of
        all files again; footers lack NaN, and bounds of 96-bit timestamps and of types that the file's writer is known
        to get wrong. "auto" reads those columns of those files once, and without a Spark session is "footers".

        sketches: sketches of columns or expressions to keep from now on for all files, including new ones, such as
        "bloom(0.01):l_comment"; drop: sketches to remove; budget: the most that a sketch built now may take for one
        file; total_budget: the most that all sketches may take for all files together, beyond which the largest of
        those built now are left out; both in bytes, or text such as "64MB". The index has the reason why a sketch was
        left out; queries read its file, and it is not built again. Building sketches needs Spark and one pass over
        their columns.

        granularity: "file" from now on keeps the statistics of files only, "row_group" those of row groups too, so that
        `files` knows which of them to read; None changes nothing, and for a new index means "file".

        Raises InputError for an unknown collector or granularity, for "scan" or sketches without Spark, and for
        sketches or sizes that cannot be read; ColumnError for unknown columns.
        """
        from zskip.table.refresh_index import refresh_index

        self._handle.check_on_main()
        refreshed = refresh_index(
            self._handle,
            collect,
            sketches=sketches,
            drop=drop,
            budget=budget,
            total_budget=total_budget,
            granularity=granularity,
        )
        return refreshed.bind().info()

    def df(self, where: str | None = None) -> DataFrame:
        """Open the table as a DataFrame under which Spark reads only the files that a query needs.

        where: only rows for which this SQL is true, as `df().where(...)`. With Spark Connect it decides which files
        are read; later filters skip none. The DataFrame shows the table as it is now; open it again after the table
        has changed. Raises InputError without a Spark session, and in one of Spark Connect
        UnsupportedError for other formats than plain Parquet, and what `files` raises.
        """
        if self._handle.connected is not None:
            from zskip.table.read.spark_connect import open_kept

            frame, self.last_scan = open_kept(self._handle.for_queries(), self._root, where)
            return frame
        from zskip.table.read.query import open_frame

        frame = open_frame(self._handle.for_queries(), self._record)
        return frame if where is None else frame.where(where)

    def files(self, where: str | pc.Expression | None = None, *, deletes: bool = False) -> list[KeptFile]:
        """Absolute paths of the files that might hold a row for which `where` is true; no Spark needed.

        where: a predicate in SQL; or an expression of pyarrow.compute, which means what it means to pyarrow. Each path
        is a `str` with an attribute `row_groups`: which row groups of the file to read, or None if the index does not
        know. deletes: also give files some of whose rows are deleted, each with what deletes them in its attribute
        `deletes`. Raises InputError for anything else, PredicateError for SQL that does not parse, ColumnError for
        unknown columns, and UnsupportedError where rows of some file are deleted and `deletes` is false.
        """
        return list(self._plan(where, deletes=deletes).files)

    def plan(self, where: str | pc.Expression | None = None) -> ScanPlan:
        """Plan a scan: which files to read, and which row groups of them, what deletes rows of them, and why.

        where: as in `files`. The plan hands its rows to DuckDB and Polars (`to_duckdb`, `to_polars`). No Spark needed.
        Raises what `files` raises, and UnsupportedError where the files are not the rows even without what is deleted.
        """
        return self._plan(where, deletes=True)

    def _plan(self, where: str | pc.Expression | None, *, deletes: bool) -> ScanPlan:
        from zskip.table.read.query import plan_scan

        plan = plan_scan(self._handle.for_queries(), where, deletes=deletes)
        self._last_scan = plan.report
        return plan

    def prune(self, where: str | pc.Expression | None = None) -> ScanReport:
        """Report what a scan with this predicate would read, and what each part of the predicate skips.

        where: as in `files`.
        """
        from zskip.table.read.query import plan_snapshot
        from zskip.table.snapshot import read_snapshot

        handle = self._handle.for_queries()
        return plan_snapshot(handle, read_snapshot(handle), where).report

    def explain(self, where: str | pc.Expression | None = None, *, analyze: bool = False) -> Explanation:
        """Explain step by step which files a predicate keeps, what each part skips, and why a part skips nothing.

        where: as in `files`; analyze: also run the query with Spark and report its regret: kept files that held no
        matching row. That needs an expression that zskip understands completely; raises InputError otherwise, and for
        the rest the errors of `files`.
        """
        from zskip.table.read.explain import explain

        return explain(self._handle.for_queries(), where, analyze=analyze)

    def record(self, on: bool = True) -> None:
        """Record the predicate of each scan through zskip from now on, in any process, or stop recording.

        zskip records predicates with their literals, and the rows and files read: a sample of at most 10,000 scans and
        1 MB, in which scans lose half their weight in 30 days. Open DataFrames do not follow the switch. Raises
        InputError for anything but True and False, StorageError where the table is read-only.
        """
        from zskip.table.workload.recording import record

        record(self._handle, on)

    def workload(self, *, clear: bool = False) -> Workload:
        """Read the recorded workload: its predicates with weights, the number of scans since when, and their shapes.

        clear: empty it as well. Raises IndexFormatError where another version of zskip wrote it, StorageError where it
        cannot be read or emptied.
        """
        from zskip.table.workload.recording import read_workload

        return read_workload(self._handle, clear=clear)

    def import_workload(self, event_logs: str) -> Workload:
        """Add the scans of this table in Spark's event logs to the recorded workload, and return it.

        event_logs: a log of Spark or a directory of logs: plain, zstd, or rolling; their queries need not have used
        zskip. A log read twice counts once in the sample. Unreadable filters are among the problems. Raises InputError
        where there are no logs, or no scan of this table in them, StorageError where the workload cannot be written.
        """
        from zskip.table.workload.event_logs import import_event_logs

        return import_event_logs(self._handle, event_logs)

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
        """Advise by which columns and curve to cluster, what that would save, and which queries would get slower.

        workload: a file of queries, one a line or as JSON, by default those recorded, or made-up ranges where there are
        none; or a list of predicates or whole queries, each as SQL text or (text, weight). columns: columns to choose
        from, by default those that queries filter by; files: how many files to plan for; target_file_size, unseen: as
        in `optimize`; seed: the same seed gives the same advice. Nothing is written; one Spark job reads a sample.
        Shares are shares of rows, 0 to 1, with 90 % intervals; for a table of more than some thousand files they are
        too high rather than too low.

        Raises InputError without Spark, where no query of a workload is usable, or where no column has an order, and
        ColumnError for unknown columns.
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
        """Predict what the workload would read if the table were clustered so; nothing is written.

        by: columns to cluster by; curve: "zorder", "hilbert", "linear", "fitted", or "auto" for the best; files,
        target_file_size, workload, unseen: as in `advise`, and so are the errors.
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

        where: the query to run with and without the index, by default random ones; queries: how many random queries,
        drawn from the values of the table; seed: the same seed draws the same queries. It reads all files whole, twice.
        Raises InputError without Spark and for invalid arguments, PredicateError for SQL that does not parse,
        ColumnError for unknown columns, and ConflictError where another writer changed the table meanwhile.
        """
        from zskip.table.read.verify import verify

        return verify(self._handle.for_queries(), where, queries=queries, seed=seed)

    def info(self, by: Sequence[str] | str | None = None) -> TableInfo:
        """Describe files, rows, columns, partitions, index and layout of the table, and how well it is clustered.

        by: columns whose clustering is shown, by default those the table was last clustered by. Raises ColumnError for
        unknown columns.
        """
        from zskip.table.read.info import describe

        return describe(self._handle, by)

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        workload: Given = None,
        by: Sequence[str] | str | None = None,
    ) -> Path:
        """Write a report of the table as one HTML file that opens offline, from metadata alone; no Spark needed.

        path: where to write it, by default the table's name and "-report.html" in the working directory; a file that is
        there is replaced. workload: a file of queries of which it says what each reads and why not less, one a line or
        as JSON, by default those recorded; or a list of them, as in `advise`. With Spark it also holds advice by them,
        for which a sample of the rows is read. by: columns to draw files along, by default those of the layout and of
        the queries. Returns the path.

        Raises MissingDependencyError without the extra `report`, InputError for a path that cannot be right or what is
        no workload, ColumnError for unknown columns, and StorageError where the file system refuses.
        """
        from zskip.table.show.report import report

        return report(self._handle, path, workload, by)

    def plot(self, by: Sequence[str] | str | None = None) -> Figure:
        """Draw the table's files over two columns, each file a rectangle of the values it holds, or over one its depth.

        by: one or two columns, by default the first of the layout. Returns a figure of Plotly, which notebooks show.
        Raises MissingDependencyError without the extra `report`, ColumnError for unknown columns, and InputError for
        more than two, or where no bounds are known.
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
        dry_run: bool = False,
        exclusive: bool = False,
    ) -> Maintenance:
        """Keep the table clustered: rewrite only the files whose rewrite is worth its bytes.

        It puts files that came after the clustering in order, alone or together with others that overlap them, and
        merges small files; each batch is one commit. budget: the most bytes of files to rewrite, such as "10GB",
        which the last batch may exceed by one file; seconds: start no batch after so many seconds; target_file_size:
        how large files should be, by default as the last time; by: columns to cluster by, needed once, on a table that
        was never clustered; workload: a file of queries by which batches are chosen, one a line or as JSON, by default
        those recorded, or made-up ones; or a list of them, as in `advise`; unseen: as in `optimize`; refit: where the
        workload has moved so far that a new tree of cuts would read 20 % less, fit one and rewrite by it the files that
        are read most, within the budget; without refit the result only says so; dry_run: predict, and change nothing;
        exclusive: as in `optimize`.

        Raises InputError for arguments that cannot be right and for a table without a layout where `by` is missing,
        ColumnError where a column of the layout is gone, and else what `optimize` raises: what was committed before
        stays.
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
            dry_run=dry_run,
        )
        handle = self._handle.for_rewrites(exclusive)
        if dry_run:
            return maintain(handle, request)
        with notifying_catalog(handle):
            return maintain(handle, request)

    def history(self) -> tuple[Operation, ...]:
        """List what zskip did to the table, the latest first: when, what, and how much it wrote; no Spark needed.

        If scans are recorded, it includes what they read afterwards. The table's home keeps the last 1,000 records, and
        older ones as long as files that they wrote are live.
        """
        from zskip.table.show.history import history

        return history(self._handle)

    def clean(self, *, delete: bool = False) -> Cleaning:
        """List what interrupted operations left: staged and replaced files, unfinished tables; no Spark needed.

        delete: remove what is listed. Live files are never listed, nor those of earlier versions, nor what belongs to a
        process that is alive. Raises StorageError if the file system refuses, and TableNotFoundError if nothing is
        there.
        """
        from zskip.table.rewrite.clean import clean

        return clean(self._handle, delete=delete)

    def describe_index(self) -> tuple[IndexedPart, ...]:
        """Describe what the index keeps of each column and expression, for how many files, and why not for others.

        Raises InputError if there is no index, and IndexFormatError for one that cannot be read.
        """
        from zskip.table.read.info import describe_index

        return describe_index(self._handle)

    def _record(self, scan: ScanReport) -> None:
        self._last_scan = scan

    def __repr__(self) -> str:
        return f"zskip.Table({self.path!r})"
