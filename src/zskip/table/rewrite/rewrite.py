"""Write the new files of a rewrite and commit them in place of the old: by the format, or by the session's engine."""

from __future__ import annotations

import dataclasses
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zskip.errors import ConflictError, UnsupportedError, ZskipWarning
from zskip.formats import StagedFile, TableFormat, new_table
from zskip.formats.base import STAGED
from zskip.formats.compression import Compression
from zskip.formats.footers.footer import read_footers
from zskip.formats.footers.traits import NO_TRAITS, FileTraits
from zskip.layout.layout import Layout
from zskip.layout.pages import MOST_ROWS
from zskip.records import FileSizes, Ints, RewriteResult, Snapshot
from zskip.spark.write.staging import check_spark_writes, stage_files
from zskip.storage import Storage
from zskip.table.handle import Handle
from zskip.table.optimize_request import ARROW, SPARK
from zskip.table.step_timer import StepTimer
from zskip.table.version import TableVersion, open_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.formats import Engine, Reader
    from zskip.spark.write.arrow.job import ArrowRewrite, RowsWritten

ENGINE_WRITES = "the format's own code in the session writes its files"
_ONE_PARTITION = {
    # All files of a scan fit into one of its partitions, each of them whole: a file's rows stay together, in order.
    "spark.sql.files.maxPartitionBytes": str((1 << 63) - 1),
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
    # Partitions of the same number would be joined to one where Spark believes that they belong together.
    "spark.sql.unionOutputPartitioning": "false",
}


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rewrite:
    """The files to rewrite, and what new ones hold: rows in the order of a layout, or those of some files unchanged."""

    reader: Reader
    """Of the files to rewrite only."""
    rows: Ints
    """(files,) rows in each file, deleted ones too."""
    compression: Compression
    page_rows: int = MOST_ROWS
    """The most rows in a page of a new file."""
    traits: FileTraits
    """What all files to rewrite have in common beside rows."""
    lost_traits: tuple[str, ...]
    """As in `Inspection`."""
    layout: Layout | None = None
    """Places each row; None where files are merged, or before it is fitted."""
    bins: Sequence[Ints] = ()
    """The numbers of the files that each new file replaces, all in one partition, where files are merged."""

    @property
    def snapshot(self) -> Snapshot:
        """The files to rewrite."""
        return self.reader.snapshot

    @property
    def partition_of_file(self) -> npt.NDArray[np.integer[Any]]:
        """(new files,) the number of each file's partition in the snapshot."""
        if self.layout is not None:
            return self.layout.partition_of_file
        return self.snapshot.partition_of[[numbers[0] for numbers in self.bins]]

    def through_arrow(self, spark: SparkSession, source: Storage, target: Storage, staging: str) -> ArrowRewrite:
        """The rewrite of what files hold, through Arrow alone; raises NotReadable where it cannot be."""
        from zskip.spark.write.arrow.job import ArrowRewrite
        from zskip.spark.write.arrow.schema import NotReadable

        readable = self.reader.readable_files()
        if readable is None:
            raise NotReadable("only the format's own code reads them")
        return ArrowRewrite(
            spark=spark,
            schema=self.reader.schema,
            readable=readable,
            source=source,
            target=target,
            staging=staging,
            compression=self.compression,
            page_rows=self.page_rows,
            rows=int(self.rows.sum()),
            traits=self.traits.kept_by_arrow,
        )

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows as `Reader.live_rows` gives them; where files are merged, those of a bin in one task, in order."""
        from zskip.spark.jvm.compat import private_session

        if self.layout is not None:
            return self.reader.live_rows(session)
        session = private_session(session, _ONE_PARTITION)
        frames = [self._select(numbers).live_rows(session) for numbers in self.bins]
        # Pairs of pairs, so that no plan is as deep as there are frames.
        while len(frames) > 1:
            pairs = [one.union(other) for one, other in zip(frames[::2], frames[1::2], strict=False)]
            frames = pairs + frames[2 * len(pairs) :]
        return frames[0]

    def _select(self, numbers: Ints) -> Reader:
        """Select some files of one partition, as a table with that partition only."""
        files = self.snapshot.take(numbers)
        partition = files.partitions[int(files.partition_of[0])]
        only = dataclasses.replace(files, partitions=(partition,), partition_of=np.zeros(len(numbers), np.int32))
        return self.reader.select(only)

    def route(self, live: DataFrame) -> DataFrame:
        """Bring each of the `live_rows` to its file, which has the number of Spark's partition."""
        from zskip.spark.schema import ordinal_of
        from zskip.spark.write.rewrite import routed

        ordinal = ordinal_of(live)
        return live.drop(ordinal) if self.layout is None else routed(live, ordinal, self.layout)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Commit:
    """A rewrite that is committed."""

    version: TableVersion
    """The one that it made."""
    replaced: Snapshot
    names: tuple[str, ...]
    """Of the new files, without directories."""
    result: RewriteResult


