"""`Table`, and how to get one: with a Spark session, or without where only files are asked for.

Each method imports what it needs, so that `import zskip` and `zskip --help` take no time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    import pyarrow.compute as pc
    from plotly.graph_objects import Figure
    from pyiceberg.table import Table as IcebergTable
    from pyspark.sql import DataFrame, SparkSession

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
    )
    from zskip.table.handle import Handle
    from zskip.table.optimize_request import Given
    from zskip.table.read.kept_file import KeptFile


class Table:
    """A table that zskip clusters, indexes and prunes.

    Get one from `zskip.table(spark, path)`, or from `zskip.open(path)` where there is no Spark.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._root = handle.storage.root
        """As the session calls it."""
        self.last_scan: ScanReport | None = None
        """What the latest scan of any `df()` of this object read; None before the first."""

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
        exclusive: bool = False,
        max_batch: int | str | None = None,
        jobs: int = 1,
    ) -> OptimizeResult:
        """Rewrite the table so that rows which are close in the columns `by` lie in the same file, and index it.

        by: 2 to 32 columns that queries filter on (one is enough for curve="linear"), or "auto" for those that the
        workload asks for: then nothing is written where no layout reads noticeably less; curve: "zorder", "hilbert",
        "linear", "fitted" (an order of the key's bits searched for the workload), or "auto" for the one of these under
        which queries that it was not fitted to read least; build: "sample" ranks values among bounds drawn from the
        table, "direct" takes their leading bytes; files or target_file_size: how many files, or how large (bytes, or
        text such as "128MB", the default);
        where: rewrite only the Hive partitions that match; into: write a new table there, a path or a new name in the
        session's catalog, and leave this one alone;
        sort_within_files: so that row groups and pages are skipped as well; sampling: "bernoulli" or "reservoir";
        seed: the same seed on the same table gives the same files; compression: "keep" for the codec that most rows are
        in (zstd if there is none), or "zstd", "snappy", "gzip", "uncompressed", with a level such as "zstd:3";
        workload: what the layout is fitted to, as in `advise`; by default the recorded workload if the columns or the
        curve are chosen, and ranges on one or two columns if there is none; exclusive: a promise that nobody else
        rewrites the table meanwhile, for plain Parquet in an object store that cannot tell who was first.

        max_batch: for large tables, the most bytes of files (or text such as "200GB") to rewrite in one commit: whole
        partitions, or files that lie near each other. What is committed stays, and where a call is cut short, the next
        one with the same arguments does the rest; jobs: how many batches at the same time.

        Raises InputError for arguments that cannot be right, UnsupportedError and CorruptFileError for tables that
        must not be rewritten, StorageError if the file system refuses, and ConflictError if another writer has
        changed the files meanwhile. In each case the table is as it was, but for batches that are committed.
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
            max_batch=max_batch,
            jobs=jobs,
        )
        handle = self._handle.exclusively(exclusive)
        with notifying_catalog(handle), registering_new_table(into, handle) as path:
            request = dataclasses.replace(request, into=path)
            return (optimize if request.max_batch is None else optimize_in_batches)(handle, request)

    def compact(
        self,
        *,
        target_file_size: int | str = "128MB",
        min_file_size: int | str | None = None,
        where: str | None = None,
        exclusive: bool = False,
    ) -> CompactResult:
        """Merge small files of a partition into larger ones, each file's rows as they are and in their order.

        target_file_size: the most that a new file takes, by the sizes of those it is made of (bytes, or text such as
        "128MB"); min_file_size: files of this size or more are left alone, by default half of the target; where: only
        the Hive partitions that match; exclusive: as in `optimize`. Files that came one after another are merged. A
        large table takes several commits, each whole by itself.

        Raises InputError for arguments that cannot be right, and else what `optimize` raises: what was committed before
        stays.
        """
        from zskip.table.catalog_updates import notifying_catalog
        from zskip.table.rewrite.compact import check_sizes, compact

        sizes = check_sizes(target_file_size, min_file_size)
        handle = self._handle.exclusively(exclusive)
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
        """Bring the index up to date: read the footers of files that have no valid entry yet.

        collect: "auto", if there is a Spark session, also counts what footers do not tell, once for each file: NaN, and
        bounds of 96-bit timestamps and of types that the file's writer is known to get wrong. It reads those columns of
        those files. "footers" leaves such columns unknown; "scan" counts all columns of all files again.

        sketches: what else to keep of columns or expressions, such as "bloom(0.01):l_comment", from now on for all
        files, new ones included; drop: sketches to remove; budget: the most that one sketch may take for one file,
        among those built now; total_budget: the most that all sketches may take for all files together, beyond which
        the largest of those built now are left out; both in bytes, or text such as "64MB". What is left out has a
        reason, its file is read, and it is not built again. Building sketches needs Spark and one pass over their
        columns.

        granularity: "row_group" also keeps what footers say of each row group, from now on, so that `files` says which
        of them to read; "file" drops that; None changes nothing, and for a new index means "file".

        Raises InputError for an unknown collector or granularity, for "scan" or sketches without Spark, and for
        sketches or sizes that cannot be read; ColumnError for unknown columns.
        """
        from zskip.table.refresh_index import refresh_index

        return refresh_index(
            self._handle,
            collect,
            sketches=sketches,
            drop=drop,
            budget=budget,
            total_budget=total_budget,
            granularity=granularity,
        )

    def df(self, where: str | None = None) -> DataFrame:
        """Open the table as a DataFrame under which Spark reads only the files that a query needs.

        where: only rows for which this SQL is true, as `df().where(...)`. In a session of Spark Connect it decides
        which files are read, and what is filtered later skips none. It shows the table as it is now; open it again
        after the table has changed. Raises InputError without a Spark session, and in one of Spark Connect
        UnsupportedError for other formats than plain Parquet, and what `files` raises.
        """
        if self._handle.connected is not None:
            from zskip.table.read.spark_connect import open_kept

            frame, self.last_scan = open_kept(self._handle, self._root, where)
            return frame
        from zskip.table.read.query import open_frame

        frame = open_frame(self._handle, self._record, recorded=True)
        return frame if where is None else frame.where(where)

    def files(self, where: str | pc.Expression | None = None) -> list[KeptFile]:
        """Absolute paths of the files that might hold a row for which `where` is true; no Spark needed.

        where: SQL text, or an expression of pyarrow.compute, which means what it means to pyarrow. Each path is a `str`
        with an attribute `row_groups`: which row groups of the file to read, or None if the index does not know.
        Raises InputError for anything else, PredicateError for SQL that does not parse and ColumnError for unknown
        columns.
        """
        from zskip.table.read.query import prune_files

        return prune_files(self._handle, where)[0]

    def prune(self, where: str | pc.Expression | None = None) -> ScanReport:
        """What a scan with this predicate would read, and what each part of the predicate skips.

        where: as in `files`.
        """
        from zskip.table.read.query import prune_files

        return prune_files(self._handle, where)[1]

    def explain(self, where: str | pc.Expression | None = None, *, analyze: bool = False) -> Explanation:
        """Which files a predicate keeps, step by step, what each part of it skips, and why a part skips nothing.

        where: as in `files`; analyze: also run the query and report its regret: kept files that held no matching row.
        That needs Spark, and an expression that zskip understands completely; raises InputError otherwise, and for the
        rest the errors of `files`.
        """
        from zskip.table.read.explain import explain

        return explain(self._handle, where, analyze=analyze)

    def record(self, on: bool = True) -> None:
        """Note the predicate of each scan through zskip from now on, or no more, in whatever process it runs.

        What is noted are the predicates with their literals, and the rows and files read: a sample of at most 10,000 of
        them and 1 MB, in which scans lose half their weight in 30 days. Open DataFrames go on as they were opened.
        Raises InputError for what is not True or False, StorageError where the table may not be written to.
        """
        from zskip.table.workload.recording import record

        record(self._handle, on)

    def workload(self, *, clear: bool = False) -> Workload:
        """The recorded workload: its predicates with their weights, how many scans since when, and their shapes.

        clear: empty it. Raises IndexFormatError where another version of zskip wrote it, StorageError where it cannot
        be read or emptied.
        """
        from zskip.table.workload.recording import read_workload

        return read_workload(self._handle, clear=clear)

    def import_workload(self, event_logs: str) -> Workload:
        """Add to the recorded workload the scans of this table that Spark's event logs tell of, and return it.

        event_logs: a log or a directory of them: plain, zstd, or rolling; no query of theirs need have known of zskip.
        Read twice, a log counts once in the sample. Filters that cannot be read are among the problems. Raises
        InputError where there are no logs, or no scan of this table in them, StorageError where the workload cannot be
        written.
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
        seed: int = 0,
    ) -> Advice:
        """Say by which columns and which curve to cluster, what that would save, and which queries would get slower.

        workload: the recorded one by default, made-up ranges where there is none; or a list of predicates or whole
        queries, each as SQL text or (text, weight), or the path of a file of them. columns: those that may be clustered
        by, the filtered ones by default; files, target_file_size, seed: as in `optimize`. Nothing is written; one Spark
        job reads a sample. Shares are of rows, 0 to 1, with 90 % intervals; of a table of more than some thousand files
        they are too high rather than too low.

        Raises InputError without Spark, where nothing of a workload can be used, or where no column has an order, and
        ColumnError for unknown columns.
        """
        from zskip.table.advice.advise import advise

        return advise(
            self._handle, workload, columns=columns, files=files, target_file_size=target_file_size, seed=seed
        )

    def what_if(
        self,
        by: Sequence[str] | str,
        *,
        curve: str = "auto",
        files: int | None = None,
        target_file_size: int | str | None = None,
        workload: Given = None,
    ) -> Candidate:
        """Say what the workload would read if the table were clustered so, without writing anything.

        curve: "auto" for the best, or "zorder", "hilbert", "linear" or "fitted"; all else as in `advise`, which names
        what is raised.
        """
        from zskip.table.advice.advise import what_if

        return what_if(self._handle, by, curve=curve, files=files, target_file_size=target_file_size, workload=workload)

    def verify(self, where: str | None = None, *, queries: int = 20, seed: int = 0) -> Verification:
        """Prove that no row is lost: compare every statistic in the index with its file, and run queries both ways.

        where: the query to run with and without the index; by default `queries` random ones, drawn from the values of
        the table, the same for the same seed. All files are read whole, twice. Raises InputError without Spark and for
        arguments that cannot be right, PredicateError for SQL that does not parse, ColumnError for unknown columns,
        and ConflictError where another writer changed the table meanwhile.
        """
        from zskip.table.read.verify import verify

        return verify(self._handle, where, queries=queries, seed=seed)

    def info(self, by: Sequence[str] | str | None = None) -> TableInfo:
        """Files, rows, columns, partitions, index and layout of the table, and how well it is clustered.

        by: the columns whose clustering is shown; by default those the table was last clustered by. Raises ColumnError
        for unknown columns.
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
        """Write what is known of the table as one HTML file that opens offline, from metadata alone; no Spark needed.

        path: of the file, by default the table's name and "-report.html" in the working directory; a file that is
        there is replaced. workload: the queries of which it says what each reads and why not less, as in `advise`; the
        recorded ones by default. With Spark it also holds advice by them, for which a sample of the rows is read. by:
        the columns that files are drawn along; by default those of the layout and of the queries. Returns the path.

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
        dry_run: bool = False,
        exclusive: bool = False,
    ) -> Maintenance:
        """Keep the table clustered: rewrite those files, and only those, for which that is worth its bytes.

        Files that came since the table was clustered are brought into its order, alone or together with others that
        overlap them, and small files are merged; each batch is one commit. budget: the most bytes of files to rewrite
        (or text such as "10GB"; the last batch may go over it by one file); seconds: after which no batch is begun;
        target_file_size: how large files are to be, by default as the last time; by: the columns to cluster by, needed
        once, on a table that was never clustered; workload: the queries by which batches are chosen, as in `advise`: by
        default those recorded, or made-up ones; dry_run: say what would be done, and do nothing; exclusive: as in
        `optimize`.

        Raises InputError for arguments that cannot be right and for a table without a layout where `by` is missing,
        ColumnError where a column of the layout is gone, and else what `optimize` raises: what was committed before
        stays.
        """
        from zskip.table.catalog_updates import notifying_catalog
        from zskip.table.rewrite.maintain import maintain
        from zskip.table.rewrite.maintenance_request import check_maintenance

        request = check_maintenance(
            budget=budget,
            seconds=seconds,
            target_file_size=target_file_size,
            by=by,
            workload=workload,
            dry_run=dry_run,
        )
        handle = self._handle.exclusively(exclusive)
        if dry_run:
            return maintain(handle, request)
        with notifying_catalog(handle):
            return maintain(handle, request)

    def history(self) -> tuple[Operation, ...]:
        """What zskip did to the table, the latest first: when, what, and how much it wrote; no Spark needed.

        Where scans are recorded, also what they read after it. The table's home keeps the last 1,000 records, and
        older ones as long as files that they wrote are live.
        """
        from zskip.table.show.history import history

        return history(self._handle)

    def clean(self, *, delete: bool = False) -> Cleaning:
        """List what interrupted operations left: staged and replaced files, unfinished tables; no Spark needed.

        delete: remove it as well. Live files are never listed, nor those of earlier versions, nor what belongs to a
        process that is alive. Raises StorageError if the file system refuses, and TableNotFoundError if nothing is
        there.
        """
        from zskip.table.clean import clean

        return clean(self._handle, delete=delete)

    def describe_index(self) -> tuple[IndexedPart, ...]:
        """What the index keeps of each column and expression, for how many files, and why not for the others.

        Raises InputError if there is no index, and IndexFormatError for one that cannot be read.
        """
        from zskip.table.read.info import describe_index

        return describe_index(self._handle)

    def _record(self, scan: ScanReport) -> None:
        self.last_scan = scan

    def __repr__(self) -> str:
        return f"zskip.Table({self.path!r})"


