"""The catalog of an Iceberg table, which alone knows its current metadata and takes commits: pyiceberg's ones."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from zskip.errors import ConflictError, InputError, StorageError, TableNotFoundError, UnsupportedError, ZskipError
from zskip.formats.schema import first_line

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from zskip.formats.iceberg.commit import Rewrite
    from zskip.formats.iceberg.table import Contents

TIMEOUT = 60.0
"""Seconds after which a catalog counts as down."""

_T = TypeVar("_T")


class UnknownCommitError(StorageError):
    """A catalog did not say whether it has committed."""


class Current(NamedTuple):
    """Where a table lies."""

    root: str
    metadata: str
    """URI of its current metadata file."""


class IcebergCatalog(Protocol):
    """A table in the catalog that commits to it."""

    @property
    def table(self) -> str:
        """Its name there."""

    @property
    def in_session(self) -> bool:
        """Whether the Spark session knows the table by that name, too."""

    @property
    def in_one_thread(self) -> bool:
        """Whether it must not be asked by several threads at once."""

    def current(self) -> Current:
        """Where it is now.

        Raises TableNotFoundError where the catalog has no such table, and StorageError where it is down.
        """

    def commit(self, rewrite: Rewrite, read: Callable[[Current], Contents]) -> None:
        """Commit a rewrite, whose files lie where they belong, as one snapshot of the operation `replace`.

        read: gives what is in the table by where it is. Raises ConflictError, and changes nothing, where one of the
        files it removes is no longer live as it was, and UnknownCommitError where it cannot be known whether it is
        committed.
        """


class PyIcebergCatalog:
    """A table of one of pyiceberg's catalogs."""

    def __init__(
        self, table: str, identifier: Sequence[str], open_catalog: Callable[[], Catalog], properties: Mapping[str, Any]
    ) -> None:
        """identifier: namespaces and name in the catalog; properties: those of the catalog."""
        self._table = table
        # SQLite waits for nobody, and may hold a catalog in the memory of one thread.
        self._at_hand = str(properties.get("uri", "")).startswith("sqlite")
        self._identifier = tuple(identifier)
        self._open_catalog = open_catalog

    @classmethod
    def of(cls, table: Table) -> PyIcebergCatalog:
        """The catalog that a table was loaded from."""
        name = ".".join((table.catalog.name, *table.name()))
        return cls(name, table.name(), lambda: table.catalog, table.catalog.properties)

    @property
    def table(self) -> str:
        """Its name, with that of the catalog."""
        return self._table

    @property
    def in_session(self) -> bool:
        """False: a session may have another catalog of that name."""
        return False

    @property
    def in_one_thread(self) -> bool:
        """Whether it is SQLite's."""
        return self._at_hand

    def current(self) -> Current:
        """Where the table is now."""
        table = self._load()
        return Current(root=table.location(), metadata=table.metadata_location)

    def _load(self) -> Table:
        from pyiceberg.exceptions import NoSuchTableError

        with _explained(f'reach or read the catalog of "{self._table}"'):
            try:
                return self._asked(lambda: self._open_catalog().load_table(self._identifier))
            except NoSuchTableError as error:
                raise TableNotFoundError(
                    f'the catalog has no table "{self._table}" (any more); check the name. Nothing was written'
                ) from error

    def _asked(self, work: Callable[[], _T]) -> _T:
        """What a call to the catalog gives; raises TimeoutError where it takes too long."""
        return work() if self._at_hand else call_with_timeout(self._table, work)

    def commit(self, rewrite: Rewrite, read: Callable[[Current], Contents]) -> None:
        """Commit a rewrite upon what the table is now; where another writer was faster, check again and retry."""
        from pyiceberg.exceptions import CommitFailedException

        from zskip.formats.iceberg.commit import check_unchanged, committed
        from zskip.formats.iceberg.replace import ReplaceFiles
        from zskip.formats.iceberg.sweep import TRIES, attempt_id

        for attempt_number in range(TRIES):
            table = self._load()
            contents = reread_contents(read, Current(root=table.location(), metadata=table.metadata_location))
            check_unchanged(contents, rewrite)
            attempt = ReplaceFiles(table, contents, rewrite, attempt_id(rewrite.name, attempt_number))
            try:
                with _explained(f'write manifests of "{self._table}"'):
                    updates, requirements = attempt.prepare()
            except ZskipError:
                attempt.discard()
                raise
            try:
                self._asked(lambda t=table, u=updates, r=requirements: t._do_commit(u, r))  # type: ignore[misc]
                return
            except CommitFailedException:
                attempt.discard()
            except Exception as error:
                if self._landed(rewrite.name, committed):
                    return
                raise UnknownCommitError(
                    f'the catalog of "{self._table}" failed in the middle of a commit ({first_line(error)}); see '
                    "whether its current snapshot is zskip's before you call again. No row is lost either way"
                ) from error
        raise ConflictError(
            f'"{self._table}" is written to over and over at this moment; nothing was committed, try again'
        )

    def _landed(self, name: str, committed: Callable[[Any, str], object]) -> bool:
        try:
            return committed(self._load().metadata, name) is not None
        except ZskipError:
            return False


def reread_contents(read: Callable[[Current], Contents], current: Current) -> Contents:
    """What is in a table; raises ConflictError where another writer has made of it what zskip does not read."""
    try:
        return read(current)
    except UnsupportedError as error:
        raise ConflictError(f"another writer changed the table meanwhile: {error}") from error


def load_configured_catalog(table: str) -> PyIcebergCatalog | None:
    """The table of a name such as "catalog.db.table", where pyiceberg's configuration knows the catalog.

    Raises InputError where that lacks something.
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

    def opened() -> Catalog:
        try:
            return load_catalog(name, **{key: str(value) for key, value in properties.items()})
        except (ValueError, KeyError, ImportError) as error:
            raise InputError(
                f'pyiceberg cannot open the catalog "{name}": {first_line(error)}; complete it in .pyiceberg.yaml or '
                f"in PYICEBERG_CATALOG__{name.upper()}__... variables. Nothing was written"
            ) from error

    return PyIcebergCatalog(table, identifier, opened, properties)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise whatever a catalog's client raises as an error of ours."""
    try:
        yield
    except ZskipError:
        raise
    except Exception as error:
        raise StorageError(
            f"cannot {what} ({type(error).__name__}: {first_line(error)[:300]}); see that the catalog runs and that "
            "its properties are right. Nothing was committed"
        ) from error


def call_with_timeout(
    table: str, work: Callable[[], _T], thread_of: Callable[..., threading.Thread] = threading.Thread
) -> _T:
    """What a call to a catalog gives; raises TimeoutError after a while, since clients may wait for ever."""
    found: list[_T] = []
    failed: list[BaseException] = []

    def call() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failed.append(error)

    thread = thread_of(target=call, name=f"zskip catalog of {table}", daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(f"no answer within {TIMEOUT:g} seconds")
    return found[0]