def check_rewritable(version: TableVersion, into: str | None = None, compression: Compression | None = None) -> None:
    """Raise UnsupportedError where neither the format nor the session's engine can commit a rewrite.

    into: the path of a new table, None to rewrite in place; compression: the one requested, if any.
    """
    version.metadata.check()
    if into is None:
        version.reader.check_rewritable(compression)
    elif not version.format.is_plain:
        raise UnsupportedError(
            f'into= writes a plain Parquet table, and "{version.handle.storage.root}" is of the format '
            f"{version.format.name}; leave into= out: the versions of the table before the rewrite stay"
        )


@contextmanager
def open_target(handle: Handle, path: str | None) -> Iterator[Handle]:
    """Open what receives the new files: the table itself, or a hidden directory that becomes a new table at the end.

    path: of the new table.
    """
    if path is None:
        yield handle
        return
    path = path.rstrip("/") or "/"
    parent = handle.storage_at(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))
    name = path.rpartition("/")[2]
    hidden = new_table.begin(parent, name)
    try:
        yield handle.beside(handle.storage_at(parent.uri(hidden)))
        new_table.publish(parent, hidden, name)
    except BaseException:
        parent.delete(hidden)
        raise


def copy_files(source: Storage, target: Handle, files: Snapshot) -> None:
    """Commit copies of some files, which have no rows, to a new table, each in the directory of its partition."""
    staging, staged = target.format.stage(), list[StagedFile]()
    for number, file in enumerate(files):
        path = f"{staging}/empty-{number}-{uuid.uuid4().hex}.parquet{STAGED}"
        target.storage.write(path, source.read(file.path))
        staged.append(StagedFile(path=path, directory=files.partitions[file.partition].directory, size=file.size))
    target.format.replace(files, np.zeros(len(files), np.bool_), staged)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NewFiles:
    """Files in a staging directory that hold all rows of a rewrite."""

    staged: Sequence[StagedFile]
    directory: str
    rows: int
    spark_reason: str
    """Why Spark has written them; empty if they came through Arrow."""


def rewrite_files(
    version: TableVersion, rewrite: Rewrite, info: Mapping[str, Any], timer: StepTimer, target: Handle | None = None
) -> Commit:
    """Write the new files of a rewrite and commit them in place of the old, or change nothing.

    info: describes the operation; target: another table, to which the rows are copied.
    """
    engine = rewrite.reader.engine if target is None else None
    if engine is not None:
        commit = _rewrite_by_engine(version, rewrite, info, timer, engine)
    else:
        commit = _rewrite_by_format(version, rewrite, info, timer, target)
    notes, root = commit.result.notes, version.handle.storage.root
    if notes:
        text = f'"{root}" was rewritten, and its new files lack what the old ones had: {"; ".join(notes)}'
        warnings.warn(text, ZskipWarning, stacklevel=4)
    return commit


def _rewrite_by_format(
    version: TableVersion, rewrite: Rewrite, info: Mapping[str, Any], timer: StepTimer, target: Handle | None
) -> Commit:
    table, table_format = (version.handle, version.format) if target is None else (target, target.format)
    base = rewrite.snapshot
    try:
        with timer.step("rewrite"):
            files = write_files(version.handle, rewrite, table, table_format)
        with timer.step("commit"):
            number = commit_files(table_format, base, files, info, replaces=target is None)
    finally:
        rewrite.reader.release()
    names = tuple(file.name for file in files.staged)
    sizes = FileSizes.of([file.size for file in files.staged])
    kept = rewrite.traits.kept_by_spark if files.spark_reason else rewrite.traits.kept_by_arrow
    result = _result(rewrite, number, sizes, files.rows, kept, replaces=target is None)
    return Commit(
        version=version.after_commit(base.paths, files.staged, number) if target is None else open_version(table),
        replaced=base,
        names=names,
        result=dataclasses.replace(
            result, writer=SPARK if files.spark_reason else ARROW, writer_reason=files.spark_reason
        ),
    )


