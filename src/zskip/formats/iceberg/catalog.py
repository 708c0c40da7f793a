"""The catalog of an Iceberg table, which alone knows its current metadata and takes commits; pyiceberg's catalogs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.schema import first_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import CreateTableTransaction, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from zskip.formats.iceberg.commit import Rewrite
    from zskip.formats.iceberg.replace import ReplaceFiles
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


class Draft(Protocol):
    """A transaction that makes a table together with its first rows; until its commit nobody sees any of it."""

    @property
    def current(self) -> CurrentTable:
        """The location and metadata that the table will have."""

    def commit(self, contents: Contents, rewrite: Rewrite) -> None:
        """Make the table with the files of a rewrite; raises as `IcebergCatalog.commit` does."""


class IcebergCatalog(Protocol):
    """A table in the catalog that takes its commits."""

    @property
    def table(self) -> str:
        """The table's name in the catalog."""

    @property
    def in_session(self) -> bool:
        """Whether the Spark session knows the table by that name, too."""

    @property
    def in_one_thread(self) -> bool:
        """Whether only one thread at a time may call it."""

    def above(self) -> IcebergCatalog:
        """The table whose name this one's extends by one part."""

    def current(self) -> CurrentTable:
        """The table's current location.

        Raises TableNotFoundError if the catalog has no such table, and StorageError if it is unavailable.
        """

    def draft(self, definition: TableDefinition) -> NewTable:
        """Begin to make the table, which changes nothing yet.

        Raises ColumnError, InputError and UnsupportedError for columns and partitions that no such table can have, and
        StorageError if the catalog refuses.
        """

    def commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Commit a rewrite, whose files are in place, as one snapshot of the operation `replace`.

        read: reads the table's contents at a location. Raises ConflictError, and changes nothing, if one of the removed
        files is no longer live and unchanged, and UnknownCommitError if it is unknown whether the rewrite was
        committed.
        """


class NewTable:
    """A table that its catalog gets with the first commit."""

    def __init__(self, catalog: IcebergCatalog, draft: Draft) -> None:
        self.catalog = catalog
        """Where the table will be."""
        self._draft: Draft | None = draft
        """None after the commit."""

    @property
    def table(self) -> str:
        """The table's name in the catalog."""
        return self.catalog.table

    @property
    def in_session(self) -> bool:
        """Whether the catalog is one of the session's."""
        return self.catalog.in_session

    @property
    def in_one_thread(self) -> bool:
        """Whether only one thread at a time may call the catalog."""
        return self.catalog.in_one_thread

    def above(self) -> IcebergCatalog:
        """As its catalog has it."""
        return self.catalog.above()

    def current(self) -> CurrentTable:
        """The draft, or after the commit the table."""
        return self.catalog.current() if self._draft is None else self._draft.current

    def draft(self, definition: TableDefinition) -> NewTable:
        """Begin anew."""
        return self.catalog.draft(definition)

    def commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Make the table with its first rows; later commits are the catalog's."""
        if self._draft is None:
            self.catalog.commit(rewrite, read)
            return
        self._draft.commit(read(self._draft.current), rewrite)
        self._draft = None


