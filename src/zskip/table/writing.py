"""The two ways to write a rewrite: files of ours that the format commits, or rows that the session's engine commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats import Staged, into
from zskip.formats.compression import Compression
from zskip.formats.schema import read_footers
from zskip.layout.layout import Layout
from zskip.records import Ints, Snapshot
from zskip.table.handle import Handle
from zskip.table.request import OptimizeRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.engines import Committed, Engine
    from zskip.spark.schema import TableSchema


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rewrite:
    """What is written anew, and how."""

    schema: TableSchema
    """Of the files to rewrite only."""
    layout: Layout
    partition_rows: Ints
    """(partitions,)."""
    compression: Compression
    sort_within_files: bool


class Writer(Protocol):
    """One rewrite on its way into a table: `write`, then `commit`, or `abort` where something went wrong."""

    def write(self, rewrite: Rewrite) -> None:
        """Write the new files, or get ready to."""

    def commit(self, info: Mapping[str, Any]) -> Committed:
        """Make them part of the table; info: what the operation was."""

    def abort(self) -> None:
        """Remove what was written and not committed."""


def choose_engine(spark: SparkSession, handle: Handle, request: OptimizeRequest) -> Engine | None:
    """The engine that commits the rewrite, None where the format does; raises UnsupportedError where neither can."""
    from zskip.spark.engines import engine_for

    if request.into is not None:
        if handle.format.name != "parquet":
            raise UnsupportedError(
                f'into= writes a plain Parquet table, and "{handle.storage.root}" is of the format '
                f"{handle.format.name}; leave into= out: the versions of the table before the rewrite stay"
            )
        return None
    if handle.format.name == "hudi" and request.compression is not None and request.compression.level is not None:
        raise UnsupportedError(
            f'Hudi, which writes the files of "{handle.storage.root}", takes no level of a codec; write '
            f'compression="{request.compression.codec}"'
        )
    engine = engine_for(spark, handle.format, handle.storage.root)
    if engine is None:
        handle.format.check_replaceable()
    else:
        engine.check()
    return engine


@contextmanager
def target_of(handle: Handle, request: OptimizeRequest) -> Iterator[Handle]:
    """Where the new files go: the table itself, or a hidden directory that gets the name of `into` at the end."""
    if request.into is None:
        yield handle
        return
    path = request.into.rstrip("/") or "/"
    parent = handle.storage_at(path.rpartition("/")[0] or ("/" if path.startswith("/") else "."))
    name = path.rpartition("/")[2]
    hidden = into.begin(parent, name)
    try:
        yield Handle(handle.storage_at(parent.uri(hidden)), handle.spark)
        into.publish(parent, hidden, name)
    except BaseException:
        parent.delete(hidden)
        raise


class FileWriter:
    """Writes files into a staging directory, which the format commits."""

    def __init__(self, spark: SparkSession, target: Handle, *, replaces: bool) -> None:
        """replaces: whether the files that were read go away."""
        self._spark = spark
        self._target = target
        self._replaces = replaces
        self._staging = target.format.stage()
        self._base: Snapshot
        self._staged: Sequence[Staged] = ()

    def write(self, rewrite: Rewrite) -> None:
        """Write the new files and check that they hold every row of each partition."""
        from zskip.spark.scan.relation import ORDINAL, scan_with_ordinals
        from zskip.spark.schema import with_declared_ids
        from zskip.spark.write.rewrite import WriteOptions, described, file_of, writing_session
        from zskip.spark.write.rewrite import rewrite as write

        self._base = snapshot = rewrite.schema.snapshot
        target = self._target
        options = WriteOptions(compression=rewrite.compression, sort_within_files=rewrite.sort_within_files)
        with described(self._spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
            session = writing_session(self._spark, by_name=snapshot.declared is not None)
            frame = scan_with_ordinals(session, with_declared_ids(session, rewrite.schema))
            write(frame, ORDINAL, rewrite.layout, target.storage.uri(self._staging), options)
        files = target.format.staged_files(self._staging)
        rows = [footer.rows for footer in read_footers(target.storage, [file.path for file in files])]
        partitions = [int(rewrite.layout.partition_of_file[file_of(file.path.rpartition("/")[2])]) for file in files]
        _check_rows(rewrite, np.bincount(partitions, rows, len(rewrite.partition_rows)).astype(np.int64))
        self._staged = [
            Staged(path=file.path, directory=snapshot.partitions[p].directory, size=file.size)
            for file, p, n in zip(files, partitions, rows, strict=True)
            if n
        ]

    def commit(self, info: Mapping[str, Any]) -> Committed:
        """Let the format commit the staged files."""
        from zskip.spark.engines import Committed

        replaced = np.full(len(self._base), self._replaces)
        version = self._target.format.replace(self._base, replaced, self._staged, info)
        return Committed(version=version, sizes=tuple(file.size for file in self._staged))

    def abort(self) -> None:
        """Remove the staged files."""
        self._target.format.abort(self._staging)


class EngineWriter:
    """Hands the rows, each already in its place, to the engine."""

    def __init__(self, spark: SparkSession, engine: Engine) -> None:
        self._spark = spark
        self._engine = engine
        self._rewrite: Rewrite

    def write(self, rewrite: Rewrite) -> None:
        """Nothing yet: the engine writes and commits in one go."""
        self._rewrite = rewrite

    def commit(self, info: Mapping[str, Any]) -> Committed:
        """Let the engine write the rows and commit them."""
        from zskip.spark.engines import RoutedRows
        from zskip.spark.scan.relation import ORDINAL, scan_with_ordinals
        from zskip.spark.write.rewrite import described, routed, writing_session

        rewrite, snapshot = self._rewrite, self._rewrite.schema.snapshot
        with described(self._spark, f"rewrite {len(snapshot)} files of {snapshot.root}"):
            frame = scan_with_ordinals(writing_session(self._spark), rewrite.schema)
            rows = RoutedRows(
                frame=routed(frame, ORDINAL, rewrite.layout, sort=rewrite.sort_within_files),
                files=rewrite.layout.file_count,
                rows=int(rewrite.partition_rows.sum()),
                compression=rewrite.compression,
            )
            return self._engine.commit(snapshot, rows, info)

    def abort(self) -> None:
        """Nothing: an engine that does not commit cleans up itself."""


def _check_rows(rewrite: Rewrite, written: Ints) -> None:
    if not np.array_equal(written, rewrite.partition_rows):
        worst = int(np.argmax(written != rewrite.partition_rows))
        raise ConflictError(
            f'partition "{rewrite.schema.snapshot.partitions[worst].directory}" has {rewrite.partition_rows[worst]} '
            f"rows but {written[worst]} were written; nothing was committed. If nobody else writes to the table, "
            "report this"
        )