def _result(
    rewrite: Rewrite, number: int, added: FileSizes, rows: int, kept: FileTraits, *, replaces: bool = True
) -> RewriteResult:
    base = rewrite.snapshot
    return RewriteResult(
        path=base.root,
        version=number,
        files_before=len(base),
        files_after=added.files,
        bytes_before=base.bytes,
        bytes_after=added.bytes,
        rows=rows,
        added=added,
        removed=FileSizes.of(base.sizes.tolist() if replaces else []),
        compression=str(rewrite.compression),
        batches=1,
        writer=SPARK,
        writer_reason=ENGINE_WRITES,
        notes=(*rewrite.lost_traits, *rewrite.traits.lost_in(kept)),
    )


def write_files(source: Handle, rewrite: Rewrite, target: Handle, target_format: TableFormat) -> NewFiles:
    """Write the new files of a rewrite into a staging directory, which is gone after a failure.

    Raises ConflictError unless they hold every live row of each partition.
    """
    from zskip.spark.jobs import describe_jobs

    spark, snapshot = source.need_session("a rewrite"), rewrite.snapshot
    through_arrow = [partial(_write_rows, spark, rewrite, target)]
    if rewrite.layout is None or not any(field.computed for field in rewrite.layout.fields):
        through_arrow.insert(0, partial(_write_files, spark, rewrite, source, target))
    with describe_jobs(spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
        written = stage_files(
            spark,
            target_format,
            target.storage,
            through_arrow,
            partial(_write_by_spark, spark, rewrite, target),
            source=snapshot.root,
        )
        try:
            live = rewrite.reader.count_live_rows(rewrite.rows)
            numbers = [number for number, _ in written.files]
            files = [file for _, file in written.files]
            listed = [(file.path, file.size) for file in files]
            rows = [footer.rows for footer in read_footers(target.storage, listed, target.workers)]
            partitions = rewrite.partition_of_file[numbers].astype(np.int64)
            _check_rows(rewrite, live, np.bincount(partitions, rows, len(snapshot.partitions)).astype(np.int64))
            _check_file_rows(rewrite, live, np.bincount(numbers, rows, len(rewrite.partition_of_file)))
        except BaseException:
            target_format.abort(written.directory)
            raise
    staged = [
        StagedFile(path=file.path, directory=snapshot.partitions[p].directory, size=file.size)
        for file, p, n in zip(files, partitions.tolist(), rows, strict=True)
        if n
    ]
    return NewFiles(staged=staged, directory=written.directory, rows=sum(rows), spark_reason=written.spark_reason)


def commit_files(
    table: TableFormat, base: Snapshot, files: NewFiles, info: Mapping[str, Any], *, replaces: bool
) -> int:
    """Let the format commit new files, which are gone after a failure; returns the table's new version.

    replaces: whether in place of those of `base`.
    """
    try:
        number = table.replace(base, np.full(len(base), replaces), files.staged, info)
    except BaseException:
        table.abort(files.directory)
        raise
    if not files.staged:
        table.abort(files.directory)
    return number


def _write_files(spark: SparkSession, rewrite: Rewrite, source: Handle, target: Handle, staging: str) -> RowsWritten:
    """Write what files hold, through Arrow alone."""
    job = rewrite.through_arrow(spark, source.storage, target.storage, staging)
    return job.write_merged(rewrite.bins) if rewrite.layout is None else job.write_by_layout(rewrite.layout)


def _write_rows(spark: SparkSession, rewrite: Rewrite, target: Handle, staging: str) -> RowsWritten:
    """Write what Spark reads through Arrow."""
    from zskip.spark.schema import ordinal_of
    from zskip.spark.write.arrow.job import ArrowRows, rows_session

    rows, reader = int(rewrite.rows.sum()), rewrite.reader
    live = rewrite.live_rows(rows_session(spark))
    job = ArrowRows(
        spark=spark,
        target=target.storage,
        staging=staging,
        compression=rewrite.compression,
        page_rows=rewrite.page_rows,
        frame=live,
        ordinal=ordinal_of(live),
        row_bytes=rewrite.snapshot.bytes / max(rows, 1),
        stored=reader.file_columns if reader.files_hold_rows else reader.stored_columns(live),
        snapshot=rewrite.snapshot,
        traits=rewrite.traits.kept_by_arrow,
    )
    return job.write_in_order() if rewrite.layout is None else job.write_by_layout(rewrite.layout, rows)


def _write_by_spark(spark: SparkSession, rewrite: Rewrite, target: Handle, staging: str, reason: str) -> int:
    from zskip.spark.schema import name_as_stored, restore_field_ids
    from zskip.spark.write.rewrite import WriteOptions, write_rows, writing_session

    options = WriteOptions(
        compression=rewrite.compression,
        page_rows=rewrite.page_rows,
        bloom_filters=rewrite.traits.kept_by_spark.bloom_filters,
    )
    declared = rewrite.snapshot.reading.declared
    session = writing_session(spark, by_name=declared is not None)
    if rewrite.reader.files_hold_rows:
        schema = restore_field_ids(session, rewrite.reader.schema, (declared or (None,))[0])
        rewrite = dataclasses.replace(rewrite, reader=rewrite.reader.with_schema(schema))
    live = rewrite.live_rows(session)
    rows, stored = rewrite.route(live), rewrite.reader.stored_columns(live)
    check_spark_writes(rewrite.snapshot.root, stored or rewrite.reader.declared_columns(), reason)
    rows = rows if stored is None else name_as_stored(rows, stored)
    write_rows(rows, target.storage.uri(staging), options)
    return int(rewrite.rows.sum())


def _rewrite_by_engine(
    version: TableVersion, rewrite: Rewrite, info: Mapping[str, Any], timer: StepTimer, engine: Engine
) -> Commit:
    """Hand the rows, routed to their files, to the engine, which writes and commits them in one step."""
    from zskip.spark.formats import RoutedRows
    from zskip.spark.jobs import describe_jobs
    from zskip.spark.write.rewrite import writing_session

    handle, snapshot = version.handle, rewrite.snapshot
    spark = handle.need_session("a rewrite")
    with describe_jobs(spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
        with timer.step("rewrite"):
            rows = RoutedRows(
                frame=rewrite.route(rewrite.live_rows(writing_session(spark))),
                partition_of_file=rewrite.partition_of_file,
                rows=_count_rows(spark, rewrite),
                compression=rewrite.compression,
                page_rows=rewrite.page_rows,
            )
        with timer.step("commit"):
            committed = engine.commit(snapshot, rows, info)
    result = _result(rewrite, committed.version, FileSizes.of(committed.sizes), committed.rows, NO_TRAITS)
    return Commit(version=open_version(handle), replaced=snapshot, names=committed.names, result=result)


def _count_rows(spark: SparkSession, rewrite: Rewrite) -> int:
    """The live rows of the files; where other files change them, the engine's own reader counts."""
    if rewrite.snapshot.reading.changed is None:
        return int(rewrite.reader.count_live_rows(rewrite.rows).sum())
    return rewrite.reader.live_rows(spark).count()


def _check_rows(rewrite: Rewrite, live: Ints, written: Ints) -> None:
    snapshot = rewrite.snapshot
    expected = np.bincount(snapshot.partition_of, live, len(snapshot.partitions)).astype(np.int64)
    if not np.array_equal(written, expected):
        first = int(np.argmax(written != expected))
        raise ConflictError(
            f'partition "{snapshot.partitions[first].directory}" has {expected[first]} rows but {written[first]} were '
            "written; nothing was committed. If nobody else writes to the table, report this"
        )


def _check_file_rows(rewrite: Rewrite, live: Ints, written: npt.NDArray[np.integer[Any]]) -> None:
    """Check that each file holds the rows of its bin; a layout says only about how many a file gets."""
    for file, numbers in enumerate(rewrite.bins):
        expected = int(live[numbers].sum())
        if written[file] != expected:
            raise ConflictError(
                f'a new file of "{rewrite.snapshot.root}" should have {expected} rows but has {int(written[file])}; '
                "nothing was committed. If nobody else writes to the table, report this"
            )
