"""A table's storage, format, session and index, as the methods of `Table` share them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from zskip.errors import IndexFormatError, InputError, StorageError, UnsupportedError, ZskipWarning
from zskip.formats import HOME, IcebergFormat, TableFormat, check_name, open_format
from zskip.formats.iceberg.catalog import IcebergCatalog
from zskip.index import BoundIndex, DamagedIndexError, Index, bind_without_index
from zskip.records import Snapshot
from zskip.storage import Storage, Workers, is_remote, is_same_location, storage_for
from zskip.storage.redirected import RedirectedStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.collect.statistics import FilePositions
    from zskip.spark.jvm.catalog import NamedTable
    from zskip.spark.schema import TableSchema

_TRIES = 5
_log = logging.getLogger("zskip")


def storage_at(path: str, spark: SparkSession | None, options: Mapping[str, str] = MappingProxyType({})) -> Storage:
    """A directory as Spark reaches it, or on a disk or in an object store where there is no session.

    options: of the object store.
    """
    if spark is None:
        return storage_for(path, options)
    from zskip.spark.jvm import hadoop

    return hadoop.storage_for(spark, path)


class Handle:
    """Everything by which a table is reached."""

    def __init__(
        self,
        storage: Storage,
        spark: SparkSession | None,
        index_storage: Storage | None = None,
        format_name: str | None = None,
        catalog: IcebergCatalog | None = None,
        named: NamedTable | None = None,
    ) -> None:
        """format_name: of the table's format; None for the one that lies there; catalog: that of an Iceberg table;
        named: what the session's catalog knows of the table, if it was opened by its name there."""
        check_name(format_name)
        self._catalog = catalog
        self.named = named
        self._alone = False
        self.connected: SparkSession | None = None
        """A session of Spark Connect, which reads files but plans nothing for zskip."""
        self.storage = storage
        self.spark = spark
        self._format_name = format_name
        own = index_storage is None or is_same_location(index_storage.root, storage.root)
        self.index_storage = None if own else index_storage
        """Where the index lies; None for the table itself."""

    @cached_property
    def format(self) -> TableFormat:
        """How the table says what is live and takes a rewrite; what lies at the path is looked at once."""
        return self.format_on(self.storage)

    def format_on(self, storage: Storage) -> TableFormat:
        """The same over another storage of the same table."""
        if self._catalog is not None:
            return IcebergFormat(storage, self._catalog)
        if self.spark is None:
            return open_format(storage, self._format_name, exclusive=self._alone)
        from zskip.spark.engines import has_own_reader

        own = lambda name: has_own_reader(self.spark, name)  # noqa: E731
        return open_format(storage, self._format_name, has_own_reader=own, exclusive=self._alone)

    def alone(self, exclusive: bool) -> Handle:
        """This table, of which the user promises, if `exclusive`, that nobody else rewrites it; raises InputError."""
        if not isinstance(exclusive, bool):
            raise InputError(f"exclusive={exclusive!r}: say True or False")
        if not exclusive:
            return self
        found = Handle(self.storage, self.spark, self.index_storage, self._format_name, self._catalog, self.named)
        found.connected = self.connected
        found._alone = True
        return found

    @property
    def one_rewrite_at_a_time(self) -> bool:
        """Whether only one of a process's threads may rewrite the table at a moment: Hudi has one writer."""
        return self._alone or self.format.name == "hudi" or (self._catalog is not None and self._catalog.in_one_thread)

    @property
    def home(self) -> Storage:
        """The table's storage, with all that is zskip's where the format has its place for it."""
        home = self.format.home
        return self.storage if home == HOME else RedirectedStorage(self.storage, HOME, home)

    def need_spark(self, what: str) -> SparkSession:
        """The session; raises InputError where the table was opened without one, UnsupportedError for Spark Connect."""
        if self.connected is not None:
            raise UnsupportedError(
                f"{what} needs the JVM in which Spark plans, to which a Spark Connect session gives no access: run it "
                "in a classic session (SparkSession.builder.master(...)), or from the command line; "
                'df(where="..."), files(), explain(), info() and index() work here'
            )
        if self.spark is None:
            raise InputError(f'{what} needs Spark: open the table with zskip.table(spark, "{self.storage.root}")')
        return self.spark

    @contextmanager
    def told(self) -> Iterator[Handle]:
        """The table, of whose new files its catalog is told once the body has ended, however far that came."""
        if self.named is None:
            yield self
            return
        from zskip.spark.jvm.catalog import notify_catalog

        spark, named = self.need_spark("this"), self.named
        try:
            yield self
        except BaseException:
            with suppress(Exception):
                notify_catalog(spark, named, self.format.snapshot)
            raise
        notify_catalog(spark, named, self.format.snapshot)

    @property
    def workers(self) -> Workers | None:
        """Spark's executors, where they read many footers faster than this process does."""
        if self.spark is None:
            return None
        from zskip.spark.collect.executors import workers_of

        return workers_of(self.spark, self.storage)

    def storage_at(self, path: str) -> Storage:
        """The storage of another directory, reached as this one is."""
        given = self.storage.options if self.spark is None and is_remote(path) else {}
        return storage_at(path, self.spark, given)

    @property
    def case_sensitive(self) -> bool:
        """Whether the session tells column names apart by case."""
        spark = self.spark or self.connected
        return spark is not None and str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"

    @property
    def merges_schemas(self) -> bool:
        """Whether the session unifies the schemas of files."""
        return self.spark is not None and str(self.spark.conf.get("spark.sql.parquet.mergeSchema")).lower() == "true"

    @property
    def timezone(self) -> str:
        """The session's time zone, UTC without a session."""
        spark = self.spark or self.connected
        return "UTC" if spark is None else str(spark.conf.get("spark.sql.session.timeZone"))

    def snapshot(self) -> Snapshot:
        """The live files; columns and partition values are Spark's own where there is a session."""
        return self.format.snapshot() if self.spark is None else self.schema().snapshot

    def schema(self) -> TableSchema:
        """The live files as Spark sees them; needs a session."""
        from zskip.spark.schema import read_schema

        spark = self.need_spark("this")
        for left in reversed(range(_TRIES)):
            snapshot = self.format.snapshot()
            try:
                return read_schema(spark, snapshot)
            except Exception as error:
                # A file of plain Parquet goes as soon as it is replaced, also from under Spark that reads its footer.
                if not left or self.format.snapshot().paths == snapshot.paths:
                    raise
                _log.info("%s was changed while its schema was read (%s); it is read again", snapshot.root, error)
        raise AssertionError("not reached")

    def everything(self) -> DataFrame:
        """All rows of the live files, of which no index and no statistics leave any out."""
        from zskip.spark.engines import read_whole
        from zskip.spark.scan.relation import scan

        spark = self.need_spark("this")
        if self.format.name == "parquet":
            return spark.read.parquet(self.storage.root)
        schema = self.schema()
        found = read_whole(spark, self.format.name, schema.snapshot)
        return scan(spark, schema) if found is None else found

    def read_by_engine(self, reason: UnsupportedError) -> DataFrame:
        """All rows as the format's own reader in the session gives them, which then does the skipping.

        reason: why zskip does not read the table itself; raised where the session has no such reader.
        """
        if self._catalog is None or not self._catalog.in_session:
            raise reason
        name = self._catalog.table
        warnings.warn(
            f'"{name}" is read by Iceberg itself, without the index of zskip: {reason}', ZskipWarning, stacklevel=4
        )
        return self.need_spark("df()").table(".".join(f"`{part}`" for part in name.split(".")))

    def places(self, snapshot: Snapshot) -> FilePositions:
        """Finds the files of a snapshot by the names that Spark gives them."""
        from zskip.spark.collect.statistics import FilePositions

        return FilePositions([self.storage.uri(path) for path in snapshot.paths])

    def bound_index(self, snapshot: Snapshot, *, warn: bool = True) -> BoundIndex:
        """What is known of a snapshot's files; an index that is missing, damaged or behind costs a warning."""
        if snapshot.reader is not None:
            return self.without_index(snapshot)
        with warnings.catch_warnings():
            if not warn:
                warnings.simplefilter("ignore", ZskipWarning)
            return self._bound_index(snapshot)

    def _bound_index(self, snapshot: Snapshot) -> BoundIndex:
        try:
            index = self.load_index()
        except DamagedIndexError as error:
            self._warn(f"{error}; files are read that could be skipped")
            return self.without_index(snapshot)
        except (IndexFormatError, StorageError) as error:
            self._warn(f"{error}. Until then files are read that could be skipped", advice="")
            return self.without_index(snapshot)
        if index is None:
            bound = self.without_index(snapshot)
        else:
            bound = index.bind(snapshot, case_sensitive=self.case_sensitive)
            if bound.coverage < len(snapshot):
                # Not bound anew: what is damaged costs one warning.
                bound.snapshot = self._seeded(snapshot)
        lack = _lack(bound, has_index=index is not None)
        if lack and not bound.warn.done:
            self._warn(lack)
        return bound

    def load_index(self) -> Index | None:
        """The newest version of the index; None where there is none.

        Raises IndexFormatError where another version of zskip wrote it or it is damaged, StorageError where it cannot
        be read, and InputError where `index_path` holds the index of another table.
        """
        if self.index_storage is None:
            return Index.load(self.home)
        return Index.load(self.index_storage, self.storage.root)

    def check_index(self) -> None:
        """Raise IndexFormatError where another version of zskip wrote the index; a damaged one will be built anew."""
        try:
            self.load_index()
        except DamagedIndexError:
            return

    def without_index(self, snapshot: Snapshot) -> BoundIndex:
        """What the format itself says: the values of the partition columns, and what else its metadata knows."""
        return bind_without_index(self._seeded(snapshot), case_sensitive=self.case_sensitive)

    def _seeded(self, snapshot: Snapshot) -> Snapshot:
        """With what the session's engine can tell of files that the index does not know."""
        if self.spark is None:
            return snapshot
        from zskip.spark.engines import add_statistics

        return add_statistics(self.spark, self.format, snapshot)

    def _warn(self, text: str, advice: str = "; bring the index up to date with Table.index()") -> None:
        warnings.warn(f'"{self.storage.root}": {text}{advice}', ZskipWarning, stacklevel=6)


def _lack(bound: BoundIndex, *, has_index: bool) -> str:
    """Why queries read more files than they could; empty where there is no reason."""
    if not has_index and bound.snapshot.known is None:
        return "there is no index, so that every query reads all files of the partitions it needs"
    behind = int((bound.rows < 0).sum())
    knows = "the index knows" if has_index else "there is no index, and the table's own metadata knows"
    files = f"{behind} of the {len(bound.snapshot)} files"
    return f"{knows} nothing of {files}, which every query therefore reads" if behind else ""
