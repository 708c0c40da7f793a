"""How a table is reached: its storage, session, format, catalog, and where its index lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import zskip.rows  # noqa: F401 (lets notebooks show results as tables)
from zskip.errors import InputError, UnsupportedError
from zskip.formats import HOME, IcebergFormat, TableFormat, check_name, open_format
from zskip.formats.iceberg.catalog import IcebergCatalog
from zskip.storage import Storage, Workers, is_remote, is_same_location, storage_for
from zskip.storage.redirected import RedirectedStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.jvm.catalog import NamedTable


def storage_at(path: str, spark: SparkSession | None, options: Mapping[str, str] = MappingProxyType({})) -> Storage:
    """Open a directory through Spark, or without a session on a disk or in an object store.

    options: of the object store.
    """
    if spark is None:
        return storage_for(path, options)
    from zskip.spark.jvm import hadoop

    return hadoop.storage_for(spark, path)


@dataclass(frozen=True, eq=False)
class Handle:
    """How a table is reached; the verbs are functions that take one."""

    storage: Storage
    spark: SparkSession | None
    index_storage: Storage | None = None
    """Where the index lies; None for the table itself."""
    format_name: str | None = None
    """None for the format that lies there."""
    catalog: IcebergCatalog | None = None
    """The catalog of an Iceberg table."""
    catalog_table: NamedTable | None = None
    """The table in the session's catalog, if it was opened by its name there."""
    connected: SparkSession | None = None
    """A session of Spark Connect, which reads files but gives no access to its JVM."""
    exclusive: bool = False
    """Whether the user promises that nobody else rewrites the table."""
    branch: str | None = None
    """The branch that takes new rows; None for the table's own."""

    def __post_init__(self) -> None:
        """Check the format's name, and keep no second storage for an index inside the table."""
        check_name(self.format_name)
        if self.index_storage is not None and is_same_location(self.index_storage.root, self.storage.root):
            object.__setattr__(self, "index_storage", None)

    @cached_property
    def format(self) -> TableFormat:
        """The table's format, detected once."""
        return self.format_on(self.storage)

    def format_on(self, storage: Storage) -> TableFormat:
        """The table's format over another storage of the same table."""
        if self.catalog is not None:
            return IcebergFormat(storage, self.catalog, self.branch)
        if self.spark is None:
            return open_format(storage, self.format_name, exclusive=self.exclusive)
        from zskip.spark.formats import own_log

        spark = self.spark
        own = lambda name: own_log(spark, name, storage.root)  # noqa: E731
        return open_format(storage, self.format_name, own_log=own, exclusive=self.exclusive)

    def exclusively(self, exclusive: bool) -> Handle:
        """The table with the user's promise, if `exclusive`, that nobody else rewrites it; raises InputError."""
        if not isinstance(exclusive, bool):
            raise InputError(f"exclusive={exclusive!r}: say True or False")
        return replace(self, exclusive=True) if exclusive else self

    def on_branch(self, branch: str | None) -> Handle:
        """The table with a branch in place of its own; raises InputError, and UnsupportedError where none can be."""
        if branch is None:
            return self
        if not isinstance(branch, str) or not branch:
            raise InputError(f"branch={branch!r} is no name of a branch")
        if self.catalog is None:
            raise UnsupportedError(
                f'branch="{branch}": only Iceberg tables in a catalog, opened by their names there, have branches, and '
                f'"{self.storage.root}" was opened as a table of the format {self.format.name} without one; leave '
                "branch out. Nothing was written"
            )
        return replace(self, branch=branch)

    @property
    def home(self) -> Storage:
        """The table's storage, with zskip's own files where the format has a place for them."""
        home = self.format.home
        return self.storage if home == HOME else RedirectedStorage(self.storage, HOME, home)

    def need_spark(self, what: str) -> SparkSession:
        """The session; raises InputError where the table was opened without one, UnsupportedError for Spark Connect."""
        if self.connected is not None:
            raise UnsupportedError(
                f"{what} needs the JVM in which Spark plans, and a Spark Connect session gives no access to it: run it "
                "in a classic session (SparkSession.builder.master(...)), or from the command line; "
                'df(where="..."), files(), explain(), info() and index() work here'
            )
        if self.spark is None:
            raise InputError(f'{what} needs Spark: open the table with zskip.table(spark, "{self.storage.root}")')
        return self.spark

    @property
    def workers(self) -> Workers | None:
        """Spark's executors, where they read many footers faster than this process does."""
        if self.spark is None:
            return None
        from zskip.spark.collect.executors import workers_of

        return workers_of(self.spark, self.storage)

    def storage_at(self, path: str) -> Storage:
        """The storage of another directory, reached as this one is."""
        options = self.storage.options if self.spark is None and is_remote(path) else {}
        return storage_at(path, self.spark, options)