def table(
    spark: SparkSession,
    path: str | IcebergTable,
    *,
    index_path: str | None = None,
    format: str | None = None,
) -> Table:
    """Open a table through a Spark session; `path` may be anything that Hadoop's file systems reach.

    path: also the name of a table in the session's catalogs, "db.table" or "catalog.db.table", if there is no directory
    of that name (Hive's and Spark's own, whose sizes and partitions stay true; Iceberg's, those of pyiceberg, too); or
    a `pyiceberg.table.Table`. index_path: a directory for the index of a
    table that may not be written to; pass it whenever you open the table. A directory that holds the index of another
    table raises InputError when it is used. format: "parquet", "delta", "iceberg" or "hudi"; by default what lies at
    the path. Of a session of Spark Connect the table must be reached from here as by `open`: `df(where=...)`, `files`,
    `explain`, `info` and `index` work, the rest raises UnsupportedError.
    """
    from zskip.table.address import resolve_address
    from zskip.table.read.spark_connect import is_connected

    if is_connected(spark):
        handle = open(path, index_path=index_path, format=format)._handle
        connected = Table(dataclasses.replace(handle, connected=spark))
        if isinstance(path, str) and "://" in path:
            connected._root = path.rstrip("/")
        return connected
    from zskip.spark.jvm.hadoop import storage_for

    index_storage = None if index_path is None else storage_for(spark, index_path)
    return Table(resolve_address(path, spark, index_storage, format))


