"""Writers of a rewrite: either the format commits files of ours, or the session's engine commits rows."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats import StagedFile, list_data_files, new_table
from zskip.formats.compression import Compression
from zskip.formats.schema import read_footers
from zskip.layout.layout import Layout
from zskip.layout.pages import MOST_ROWS
from zskip.records import Ints, Snapshot
from zskip.storage import FileInfo, Storage
from zskip.table.handle import Handle
from zskip.table.optimize_request import ARROW, AUTO, SPARK
from zskip.table.rewrite.step_timer import StepTimer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.formats import Engine, EngineCommit, Reader
    from zskip.spark.write.arrow.job import ArrowRewrite, Written

ENGINE_WRITES = "the format's own code in the session writes its files"
_log = logging.getLogger("zskip")


class Arrangement(Protocol):
    """Which rows each new file holds, and in which order."""

    @property
    def partition_of_file(self) -> npt.NDArray[np.integer[Any]]:
        """(files,) the number of each new file's partition in the snapshot."""

    def write(self, job: ArrowRewrite) -> list[Written]:
        """Write the files through Arrow; raises NotArrow where only Spark can."""

    def rows(self, session: SparkSession, reader: Reader) -> DataFrame:
        """The rows of the files to rewrite; Spark's partition i is file i. `session` is a `writing_session`."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ClusteredRows:
    """Rows in the order of a layout."""

    layout: Layout
    sort_within_files: bool

    @property
    def partition_of_file(self) -> npt.NDArray[np.integer[Any]]:
        """(files,) the layout's own."""
        return self.layout.partition_of_file

    def write(self, job: ArrowRewrite) -> list[Written]:
        """Write each row to its file."""
        return job.write_by_layout(self.layout, sort=self.sort_within_files)

    def rows(self, session: SparkSession, reader: Reader) -> DataFrame:
        """Route each row to its file."""
        from zskip.spark.scan.relation import ORDINAL
        from zskip.spark.write.rewrite import routed

        return routed(reader.live_rows(session), ORDINAL, self.layout, sort=self.sort_within_files)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class MergedFiles:
    """The rows of some files one after another, unchanged."""

    bins: Sequence[Ints]
    """The numbers of the files that each new file replaces, all in one partition."""
    partition_of_file: npt.NDArray[np.integer[Any]]

    def write(self, job: ArrowRewrite) -> list[Written]:
        """Write each bin in one task."""
        return job.write_merged(self.bins)

    def rows(self, session: SparkSession, reader: Reader) -> DataFrame:
        """Read the files of each bin in one task."""
        from zskip.spark.scan.relation import ORDINAL
        from zskip.spark.write.merge import as_one_partition, side_by_side

        one = as_one_partition(session)
        return side_by_side([_select(reader, numbers).live_rows(one).drop(ORDINAL) for numbers in self.bins])


