"""Writers of a rewrite: either the format commits files of ours, or the session's engine commits rows."""

from __future__ import annotations

import dataclasses
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from zskip.errors import ConflictError, UnsupportedError, ZskipWarning
from zskip.formats import StagedFile, new_table
from zskip.formats.base import STAGED
from zskip.formats.compression import Compression
from zskip.formats.footers.footer import read_footers
from zskip.formats.footers.traits import NO_TRAITS, FileTraits
from zskip.layout.pages import MOST_ROWS
from zskip.records import Ints, Snapshot
from zskip.spark.write.staging import check_spark_writes, stage_files
from zskip.storage import Storage
from zskip.table.handle import Handle
from zskip.table.optimize_request import ARROW, SPARK
from zskip.table.rewrite.step_timer import StepTimer
from zskip.table.version import TableVersion, open_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.formats import Engine, EngineCommit, Reader
    from zskip.spark.write.arrangement import Arrangement
    from zskip.spark.write.arrow.job import ArrowRewrite, RowsWritten

ENGINE_WRITES = "the format's own code in the session writes its files"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OldFiles:
    """The files to rewrite, and what new ones have of them."""

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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rewrite:
    """What to write, and how."""

    old: OldFiles
    arrangement: Arrangement

    def notes(self, kept: FileTraits) -> tuple[str, ...]:
        """What new files lose that keep only some of the traits, a sentence for each."""
        return (*self.old.lost_traits, *self.old.traits.lost_in(kept))


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

    def next_version(self) -> TableVersion:
        """The version of the table after the commit."""


def choose_engine(
    version: TableVersion, *, into: str | None = None, compression: Compression | None = None
) -> Engine | None:
    """Choose the engine that commits a rewrite, None for the format; raises UnsupportedError where neither can.

    into: the path of a new table, None to rewrite in place; compression: the one requested, if any.
    """
    version.metadata.check()
    if into is not None:
        if not version.format.is_plain:
            raise UnsupportedError(
                f'into= writes a plain Parquet table, and "{version.handle.storage.root}" is of the format '
                f"{version.format.name}; leave into= out: the versions of the table before the rewrite stay"
            )
        return None
    version.reader.check_rewritable(compression)
    return version.reader.engine


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


def copy_files(source: Storage, target: Handle, files: Snapshot) -> None:
    """Commit copies of some files, which have no rows, to a new table, each in the directory of its partition."""
    staging, staged = target.format.stage(), list[StagedFile]()
    for number, file in enumerate(files):
        path = f"{staging}/empty-{number}-{uuid.uuid4().hex}.parquet{STAGED}"
        target.storage.write(path, source.read(file.path))
        staged.append(StagedFile(path=path, directory=files.partitions[file.partition].directory, size=file.size))
    target.format.replace(files, np.zeros(len(files), np.bool_), staged)