def open(
    path: str | IcebergTable,
    *,
    index_path: str | None = None,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Open a table without Spark, on a disk or in a store, for `index`, `files`, `prune`, `info`, `clean` and the like.

    path: a directory; `s3://`, `gs://` or `abfss://` with a bucket, for which `zskip[stores]` is to be installed;
    `hdfs://host:port/path`, for which `zskip[hdfs]` is; also the name or the object of an Iceberg table, from
    pyiceberg's catalogs only; index_path, format: as in `table`; storage_options: how to reach the object store, with
    the keys that deltalake and Polars know, such as `aws_access_key_id`, `aws_region` or `aws_endpoint_url`, or
    settings of Hadoop for HDFS; what is not given comes from the environment, on HDFS from the files in
    HADOOP_CONF_DIR.
    Raises InputError for arguments that cannot be right and MissingDependencyError for what is not installed; whether
    the store answers is seen when something is asked of the table.
    """
    from zskip.errors import InputError
    from zskip.storage import check_options, is_remote, storage_for
    from zskip.table.address import resolve_address

    if index_path == "":
        raise InputError("index_path is empty; give a directory, or leave it out to keep the index in the table")
    options = check_options(storage_options)
    index_storage = None
    if index_path is not None:
        index_storage = storage_for(index_path, options if is_remote(index_path) else {})
    return Table(resolve_address(path, None, index_storage, format, options))