def _select(reader: Reader, numbers: Ints) -> Reader:
    """Select some files of one partition, as a table with that partition only."""
    files = reader.snapshot.take(numbers)
    partition = files.partitions[int(files.partition_of[0])]
    return reader.select(
        dataclasses.replace(files, partitions=(partition,), partition_of=np.zeros(len(numbers), np.int32))
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rewrite:
    """What to write, and how."""

    reader: Reader
    """Of the files to rewrite only."""
    arrangement: Arrangement
    partition_rows: Ints
    """(partitions,)."""
    compression: Compression
    page_rows: int = MOST_ROWS
    """The most rows in a page of a new file."""
    file_rows: Ints | None = None
    """(files,) rows that each new file must have, where that is known."""


class Writer(Protocol):
    """Brings one rewrite into a table: `write`, then `commit`, or `abort` after a failure."""

    writer: str
    """ARROW or SPARK, after `write`."""
    writer_reason: str
    """Why it is not ARROW."""

    def write(self, rewrite: Rewrite) -> None:
        """Write the new files, or prepare to."""

    def commit(self, info: Mapping[str, Any]) -> EngineCommit:
        """Commit them to the table; info: describes the operation."""

    def abort(self) -> None:
        """Remove files that were written but not committed."""


def choose_engine(
    handle: Handle, reader: Reader, *, into: str | None = None, compression: Compression | None = None
) -> Engine | None:
    """Choose the engine that commits a rewrite, None for the format; raises UnsupportedError where neither can.

    into: the path of a new table, None to rewrite in place; compression: the one requested, if any.
    """
    if into is not None:
        if not handle.format.is_plain:
            raise UnsupportedError(
                f'into= writes a plain Parquet table, and "{handle.storage.root}" is of the format '
                f"{handle.format.name}; leave into= out: the versions of the table before the rewrite stay"
            )
        return None
    if reader.engine is None:
        handle.format.check_replaceable()
    else:
        reader.engine.check(compression)
    return reader.engine


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
        yield Handle(handle.storage_at(parent.uri(hidden)), handle.spark)
        new_table.publish(parent, hidden, name)
    except BaseException:
        parent.delete(hidden)
        raise


class FileWriter:
    """Writes files into a staging directory, through Arrow where that changes nothing; the format commits them."""

    def __init__(
        self, spark: SparkSession, source: Storage, target: Handle, *, replaces: bool, writer: str = AUTO
    ) -> None:
        """source: of the files to read; replaces: whether the commit removes them; writer: as in `Table.optimize`."""
        self._spark = spark
        self._source = source
        self._target = target
        self._replaces = replaces
        self._requested = writer
        self.writer = SPARK
        self.writer_reason = ""
        self._staging = target.format.stage()
        self._base: Snapshot
        self._staged: Sequence[StagedFile] = ()

    def write(self, rewrite: Rewrite) -> None:
        """Write the new files and check that they hold every row of each partition."""
        from zskip.spark.write.rewrite import describe_jobs

        self._base = snapshot = rewrite.reader.snapshot
        with describe_jobs(self._spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
            written = self._write(rewrite)
        numbers = [number for number, _ in written]
        files = [file for _, file in written]
        target = self._target
        rows = [
            footer.rows for footer in read_footers(target.storage, [(f.path, f.size) for f in files], target.workers)
        ]
        partitions = [int(rewrite.arrangement.partition_of_file[number]) for number in numbers]
        _check_rows(rewrite, np.bincount(partitions, rows, len(rewrite.partition_rows)).astype(np.int64))
        _check_file_rows(rewrite, np.bincount(numbers, rows, len(rewrite.arrangement.partition_of_file)))
        self._staged = [
            StagedFile(path=file.path, directory=snapshot.partitions[p].directory, size=file.size)
            for file, p, n in zip(files, partitions, rows, strict=True)
            if n
        ]

    def _write(self, rewrite: Rewrite) -> list[tuple[int, FileInfo]]:
        """Write the new files; returns their numbers in the arrangement."""
        from zskip.spark.write.arrow.schema import NotArrow, find_arrow_only_column

        declared = rewrite.reader.snapshot.reading.declared
        column = None if declared is None else find_arrow_only_column(declared[0])
        if self._requested == SPARK:
            if column is not None:
                raise UnsupportedError(f'Spark would write column "{column}" as another type; leave writer="spark" out')
            self.writer_reason = 'writer="spark"'
            return self._write_by_spark(rewrite)
        try:
            files = self._write_through_arrow(rewrite)
        except NotArrow as error:
            if self._requested == ARROW or column is not None:
                raise not_through_arrow(rewrite.reader.snapshot.root, error.reason, column) from error
            _log.info("%s: Spark writes the new files: %s", rewrite.reader.snapshot.root, error.reason)
            self.writer_reason = error.reason
            # Tasks that go on nevertheless have no directory to leave files in.
            self.abort()
            self._staging = self._target.format.stage()
            return self._write_by_spark(rewrite)
        self.writer = ARROW
        return files

    def _write_through_arrow(self, rewrite: Rewrite) -> list[tuple[int, FileInfo]]:
        from zskip.spark.schema import restore_field_ids
        from zskip.spark.write.arrow.job import ArrowRewrite

        job = ArrowRewrite(
            spark=self._spark,
            schema=restore_field_ids(self._spark, rewrite.reader.schema),
            source=self._source,
            target=self._target.storage,
            staging=self._staging,
            compression=rewrite.compression,
            page_rows=rewrite.page_rows,
            rows=int(rewrite.partition_rows.sum()),
        )
        written = {file.name: file.file for file in rewrite.arrangement.write(job)}
        # What other attempts have left there is not among them.
        files = list_data_files(self._target.storage, self._staging)
        return [(written[name], f) for f in files if (name := f.path.rpartition("/")[2]) in written]

    def _write_by_spark(self, rewrite: Rewrite) -> list[tuple[int, FileInfo]]:
        from zskip.spark.schema import restore_field_ids
        from zskip.spark.write.rewrite import WriteOptions, file_of, write_rows, writing_session

        options = WriteOptions(compression=rewrite.compression, page_rows=rewrite.page_rows)
        session = writing_session(self._spark, by_name=self._base.reading.declared is not None)
        reader = rewrite.reader.with_schema(restore_field_ids(session, rewrite.reader.schema))
        frame = rewrite.arrangement.rows(session, reader)
        write_rows(frame, self._target.storage.uri(self._staging), options)
        files = list_data_files(self._target.storage, self._staging)
        return [(file_of(file.path.rpartition("/")[2]), file) for file in files]

    def commit(self, info: Mapping[str, Any]) -> EngineCommit:
        """Let the format commit the staged files."""
        from zskip.spark.formats import EngineCommit

        replaced = np.full(len(self._base), self._replaces)
        version = self._target.format.replace(self._base, replaced, self._staged, info)
        return EngineCommit(
            version=version,
            sizes=tuple(file.size for file in self._staged),
            names=tuple(file.path.rpartition("/")[2] for file in self._staged),
        )

    def abort(self) -> None:
        """Remove the staged files."""
        self._target.format.abort(self._staging)


class EngineWriter:
    """Hands rows, already routed to their files, to the engine."""

    def __init__(self, spark: SparkSession, reader: Reader, engine: Engine) -> None:
        """reader: of the table; engine: the one that commits what it reads."""
        self._spark = spark
        self._reader = reader
        self._engine = engine
        self.writer = SPARK
        self.writer_reason = ENGINE_WRITES
        self._rewrite: Rewrite

    def write(self, rewrite: Rewrite) -> None:
        """Keep the rewrite; the engine writes and commits in one step."""
        self._rewrite = rewrite

    def commit(self, info: Mapping[str, Any]) -> EngineCommit:
        """Let the engine write the rows and commit them."""
        from zskip.spark.formats import RoutedRows
        from zskip.spark.write.rewrite import describe_jobs, writing_session

        rewrite, snapshot = self._rewrite, self._rewrite.reader.snapshot
        with describe_jobs(self._spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
            rows = RoutedRows(
                frame=rewrite.arrangement.rows(writing_session(self._spark), rewrite.reader),
                partition_of_file=rewrite.arrangement.partition_of_file,
                rows=self._count_rows(),
                compression=rewrite.compression,
                page_rows=rewrite.page_rows,
            )
            committed = self._engine.commit(snapshot, rows, info)
        self._reader.release()
        return committed

    def _count_rows(self) -> int:
        """The rows of the files; where other files change them, the engine's own reader counts."""
        if self._rewrite.reader.snapshot.reading.changed is None:
            return int(self._rewrite.partition_rows.sum())
        return self._rewrite.reader.live_rows(self._spark).count()

    def abort(self) -> None:
        """Let go of what was read; an engine cleans up after a failed commit itself."""
        self._reader.release()


def rewrite_in_place(
    spark: SparkSession,
    handle: Handle,
    rewrite: Rewrite,
    info: Mapping[str, Any],
    timer: StepTimer,
) -> EngineCommit:
    """Write the new files of one rewrite and commit them in place of the old, or change nothing."""
    reader, engine = rewrite.reader, rewrite.reader.engine
    writer: Writer = (
        FileWriter(spark, handle.storage, handle, replaces=True)
        if engine is None
        else EngineWriter(spark, reader, engine)
    )
    try:
        with timer.step("rewrite"):
            writer.write(rewrite)
        with timer.step("commit"):
            return writer.commit(info)
    except BaseException:
        writer.abort()
        raise


def not_through_arrow(root: str, reason: str, column: str | None = None) -> UnsupportedError:
    """The error for writer="arrow", or for a column that Spark would write as another type."""
    way_out = 'leave writer="arrow" out'
    if column is not None:
        way_out = f'Spark would write column "{column}" as another type: rewrite it with another engine'
    return UnsupportedError(f'"{root}" cannot be rewritten through Arrow: {reason}; {way_out}')


def _check_rows(rewrite: Rewrite, written: Ints) -> None:
    if not np.array_equal(written, rewrite.partition_rows):
        first = int(np.argmax(written != rewrite.partition_rows))
        raise ConflictError(
            f'partition "{rewrite.reader.snapshot.partitions[first].directory}" has {rewrite.partition_rows[first]} '
            f"rows but {written[first]} were written; nothing was committed. If nobody else writes to the table, "
            "report this"
        )


def _check_file_rows(rewrite: Rewrite, written: npt.NDArray[np.integer[Any]]) -> None:
    if rewrite.file_rows is not None and not np.array_equal(written, rewrite.file_rows):
        first = int(np.argmax(written != rewrite.file_rows))
        raise ConflictError(
            f'a new file of "{rewrite.reader.snapshot.root}" should have {rewrite.file_rows[first]} rows but has '
            f"{int(written[first])}; nothing was committed. If nobody else writes to the table, report this"
        )
