"""The reader of a table in a session: what all readers answer, as it is where the files hold the rows."""

from __future__ import annotations

import copy
import dataclasses
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import UnsupportedError, ZskipWarning
from zskip.formats import MetadataReader, TableFormat
from zskip.formats.compression import Compression
from zskip.records import Bools, Field, Ints, Matching, Partition, ReadableFiles, Snapshot
from zskip.spark.collect.statistics import FilePositions, number_rows
from zskip.spark.formats.base import Engine
from zskip.spark.forms import free_name
from zskip.spark.jvm.compat import session_for_files
from zskip.spark.jvm.failures import translated
from zskip.spark.scan.relation import Pruning, prune_listing, scan
from zskip.spark.schema import (
    TableSchema,
    free_ordinal,
    names_without_default,
    ordinal_of,
    partition_by_ordinal,
    read_schema,
)
from zskip.spark.write.rewrite import check_writable
from zskip.storage import Storage
from zskip.types import read_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from zskip.spark.jvm.catalog import NamedTable

WHOLE = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # The bytes as they are: what depends on the calendar is not used.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # What zskip writes as SQL is read as it is meant.
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}
"""Settings under which all rows of files are read, or none."""
_TRIES = 5
_log = logging.getLogger("zskip")


class Reader(MetadataReader):
    """Reads one version of a table in a session, the one that is current at the first question.

    `open_reader` chooses the class by the table's format. This one reads files that hold the rows: zskip chooses them,
    and Spark reads them. Those of formats differ from it where a table uses what only the format's own code reads; what
    a version or a feature asks for is decided inside, and nobody else asks how rows are read.

    The rows, for queries: `frame` as the index prunes it, `whole` without the index. For rewrites: `readable_files` for
    zskip's own tasks, else `live_rows` as a DataFrame. For the index: `stored_rows`, deleted ones too, and
    `numbered_rows` with their places in files.
    """

    def __init__(
        self, spark: SparkSession, table: TableFormat, storage: Storage, named: NamedTable | None = None
    ) -> None:
        """named: the table in the session's catalog, if it was opened by its name there."""
        super().__init__(table)
        self._spark = spark
        self._storage = storage
        self._named = named
        self._before: TableSchema | None = None
        self._read_commit: Callable[[], Snapshot | None] | None = None

    def after_commit(self, read: Callable[[], Snapshot | None]) -> Reader:
        """The reader of the version that a commit made of this one.

        read: its files, with this version's columns where the table does not declare them; None where they have to be
        listed.
        """
        reader = self._copy()
        reader._table, reader._before, reader._read_commit = self._table, self.schema, read
        return reader

    def _copy(self) -> Reader:
        return type(self)(self._spark, self._table, self._storage, self._named)

    def _read_schema(self, snapshot: Snapshot) -> TableSchema:
        return read_schema(self._spark, snapshot)

    @cached_property
    def schema(self) -> TableSchema:
        """The live files, with columns and partition values as Spark sees them."""
        committed = None if self._read_commit is None else self._read_commit()
        if committed is not None and committed.reading.declared is not None:
            return self._read_schema(committed)
        if committed is not None and self._before is not None:
            return dataclasses.replace(self._before, snapshot=committed)
        for tries_left in reversed(range(_TRIES)):
            snapshot = self._table.snapshot()
            try:
                return self._read_schema(snapshot)
            except Exception as error:
                # Plain Parquet deletes a file as soon as it is replaced, even while Spark reads its footer.
                if not tries_left or self._table.snapshot().paths == snapshot.paths:
                    raise
                _log.info("%s changed while its schema was read (%s); reading it again", snapshot.root, error)
        raise AssertionError("not reached")

    @property
    def snapshot(self) -> Snapshot:
        """The files of `schema`."""
        return self.schema.snapshot

    @property
    def shown(self) -> Snapshot:
        """The files with the columns of `frame` and `whole`."""
        return self.snapshot

    @property
    def engine(self) -> Engine | None:
        """What writes and commits a rewrite of the rows; None where zskip writes files and the format commits them."""
        return None

    @property
    def reads_rows(self) -> bool:
        """Whether the session reads rows by the files that hold them."""
        return True

    def check_rows(self) -> None:
        """Raise UnsupportedError where the session cannot read rows of files."""

    @property
    def files_hold_rows(self) -> bool:
        """Whether all that a rewrite keeps is in the files, under the names of the table's columns."""
        return self.feature is None

    def check_rewritable(self, compression: Compression | None) -> None:
        """Raise UnsupportedError, with the reason and the way out, where a rewrite could not be committed; only reads.

        compression: the one requested, if any.
        """
        if self.engine is None:
            self._table.check_replaceable()
        else:
            self.engine.check(compression)

    @property
    def filters_itself(self) -> bool:
        """Whether `whole` filters inside files whatever the session's settings are."""
        return False

    def with_schema(self, schema: TableSchema) -> Reader:
        """The same reader of the same version, for some of its files or with other columns."""
        reader = copy.copy(self)
        reader.__dict__["schema"] = schema
        return reader

    def select(self, files: Snapshot) -> Reader:
        """The same reader of the same version, for some of its files."""
        return self.with_schema(dataclasses.replace(self.schema, snapshot=files))

    @property
    def _reads_stored(self) -> bool:
        """Whether the session's own reader of the format also reads deleted rows."""
        return False

    def check_indexable(self) -> None:
        """Raise UnsupportedError where an index could tell nothing of the files, or nobody here reads their rows."""
        super().check_indexable()
        if self.feature is not None and not self._reads_stored:
            raise UnsupportedError(
                f'there is nothing to index in "{self.snapshot.root}", which uses {self.feature}: its format reads it, '
                "and skips files by its own statistics; zskip.open(path).index() reads its footers without Spark"
            )

    def frame(self, prune: Callable[[Snapshot], Pruning]) -> DataFrame:
        """The rows as users see them, of which each query reads the files that its filters leave.

        prune: binds the index to files. Warns where the rows are those of another reader, without the index.
        """
        self.check()
        snapshot = self.snapshot
        if self.feature is not None:
            raise UnsupportedError(f'"{snapshot.root}" uses {self.feature}, and the session has no reader for it')
        if self._named is None or _has_columns_of(self._spark, self._named, snapshot):
            return scan(self._spark, self.schema, prune(snapshot))
        warnings.warn(
            f"{self._named.sql} has other columns in the catalog than its files have: it is read as the catalog says, "
            "without the index unless zskip.enable(spark) is on",
            ZskipWarning,
            stacklevel=4,
        )
        return self._spark.table(self._named.sql)

    def _prune_whole(self, prune: Callable[[Snapshot], Pruning]) -> DataFrame:
        """The rows by the format's own reader, of whose files each query reads those that its filters leave."""
        snapshot, whole = self.shown, self.whole()
        return whole if snapshot.reading.opaque else prune_listing(self._spark, whole, prune(snapshot))

    def whole(self) -> DataFrame:
        """The rows in the files as users see them; neither an index nor statistics leave any out."""
        return scan(self._spark, self.schema)

    def _read_uncached(self) -> DataFrameReader:
        """Spark's reader of tables, of whose rows it takes none from its cache: these have no file, and may be old.

        Spark takes cached rows for a plan with the same options only.
        """
        return self._spark.read.option("zskip.uncached", "true")

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows of the files without deleted ones, with the number of each row's partition in the last column.

        Has the columns of files, then the hidden ones that a rewrite must keep. Columns that the files hold under the
        name of a partition column keep what the files say.
        """
        return scan(session, partition_by_ordinal(session, self.schema))

    def check_writable(self, session: SparkSession) -> None:
        """Raise UnsupportedError for a column that cannot be written."""
        check_writable(self.live_rows(session))

    def rows_of_keys(self, session: SparkSession, keys: Sequence[Field]) -> DataFrame:
        """The `live_rows`, in at least the columns of some keys; Spark reads no others of a table's files."""
        return self.live_rows(session)

    def readable_files(self) -> ReadableFiles | None:
        """How the rows of `live_rows` are read without the format's own code; None where they cannot.

        What a file turns out to need beside that, such as columns that it lacks, is found when it is read.
        """
        if not self.files_hold_rows:
            return None
        columns = self.file_columns
        return ReadableFiles(columns=columns, matching=Matching(may_lack=names_without_default(columns)))

    def stored_columns(self, live: DataFrame) -> str | None:
        """The columns of files with the rows of `live_rows`, in Spark's JSON; None where they are those of the frame.

        live: as `live_rows` gives it.
        """
        return None

    def declared_columns(self) -> str | None:
        """The columns that the table declares, with the ids that Arrow gives them in files, in Spark's JSON."""
        declared = self.snapshot.reading.declared
        return None if declared is None else declared[0]

    @property
    def file_columns(self) -> str:
        """The columns of files in Spark's JSON: those that the table declares, or those that Spark infers."""
        return self.declared_columns() or self.schema.data_json

    def count_live_rows(self, stored: Ints) -> Ints:
        """(files,) the rows of each file without deleted ones; stored: (files,) all rows that it holds."""
        deleted = self.count_deleted_rows(self.snapshot)
        return stored if deleted is None else stored - deleted

    def stored_rows(self, files: Bools, settings: Mapping[str, str]) -> DataFrame:
        """All rows in some files, deleted ones too, in a private session; what cannot be read is an error.

        What an index says of a file has to be true of older versions of the table, too, in which its rows were live.
        files: (files,) mask; settings: of that session.
        """
        only = self.select(self.snapshot.select(files))
        return only._read_stored(session_for_files(self._spark, {**WHOLE, **settings}))

    def _read_stored(self, session: SparkSession) -> DataFrame:
        return scan(session, self.schema)

    def numbered_rows(self, keys: Sequence[Field]) -> tuple[DataFrame, str, str]:
        """The rows in the files, the column with the number of each row's file, and that with its own number there.

        Deleted and changed rows may be among them. keys: as in `rows_of_keys`.
        """
        files = self.snapshot
        if self.feature is not None:
            positions = FilePositions([self._storage.uri(path) for path in files.paths])
            stored = self._read_stored(self._spark)
            file, row = free_ordinal(stored.columns), free_name("zskip_row", stored.columns)
            return number_rows(stored, positions, file, row), file, row
        # Each file is a partition of its own.
        separated = dataclasses.replace(
            files,
            partitions=tuple(Partition(directory=str(i)) for i in range(len(files))),
            partition_of=np.arange(len(files), dtype=np.int32),
        )
        frame = Reader.live_rows(self.select(separated), self._spark)
        return frame, ordinal_of(frame), "_metadata.row_index"


class ParquetReader(Reader):
    """Reads directories of Parquet files, which hold all live files of a table and nothing else."""

    def whole(self) -> DataFrame:
        """The rows as Spark itself reads the directory."""
        with translated(f'read "{self._storage.root}"'):
            return self._read_uncached().parquet(self._storage.root)


def _has_columns_of(spark: SparkSession, named: NamedTable, snapshot: Snapshot) -> bool:
    """Check that the catalog has the same columns and partition types as the table's directory."""
    if named.relation is None:
        return True
    fields = spark.table(named.sql).schema.jsonValue()["fields"]
    catalog_types = [(f["name"], read_type(f["type"], f.get("metadata"))) for f in fields]
    return catalog_types == [(field.name, field.type) for field in (*snapshot.fields, *snapshot.partition_fields)]
