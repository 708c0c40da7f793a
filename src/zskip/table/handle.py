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
from zskip.formats.iceberg.format import MAIN
from zskip.storage import Storage, Workers, is_remote, is_same_location, storage_for
from zskip.storage.redirected import RedirectedStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.jvm.catalog import NamedTable


_WAP_BRANCH, _WAP_ID = "spark.wap.branch", "spark.wap.id"
"""The settings by which a session writes Iceberg tables for an audit (write-audit-publish), and reads what it wrote."""


def classic(spark: SparkSession | None) -> SparkSession | None:
    """The session, if there is one that gives access to its JVM."""
    if spark is None:
        return None
    from zskip.spark.jvm.compat import is_connected

    return None if is_connected(spark) else spark


def storage_at(path: str, spark: SparkSession | None, options: Mapping[str, str] = MappingProxyType({})) -> Storage:
    """Open a directory through Spark, or without a classic session on a disk or in an object store.

    options: of the object store.
    """
    session = classic(spark)
    if session is None:
        return storage_for(path, options)
    from zskip.spark.jvm import hadoop

    return hadoop.storage_for(session, path)


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
    """A session of Spark Connect, which runs jobs but gives no access to its JVM; this process reaches the table."""
    own_address: str | None = None
    """What that session calls the table, if not by the root of its storage."""
    exclusive: bool = False
    """Whether the user promises that nobody else rewrites the table."""
    branch: str | None = None
    """The branch that is read and takes new rows; None for main, unless the session selects another."""

    def __post_init__(self) -> None:
        """Check the format's name, and keep no second storage for an index inside the table."""
        check_name(self.format_name)
        if self.index_storage is not None and is_same_location(self.index_storage.root, self.storage.root):
            object.__setattr__(self, "index_storage", None)

    @cached_property
    def format(self) -> TableFormat:
        """The table's format, detected once."""
        storage = self.storage
        if self.catalog is not None or self.branch is not None:
            return IcebergFormat(storage, self.catalog, self.branch)
        if self.spark is None:
            table = open_format(storage, self.format_name, exclusive=self.exclusive, open_storage=self.storage_at)
            if isinstance(table, IcebergFormat):
                table.has_own_reader = self.connected is not None
            return table
        from zskip.spark.formats import own_log

        spark = self.spark
        own = lambda name: own_log(spark, name, storage.root)  # noqa: E731
        return open_format(
            storage, self.format_name, own_log=own, exclusive=self.exclusive, open_storage=self.storage_at
        )

    def exclusively(self, exclusive: bool) -> Handle:
        """The table with the user's promise, if `exclusive`, that nobody else rewrites it; raises InputError."""
        if not isinstance(exclusive, bool):
            raise InputError(f"exclusive={exclusive!r}: give True or False")
        return replace(self, exclusive=True) if exclusive else self

    def on_branch(self, branch: str | None) -> Handle:
        """The table with a branch in place of its own; raises InputError, and UnsupportedError where none can be."""
        if branch is None:
            return self
        if not isinstance(branch, str) or not branch:
            raise InputError(f"branch={branch!r} is not the name of a branch")
        if self.catalog is None:
            raise UnsupportedError(
                f'branch="{branch}": only Iceberg tables in a catalog, opened by their names there, have branches, and '
                f'"{self.storage.root}" was opened as a table of the format {self.format.name} without one; leave '
                "branch out. Nothing was written"
            )
        if self.branch not in (None, branch):
            raise InputError(
                f'branch="{branch}": the table was opened on its branch "{self.branch}"; leave branch out, or open the '
                "table by its own name. Nothing was written"
            )
        return replace(self, branch=branch)

    @property
    def is_on_main(self) -> bool:
        """Whether new rows go to main, which the index and the journal describe."""
        return self.branch in (None, MAIN)

    def check_on_main(self) -> None:
        """Raise UnsupportedError for a branch: rewrites and the index are about main."""
        if not self.is_on_main:
            assert self.catalog is not None, "only tables in catalogs are opened on branches"
            raise UnsupportedError(
                f"zskip rewrites and indexes the main branch only, and the table was opened on its branch "
                f'"{self.branch}"; open it as "{self.catalog.table}". Nothing was written'
            )

    def for_rewrites(self, exclusive: bool) -> Handle:
        """The table with the promise of `exclusively`; raises UnsupportedError for a branch."""
        self.check_on_main()
        return self.exclusively(exclusive)

    def for_queries(self) -> Handle:
        """The table on the branch that Spark reads: that of `spark.wap.branch`, if the table has it."""
        branch = self._session_setting(_WAP_BRANCH)
        if branch is None or self.branch is not None or not isinstance(self.format, IcebergFormat):
            return self
        return replace(self, branch=branch) if self.format.audits_writes(branch) else self

    def for_new_rows(self, branch: str | None = None) -> Handle:
        """The table on the branch that takes new rows, where Spark would put them.

        branch: the one that the user names. Raises InputError for two different branches, and UnsupportedError where
        the session stages rows for an audit.
        """
        handle = self.on_branch(branch)
        audited, audit_id = self._session_setting(_WAP_BRANCH), self._session_setting(_WAP_ID)
        if (audited or audit_id) is None or not isinstance(handle.format, IcebergFormat):
            return handle
        if not handle.format.audits_writes():
            return handle
        if audit_id is not None:
            raise UnsupportedError(
                f'{_WAP_ID} is "{audit_id}", and zskip does not stage the rows of one commit for an audit of '
                f'"{self.storage.root}" (write.wap.enabled=true); set {_WAP_BRANCH} instead, unset {_WAP_ID}, or write '
                "with Spark. Nothing was written"
            )
        if handle.branch not in (None, audited):
            raise InputError(
                f'the rows are for the branch "{handle.branch}", and {_WAP_BRANCH} is "{audited}"; unset it, or leave '
                "the branch out. Nothing was written"
            )
        return handle.on_branch(audited)

    def _session_setting(self, name: str) -> str | None:
        return None if self.session is None else self.session.conf.get(name, None) or None

    @property
    def home(self) -> Storage:
        """The table's storage, with zskip's own files where the format has a place for them."""
        home = self.format.home
        return self.storage if home == HOME else RedirectedStorage(self.storage, HOME, home)

    @property
    def session(self) -> SparkSession | None:
        """What runs Spark's jobs, if anything does."""
        return self.spark or self.connected

    def need_session(self, what: str) -> SparkSession:
        """What runs Spark's jobs; raises InputError where the table was opened without a session."""
        if self.session is None:
            raise InputError(f'{what} needs Spark: open the table with zskip.table(spark, "{self.storage.root}")')
        return self.session

    def need_spark(self, what: str) -> SparkSession:
        """The classic session; raises as `need_session`, and UnsupportedError for Spark Connect."""
        if self.connected is not None:
            raise UnsupportedError(
                f"{what} needs the JVM in which Spark plans, and a Spark Connect session gives no access to it: run it "
                "in a classic session (SparkSession.builder.master(...)), or from the command line"
            )
        return self.need_session(what)

    def in_session(self, session: SparkSession) -> Handle:
        """The table in a copy of its session."""
        return replace(self, spark=session) if self.connected is None else replace(self, connected=session)

    def attach(self, spark: SparkSession, path: object = None) -> Handle:
        """The table with a session of Spark Connect, if it has no classic one; path: as the caller names the table."""
        if self.spark is not None:
            return self
        address = path.rstrip("/") if isinstance(path, str) and "://" in path else None
        return replace(self, connected=spark, own_address=address if self.catalog is None else self.catalog.table)

    @property
    def address(self) -> str:
        """What a connected session calls the table: a path, or a name in a catalog."""
        return self.own_address or self.storage.root

    def beside(self, storage: Storage) -> Handle:
        """A table at another place, reached by the same session."""
        return Handle(storage, self.spark, connected=self.connected)

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