class PyIcebergCatalog:
    """A table of one of pyiceberg's catalogs."""

    def __init__(
        self, table: str, identifier: Sequence[str], open_catalog: Callable[[], Catalog], properties: Mapping[str, Any]
    ) -> None:
        """identifier: namespaces and name in the catalog; properties: of the catalog."""
        self._table = table
        # SQLite does not wait for locks, and may hold a catalog in the memory of one thread.
        self._is_sqlite = str(properties.get("uri", "")).startswith("sqlite")
        self._identifier = tuple(identifier)
        self._open_catalog = open_catalog
        self._properties = properties

    @classmethod
    def of(cls, table: Table) -> PyIcebergCatalog:
        """The catalog that a table was loaded from."""
        name = ".".join((table.catalog.name, *table.name()))
        return cls(name, table.name(), lambda: table.catalog, table.catalog.properties)

    @property
    def table(self) -> str:
        """The table's name, including the catalog's."""
        return self._table

    @property
    def in_session(self) -> bool:
        """False: a session may have another catalog of that name."""
        return False

    @property
    def in_one_thread(self) -> bool:
        """Whether the catalog is SQLite's."""
        return self._is_sqlite

    def above(self) -> PyIcebergCatalog:
        """The table whose name this one's extends by one part."""
        name = self._table.rpartition(".")[0]
        return PyIcebergCatalog(name, self._identifier[:-1], self._open_catalog, self._properties)

    def current(self) -> CurrentTable:
        """The table's current location."""
        table = self._load()
        return CurrentTable(root=table.location(), metadata=table.metadata_location)

    def draft(self, definition: TableDefinition) -> NewTable:
        """Begin to make the table where the catalog's warehouse puts it."""
        if definition.partition_by:
            raise UnsupportedError(
                f"partition_by={list(definition.partition_by)}: zskip makes Iceberg tables with partitions in catalogs "
                f"of the session (spark.sql.catalog.<name>), whose Iceberg computes the values; "
                f'"{self._table}" is in one of pyiceberg. Leave partition_by out: clustering columns do its work. '
                "Nothing was written"
            )
        with _translating_errors(f'create "{self._table}" in its catalog'):
            transaction = self._call(
                lambda: self._open_catalog().create_table_transaction(self._identifier, definition.columns)
            )
        return NewTable(self, _PyIcebergDraft(self, transaction))

    def _load(self) -> Table:
        from pyiceberg.exceptions import NoSuchTableError

        with _translating_errors(f'reach or read the catalog of "{self._table}"'):
            try:
                return self._call(lambda: self._open_catalog().load_table(self._identifier))
            except NoSuchTableError as error:
                raise TableNotFoundError(
                    f'the catalog has no table "{self._table}" (any more); check the name. Nothing was written'
                ) from error

    def _call(self, request: Callable[[], _T]) -> _T:
        """The result of a call to the catalog; raises TimeoutError if it takes too long."""
        return request() if self._is_sqlite else call_with_timeout(self._table, request)

    def commit(self, rewrite: Rewrite, read: Callable[[CurrentTable], Contents]) -> None:
        """Commit a rewrite on top of the current table; if another writer was faster, check again and retry."""
        from pyiceberg.exceptions import CommitFailedException

        from zskip.formats.iceberg.commit import check_unchanged
        from zskip.formats.iceberg.replace import NoChanges, ReplaceFiles
        from zskip.formats.iceberg.sweep import TRIES, attempt_id

        for attempt_number in range(TRIES):
            table = self._load()
            contents = reread_contents(read, CurrentTable(root=table.location(), metadata=table.metadata_location))
            check_unchanged(contents, rewrite)
            attempt = ReplaceFiles(NoChanges(table), contents, rewrite, attempt_id(rewrite.name, attempt_number))
            updates, requirements = self.prepare(attempt)
            try:
                self.send(lambda t=table, u=updates, r=requirements: t._do_commit(u, r), rewrite)  # type: ignore[misc]
                return
            except CommitFailedException:
                attempt.discard()
        raise ConflictError(f'"{self._table}" is being written to constantly; nothing was committed, try again')

    def prepare(self, attempt: ReplaceFiles) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
        """Write the manifests of a commit; they are gone where that fails."""
        try:
            with _translating_errors(f'write manifests of "{self._table}"'):
                return attempt.prepare()
        except ZskipError:
            attempt.discard()
            raise

    def send(self, commit: Callable[[], object], rewrite: Rewrite) -> None:
        """Ask the catalog for a commit; raises pyiceberg's errors where nothing was committed."""
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        from zskip.formats.iceberg.commit import find_committed

        try:
            self._call(commit)
        except CommitFailedException:
            raise
        except Exception as error:
            # A request that was sent twice may find its own table.
            if self._is_committed(rewrite.name, find_committed):
                return
            if isinstance(error, TableAlreadyExistsError):
                raise
            raise UnknownCommitError(
                f'the catalog of "{self._table}" failed in the middle of a commit ({first_line(error)}); see '
                "whether its current snapshot is zskip's before you call again. No row is lost either way"
            ) from error

    def _is_committed(self, name: str, find_committed: Callable[[Any, str], object]) -> bool:
        try:
            return find_committed(self._load().metadata, name) is not None
        except ZskipError:
            return False


class _PyIcebergDraft:
    """A table that a catalog of pyiceberg gets with its first rows."""

    def __init__(self, catalog: PyIcebergCatalog, transaction: CreateTableTransaction) -> None:
        self._catalog = catalog
        self._transaction = transaction
        metadata = transaction.table_metadata
        self.current = CurrentTable(root=metadata.location, metadata="", draft=metadata.model_dump_json().encode())

    def commit(self, contents: Contents, rewrite: Rewrite) -> None:
        """Make the table, if nobody was faster."""
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
        from pyiceberg.table.update import AssertCreate

        from zskip.formats.iceberg.replace import ReplaceFiles
        from zskip.formats.iceberg.sweep import attempt_id

        table = self._transaction._table
        attempt = ReplaceFiles(self._transaction, contents, rewrite, attempt_id(rewrite.name, 0))
        updates = (*self._transaction._updates, *self._catalog.prepare(attempt)[0])
        try:
            self._catalog.send(lambda: table._do_commit(updates, (AssertCreate(),)), rewrite)
        except (CommitFailedException, TableAlreadyExistsError) as error:
            attempt.discard()
            raise made_meanwhile(self._catalog.table) from error


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
