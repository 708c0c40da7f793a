"""The catalog of an Iceberg table, which alone knows its current metadata and takes commits; pyiceberg's catalogs."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.schema import first_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CreateTableTransaction, Table, Transaction
    from pyiceberg.table.update import TableRequirement

    from zskip.formats.iceberg.commit import Rewrite
    from zskip.formats.iceberg.table import Contents

TIMEOUT = 60.0
"""Seconds after which a catalog counts as unavailable."""

_T = TypeVar("_T")


class UnknownCommitError(StorageError):
    """A catalog did not confirm whether it has committed."""


class CurrentTable(NamedTuple):
    """The location of a table and of its current metadata."""

    root: str
    metadata: str
    """The URI of its current metadata file; empty for a table that its catalog does not have yet."""
    draft: bytes | None = None
    """The metadata, in JSON, of a table that its catalog does not have yet."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TableDefinition:
    """A new table."""

    columns: pa.Schema
    schema_json: str
    """The same columns in Spark's JSON."""
    partition_by: tuple[str, ...]
    """Columns, and transforms of columns, as Spark spells them."""
    case_sensitive: bool


class IcebergCatalog:
    """A table in the catalog that takes its commits; a draft is one that the catalog gets with the first commit."""

    table: str
    """The table's name, including its catalog."""
    in_session = False
    """Whether the Spark session knows the table by that name, too."""
    in_one_thread = False
    """Whether only one thread at a time may call it."""
    _draft: CurrentTable | None = None
    """Of a draft, until its commit."""
    _transaction: Any = None
    """What makes the table of a draft."""

    def above(self) -> IcebergCatalog:
        """The table whose name this one's extends by one part."""
        raise NotImplementedError

    def current(self) -> CurrentTable:
        """The table's current location, or that which a draft will have.

        Raises TableNotFoundError if the catalog has no such table, and StorageError if it is unavailable.
        """
        return self._draft or self._locate()

    def draft(self, definition: TableDefinition) -> IcebergCatalog:
        """Begin to make the table together with its first rows; until the commit nobody sees any of it.

        Raises ColumnError, InputError and UnsupportedError for columns and partitions that no such table can have, and
        StorageError if the catalog refuses.
        """
        catalog = copy.copy(self)
        catalog._transaction, catalog._draft = self._begin(definition)
        return catalog

    def commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Commit a rewrite, whose files are in place, as one snapshot of its mode's operation.

        read: reads the table's contents at a location. Raises ConflictError, and changes nothing, if one of the removed
        files is no longer live and unchanged, or another writer made the table of a draft, and UnknownCommitError if
        it is unknown whether the rewrite was committed.
        """
        if self._draft is None:
            self._commit(rewrite, read)
            return
        self._create(self._transaction, rewrite, read(self._draft), lambda: self.is_committed(rewrite, read))
        self._draft = None

    def is_committed(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> bool:
        """Whether the catalog's table has the snapshot of a rewrite; False where that cannot be read."""
        from zskip.formats.iceberg.commit import find_committed

        try:
            return find_committed(read(self._locate()).metadata, rewrite.name) is not None
        except ZskipError:
            return False

    def _locate(self) -> CurrentTable:
        raise NotImplementedError

    def _begin(self, definition: TableDefinition) -> tuple[Any, CurrentTable]:
        raise NotImplementedError

    def _commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        raise NotImplementedError

    def _create(self, transaction: Any, rewrite: Rewrite, contents: Contents, is_committed: Callable[[], bool]) -> None:
        raise NotImplementedError


