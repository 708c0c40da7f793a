"""Iceberg tables through `pyiceberg`, without a JVM: the live files of the newest metadata that lies at the path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zskip.errors import MissingDependencyError, StorageError, TableNotFoundError, UnsupportedError
from zskip.formats import log, staging
from zskip.formats.base import Staged
from zskip.records import Bools, Snapshot
from zskip.storage import FileInfo, Storage

_HOME = "metadata"
_HINT = f"{_HOME}/version-hint.text"
_SUFFIXES = (".metadata.json", ".metadata.json.gz")
_NUMBERED = re.compile(
    r"(?:v(\d+)|(\d+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.gz)?\.metadata\.json(?:\.gz)?"
)
"""What catalogs call a version that is, or was about to be, committed: `v3` or `00003-` and a UUID."""


class IcebergFormat:
    """Reads an Iceberg table by its path."""

    name = "iceberg"
    home = log.HOME

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def snapshot(self) -> Snapshot:
        """The live files of the current snapshot, with the statistics that the manifests have of them.

        Raises TableNotFoundError where there is no metadata, UnsupportedError for what zskip would read wrongly.
        """
        try:
            import pyiceberg  # noqa: F401
        except ImportError as error:
            raise MissingDependencyError(
                f'"{self._storage.root}" is an Iceberg table, for which pyiceberg is not installed; '
                'run: pip install "zskip[iceberg]"'
            ) from error
        from zskip.formats.iceberg_table import read_table

        return read_table(self._storage, newest_metadata(self._storage))

    def check_replaceable(self) -> None:
        """Raise UnsupportedError: a commit to Iceberg is its catalog's, which a path does not tell."""
        raise self._unsupported()

    def stage(self) -> str:
        """Raise UnsupportedError, as `check_replaceable` does."""
        raise self._unsupported()

    def staged_files(self, staged_in: str) -> list[FileInfo]:
        """The data files of a staging directory, in path order."""
        return staging.data_files(self._storage, staged_in)

    def replace(
        self, base: Snapshot, removed: Bools, added: Sequence[Staged], info: Mapping[str, Any] | None = None
    ) -> int:
        """Raise UnsupportedError, as `check_replaceable` does."""
        raise self._unsupported()

    def abort(self, staged_in: str) -> None:
        """Remove the files of a rewrite that was not committed."""
        self._storage.delete(staged_in)

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """None: no rewrite of zskip is ever in an Iceberg table."""
        return None

    def _unsupported(self) -> UnsupportedError:
        return UnsupportedError(
            f'zskip does not rewrite Iceberg tables ("{self._storage.root}"); cluster it with its engine, such as '
            "Spark's rewrite_data_files, and let zskip index it. Nothing was written"
        )


def newest_metadata(storage: Storage) -> str:
    """The path of the newest metadata file: that of `version-hint.text` and what follows it, or the highest version.

    Raises TableNotFoundError where there is none, and UnsupportedError where files alone do not say which one is
    committed.
    """
    names = [file.path.rpartition("/")[2] for file in storage.list_dir(_HOME) if not file.is_dir]
    names = [name for name in names if name.endswith(_SUFFIXES)]
    numbered = {name: int(found[1] or found[2]) for name in names if (found := _NUMBERED.fullmatch(name))}
    highest = max(numbered.values(), default=0)
    hinted = _hinted(storage, names, numbered)
    if hinted is None and not numbered:
        raise TableNotFoundError(
            f'"{storage.root}/{_HOME}" holds no metadata file of an Iceberg table; restore it, or check the path'
        )
    chosen = [name for name, number in numbered.items() if number == highest] if hinted is None else [hinted]
    if len(chosen) > 1:
        raise UnsupportedError(
            f'"{storage.root}/{_HOME}" holds {chosen[0]} and {chosen[1]}, of which only the catalog knows which one '
            "is committed; commit to the table once more, or remove the one that is not"
        )
    if numbered.get(chosen[0], highest) < highest:
        raise UnsupportedError(
            f'"{storage.root}/{_HOME}" holds newer metadata than version-hint.text names ({chosen[0]}), as where a '
            "table is written through another catalog; remove version-hint.text if the newer one is right"
        )
    return f"{_HOME}/{chosen[0]}"


def _hinted(storage: Storage, names: Sequence[str], numbered: Mapping[str, int]) -> str | None:
    """The file that the hint names, or the last of those that come right after it; None without a hint."""
    try:
        hint = storage.read(_HINT).decode().strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise StorageError(f'"{storage.uri(_HINT)}" is damaged; remove it, or write the version into it') from error
    if not hint.isdecimal():
        found = [name for name in (hint, f"{hint}.metadata.json") if name in names]
    else:
        version = int(hint)
        of_hint = {number: name for name, number in numbered.items() if name.startswith("v")}
        while version + 1 in of_hint:
            version += 1
        found = [of_hint[version]] if version in of_hint else []
    if not found:
        raise StorageError(
            f'"{storage.uri(_HINT)}" names the version {hint[:100]!r}, of which there is no metadata file; restore the '
            "file, or write the version that is there into the hint"
        )
    return found[0]