class FileWriter:
    """Writes files into a staging directory, through Arrow where that changes nothing; the format commits them."""

    def __init__(self, spark: SparkSession, version: TableVersion, target: Handle) -> None:
        """version: has the files to read; target: the table itself, or another one."""
        self._spark = spark
        self._version = version
        self._source = version.handle.storage
        self._target = target
        self._replaces = target is version.handle
        self._format = version.format if self._replaces else target.format
        self._committed = 0
        self.writer = SPARK
        self.writer_reason = ""
        self._staging: str | None = None
        self._base: Snapshot
        self._reader: Reader | None = None
        self._rows = 0
        self._staged: Sequence[StagedFile] = ()
        self._notes: tuple[str, ...] = ()

    def write(self, rewrite: Rewrite) -> None:
        """Write the new files and check that they hold every live row of each partition."""
        from zskip.spark.jobs import describe_jobs

        self._reader, self._base = rewrite.old.reader, rewrite.old.reader.snapshot
        snapshot, roads = self._base, [partial(self._write_rows, rewrite)]
        if not rewrite.arrangement.needs_spark:
            roads.insert(0, partial(self._write_files, rewrite))
        with describe_jobs(self._spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
            written = stage_files(
                self._format,
                self._target.storage,
                roads,
                lambda staging, reason: self._write_by_spark(rewrite, staging, reason),
                source=snapshot.root,
            )
            self._staging, self.writer_reason = written.directory, written.spark_reason
            self.writer = SPARK if self.writer_reason else ARROW
            traits = rewrite.old.traits
            self._notes = rewrite.notes(traits.kept_by_spark if self.writer_reason else traits.kept_by_arrow)
            live = rewrite.old.reader.count_live_rows(rewrite.old.rows)
        numbers = [number for number, _ in written.files]
        files = [file for _, file in written.files]
        target = self._target
        rows = [
            footer.rows for footer in read_footers(target.storage, [(f.path, f.size) for f in files], target.workers)
        ]
        partitions = [int(rewrite.arrangement.partition_of_file[number]) for number in numbers]
        _check_rows(rewrite, live, np.bincount(partitions, rows, len(snapshot.partitions)).astype(np.int64))
        _check_file_rows(rewrite, live, np.bincount(numbers, rows, len(rewrite.arrangement.partition_of_file)))
        self._rows = sum(rows)
        self._staged = [
            StagedFile(path=file.path, directory=snapshot.partitions[p].directory, size=file.size)
            for file, p, n in zip(files, partitions, rows, strict=True)
            if n
        ]

    def _write_files(self, rewrite: Rewrite, staging: str) -> RowsWritten:
        """Write what files hold, through Arrow alone."""
        job = rewrite.old.through_arrow(self._spark, self._source, self._target.storage, staging)
        return rewrite.arrangement.write_files(job)

    def _write_rows(self, rewrite: Rewrite, staging: str) -> RowsWritten:
        """Write what Spark reads through Arrow."""
        from zskip.spark.schema import ordinal_of, restore_field_ids
        from zskip.spark.write.arrow.job import ArrowRows, rows_session

        rows, reader = int(rewrite.old.rows.sum()), rewrite.old.reader
        columns = str(restore_field_ids(self._spark, reader.schema, reader.declared_columns()).data.json())
        live = rewrite.arrangement.live_rows(rows_session(self._spark), reader)
        job = ArrowRows(
            spark=self._spark,
            target=self._target.storage,
            staging=staging,
            compression=rewrite.old.compression,
            page_rows=rewrite.old.page_rows,
            frame=live,
            ordinal=ordinal_of(live),
            row_bytes=self._base.bytes / max(rows, 1),
            stored=columns if reader.files_hold_rows else reader.stored_columns(live),
            snapshot=self._base,
            traits=rewrite.old.traits.kept_by_arrow,
        )
        return rewrite.arrangement.write_rows(job, rows)

    def _write_by_spark(self, rewrite: Rewrite, staging: str, reason: str) -> int:
        from zskip.spark.schema import name_as_stored, ordinal_of, restore_field_ids
        from zskip.spark.write.rewrite import WriteOptions, write_rows, writing_session

        options = WriteOptions(
            compression=rewrite.old.compression,
            page_rows=rewrite.old.page_rows,
            bloom_filters=rewrite.old.traits.kept_by_spark.bloom_filters,
        )
        session = writing_session(self._spark, by_name=self._base.reading.declared is not None)
        reader, arrangement = rewrite.old.reader, rewrite.arrangement
        if reader.files_hold_rows:
            declared = (self._base.reading.declared or (None,))[0]
            reader = reader.with_schema(restore_field_ids(session, reader.schema, declared))
        live = arrangement.live_rows(session, reader)
        rows, stored = arrangement.routed(live, ordinal_of(live)), reader.stored_columns(live)
        check_spark_writes(self._base.root, stored or reader.declared_columns(), reason)
        rows = rows if stored is None else name_as_stored(rows, stored)
        write_rows(rows, self._target.storage.uri(staging), options)
        return int(rewrite.old.rows.sum())

    def commit(self, info: Mapping[str, Any]) -> EngineCommit:
        """Let the format commit the staged files."""
        from zskip.spark.formats import EngineCommit

        replaced = np.full(len(self._base), self._replaces)
        self._committed = self._format.replace(self._base, replaced, self._staged, info)
        self._release()
        if not self._staged:
            self._abort_staging()
        return EngineCommit(
            version=self._committed,
            sizes=tuple(file.size for file in self._staged),
            names=tuple(file.name for file in self._staged),
            rows=self._rows,
            notes=self._notes,
        )

    def abort(self) -> None:
        """Remove the staged files."""
        self._release()
        self._abort_staging()

    def _abort_staging(self) -> None:
        if self._staging is not None:
            self._format.abort(self._staging)

    def next_version(self) -> TableVersion:
        """The version that the commit made: that of before with the new files, where nothing else has changed."""
        if not self._replaces:
            return open_version(self._target)
        return self._version.after_commit(self._base.paths, self._staged, self._committed)

    def _release(self) -> None:
        if self._reader is not None:
            self._reader.release()


class EngineWriter:
    """Hands rows, already routed to their files, to the engine."""

    def __init__(self, spark: SparkSession, handle: Handle, engine: Engine) -> None:
        self._spark = spark
        self._handle = handle
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
        from zskip.spark.jobs import describe_jobs
        from zskip.spark.schema import ordinal_of
        from zskip.spark.write.rewrite import writing_session

        rewrite, snapshot = self._rewrite, self._rewrite.old.reader.snapshot
        with describe_jobs(self._spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
            arrangement = rewrite.arrangement
            live = arrangement.live_rows(writing_session(self._spark), rewrite.old.reader)
            rows = RoutedRows(
                frame=arrangement.routed(live, ordinal_of(live)),
                partition_of_file=arrangement.partition_of_file,
                rows=self._count_rows(),
                compression=rewrite.old.compression,
                page_rows=rewrite.old.page_rows,
            )
            committed = self._engine.commit(snapshot, rows, info)
            return dataclasses.replace(committed, notes=rewrite.notes(NO_TRAITS))

    def _count_rows(self) -> int:
        """The live rows of the files; where other files change them, the engine's own reader counts."""
        reader = self._rewrite.old.reader
        if reader.snapshot.reading.changed is None:
            return int(reader.count_live_rows(self._rewrite.old.rows).sum())
        return reader.live_rows(self._spark).count()

    def abort(self) -> None:
        """Do nothing: an engine cleans up after a failed commit itself."""

    def next_version(self) -> TableVersion:
        """The version that is current now."""
        return open_version(self._handle)


def open_writer(spark: SparkSession, version: TableVersion, target: Handle, engine: Engine | None) -> Writer:
    """Choose who writes a rewrite's files; engine: as `choose_engine` has it.

    target: the table itself, or another one, to which the rows are copied.
    """
    if engine is not None:
        return EngineWriter(spark, version.handle, engine)
    return FileWriter(spark, version, target)


def warn_of_losses(root: str, notes: Sequence[str]) -> None:
    """Say what a rewrite could not keep."""
    if notes:
        text = f'"{root}" was rewritten, and its new files lack what the old ones had: {"; ".join(notes)}'
        warnings.warn(text, ZskipWarning, stacklevel=4)


def rewrite_in_place(
    spark: SparkSession,
    version: TableVersion,
    rewrite: Rewrite,
    info: Mapping[str, Any],
    timer: StepTimer,
) -> tuple[EngineCommit, TableVersion]:
    """Write the new files of one rewrite and commit them in place of the old, or change nothing.

    Returns the table's next version, too.
    """
    writer = open_writer(spark, version, version.handle, rewrite.old.reader.engine)
    try:
        with timer.step("rewrite"):
            writer.write(rewrite)
        with timer.step("commit"):
            committed = writer.commit(info)
    except BaseException:
        writer.abort()
        raise
    return committed, writer.next_version()


def _check_rows(rewrite: Rewrite, live: Ints, written: Ints) -> None:
    snapshot = rewrite.old.reader.snapshot
    expected = np.bincount(snapshot.partition_of, live, len(snapshot.partitions)).astype(np.int64)
    if not np.array_equal(written, expected):
        first = int(np.argmax(written != expected))
        raise ConflictError(
            f'partition "{snapshot.partitions[first].directory}" has {expected[first]} rows but {written[first]} were '
            "written; nothing was committed. If nobody else writes to the table, report this"
        )


def _check_file_rows(rewrite: Rewrite, live: Ints, written: npt.NDArray[np.integer[Any]]) -> None:
    expected = rewrite.arrangement.file_rows(live)
    if expected is not None and not np.array_equal(written, expected):
        first = int(np.argmax(written != expected))
        raise ConflictError(
            f'a new file of "{rewrite.old.reader.snapshot.root}" should have {expected[first]} rows but has '
            f"{int(written[first])}; nothing was committed. If nobody else writes to the table, report this"
        )