class PyIcebergCatalog(IcebergCatalog):
    """A table of one of pyiceberg's catalogs."""

    def __init__(
        self, table: str, identifier: Sequence[str], open_catalog: Callable[[], Catalog], properties: Mapping[str, Any]
    ) -> None:
        """identifier: namespaces and name in the catalog; properties: of the catalog."""
        self.table = table
        # SQLite does not wait for locks, and may hold a catalog in the memory of one thread.
        self.in_one_thread = str(properties.get("uri", "")).startswith("sqlite")
        self._identifier = tuple(identifier)
        self._open_catalog = open_catalog
        self._properties = properties

    @classmethod
    def of(cls, table: Table) -> PyIcebergCatalog:
        """The catalog that a table was loaded from."""
        name = ".".join((table.catalog.name, *table.name()))
        return cls(name, table.name(), lambda: table.catalog, table.catalog.properties)

    def above(self) -> PyIcebergCatalog:
        """The table whose name this one's extends by one part."""
        name = self.table.rpartition(".")[0]
        return PyIcebergCatalog(name, self._identifier[:-1], self._open_catalog, self._properties)

    def _locate(self) -> CurrentTable:
        table = self._load()
        return CurrentTable(root=table.location(), metadata=table.metadata_location)

    def _begin(self, definition: TableDefinition) -> tuple[CreateTableTransaction, CurrentTable]:
        if definition.partition_by:
            raise UnsupportedError(
                f"partition_by={list(definition.partition_by)}: zskip makes Iceberg tables with partitions in catalogs "
                f"of the session (spark.sql.catalog.<name>), whose Iceberg computes the values; "
                f'"{self.table}" is in one of pyiceberg. Leave partition_by out: clustering columns do its work. '
                "Nothing was written"
            )
        with _translating_errors(f'create "{self.table}" in its catalog'):
            transaction = self._call(
                lambda: self._open_catalog().create_table_transaction(self._identifier, definition.columns)
            )
        metadata = transaction.table_metadata
        draft = CurrentTable(root=metadata.location, metadata="", draft=metadata.model_dump_json().encode())
        return transaction, draft

    def _load(self) -> Table:
        from pyiceberg.exceptions import NoSuchTableError

        with _translating_errors(f'reach or read the catalog of "{self.table}"'):
            try:
                return self._call(lambda: self._open_catalog().load_table(self._identifier))
            except NoSuchTableError as error:
                raise TableNotFoundError(
                    f'the catalog has no table "{self.table}" (any more); check the name. Nothing was written'
                ) from error

    def _call(self, request: Callable[[], _T]) -> _T:
        """The result of a call to the catalog; raises TimeoutError if it takes too long."""
        return request() if self.in_one_thread else call_with_timeout(self.table, request)

    def _commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Commit a rewrite on top of the current table; if another writer was faster, check again and retry."""
        from pyiceberg.exceptions import CommitFailedException

        from zskip.formats.iceberg.commit import check_unchanged
        from zskip.formats.iceberg.replace import NoChanges
        from zskip.formats.iceberg.sweep import TRIES

        for attempt in range(TRIES):
            table = self._load()
            contents = reread_contents(read, CurrentTable(root=table.location(), metadata=table.metadata_location))
            check_unchanged(contents, rewrite)
            try:
                self._send(
                    NoChanges(table), rewrite, contents, lambda: self.is_committed(rewrite, read), attempt=attempt
                )
                return
            except CommitFailedException:
                continue
        raise ConflictError(f'"{self.table}" is being written to constantly; nothing was committed, try again')

    def _create(
        self,
        transaction: CreateTableTransaction,
        rewrite: Rewrite,
        contents: Contents,
        is_committed: Callable[[], bool],
    ) -> None:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
        from pyiceberg.table.update import AssertCreate

        try:
            self._send(transaction, rewrite, contents, is_committed, (AssertCreate(),))
        except (CommitFailedException, TableAlreadyExistsError) as error:
            raise made_meanwhile(self.table) from error

    def _send(
        self,
        transaction: Transaction,
        rewrite: Rewrite,
        contents: Contents,
        is_committed: Callable[[], bool],
        requirements: tuple[TableRequirement, ...] = (),
        attempt: int = 0,
    ) -> None:
        """Write the manifests of a commit, and ask the catalog for it.

        requirements: in place of those of the manifests. Raises pyiceberg's errors where nothing was committed.
        """
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        from zskip.formats.iceberg.replace import ReplaceFiles
        from zskip.formats.iceberg.sweep import attempt_id

        snapshot = ReplaceFiles(transaction, contents, rewrite, attempt_id(rewrite.name, attempt))
        try:
            with _translating_errors(f'write manifests of "{self.table}"'):
                updates, own_requirements = snapshot.prepare()
        except ZskipError:
            snapshot.discard()
            raise
        updates = (*transaction._updates, *updates)
        try:
            self._call(lambda: transaction._table._do_commit(updates, requirements or own_requirements))
        except CommitFailedException:
            snapshot.discard()
            raise
        except Exception as error:
            # A request that was sent twice may find its own table.
            if is_committed():
                return
            if isinstance(error, TableAlreadyExistsError):
                snapshot.discard()
                raise
            raise unknown_commit(self.table, first_line(error)) from error


def unknown_commit(table: str, reason: str) -> UnknownCommitError:
    """The error for a catalog that failed when it was asked to commit."""
    return UnknownCommitError(
        f'the catalog of "{table}" failed in the middle of a commit ({reason}); see whether its current snapshot is '
        "zskip's before you call again. No row is lost either way"
    )


def made_meanwhile(table: str) -> ConflictError:
    """The error for a new table whose name was taken."""
    return ConflictError(
        f'another writer has made the table "{table}" meanwhile; nothing was committed. Write with mode="append" or '
        'mode="overwrite", or to another name'
    )


def reread_contents(read: Callable[[CurrentTable], Contents], current: CurrentTable) -> Contents:
    """The table's contents; raises ConflictError if another writer's change made the table unreadable for zskip."""
    try:
        return read(current)
    except UnsupportedError as error:
        raise ConflictError(f"another writer changed the table meanwhile: {error}") from error


def load_configured_catalog(table: str) -> PyIcebergCatalog | None:
    """The table for a name such as "catalog.db.table", if pyiceberg's configuration has the catalog.

    Raises InputError if the configuration is incomplete.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config
    except ImportError:
        return None
    name, *identifier = table.split(".")
    properties = Config().get_catalog_config(name)
    if properties is None:
        return None

    def open_catalog() -> Catalog:
        try:
            return load_catalog(name, **{key: str(value) for key, value in properties.items()})
        except (ValueError, KeyError, ImportError) as error:
            raise InputError(
                f'pyiceberg cannot open the catalog "{name}": {first_line(error)}; complete it in .pyiceberg.yaml or '
                f"in PYICEBERG_CATALOG__{name.upper()}__... variables. Nothing was written"
            ) from error

    return PyIcebergCatalog(table, identifier, open_catalog, properties)


@contextlib.contextmanager
def _translating_errors(action: str) -> Iterator[None]:
    """Raise every error of a catalog's client as one of zskip's errors."""
    try:
        yield
    except ZskipError:
        raise
    except Exception as error:
        raise StorageError(
            f"cannot {action} ({type(error).__name__}: {first_line(error)[:300]}); see that the catalog runs and that "
            "its properties are right. Nothing was committed"
        ) from error


def call_with_timeout(
    table: str, request: Callable[[], _T], thread_of: Callable[..., threading.Thread] = threading.Thread
) -> _T:
    """The result of a call to a catalog; raises TimeoutError after a while, since clients may wait forever."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(request())
        except BaseException as error:
            errors.append(error)

    thread = thread_of(target=call, name=f"zskip catalog of {table}", daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {TIMEOUT:g} seconds")
    return results[0]
