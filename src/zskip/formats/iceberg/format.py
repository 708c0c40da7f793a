"""Iceberg tables through `pyiceberg`: the live files of the newest metadata, and one snapshot for a rewrite."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zskip.errors import MissingDependencyError, StorageError, TableNotFoundError, UnsupportedError
from zskip.formats import staging
from zskip.formats.base import REPLACE, BatchId, RowRules, StagedFile
from zskip.formats.iceberg.catalog import (
    CurrentTable,
    IcebergCatalog,
    UnknownCommitError,
    reread_contents,
)
from zskip.formats.table_format import TableFormat
from zskip.records import Snapshot
from zskip.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from zskip.formats.iceberg.table import Contents

_HOME = "metadata"
_HINT = f"{_HOME}/version-hint.text"
_SUFFIXES = (".metadata.json", ".metadata.json.gz")
_NUMBERED = re.compile(
    r"(?:v(\d+)|(\d+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.gz)?\.metadata\.json(?:\.gz)?"
)
"""File names of versions that are, or were about to be, committed: `v3`, or `00003-` and a UUID."""

_REWRITE = re.compile("[0-9a-f]{32}")
MAIN = "main"
"""The branch that a table has from its first snapshot on."""
_AUDITED = "write.wap.enabled"
"""The property of tables that take rows by write-audit-publish."""
_MOST_KEPT = 10_000
"""Files of a table of which what was read is kept for the next call, which then reads new manifests only."""
_UNKNOWN_FOR = 600
"""Seconds in which an unconfirmed commit may still arrive."""


class IcebergFormat(TableFormat):
    """Reads an Iceberg table by its path, or by its catalog, to which it also commits."""

    name = "iceberg"
    log_directory = _HOME
    has_own_reader = False
    """Whether a session reads the rows of a table without a catalog, with Iceberg's deletes."""

    def __init__(self, storage: Storage, catalog: IcebergCatalog | None = None, branch: str | None = None) -> None:
        """branch: whose files are live, and which takes new rows; each call raises InputError if there is none."""
        super().__init__(storage)
        self._catalog = catalog
        self._named_branch = branch
        self._branch = None if branch == MAIN else branch
        self._last: Contents | None = None

    @property
    def in_one_thread(self) -> bool:
        """Whether the table's catalog takes one thread at a time, as SQLite's does."""
        return self._catalog is not None and self._catalog.in_one_thread

    @property
    def catalog(self) -> IcebergCatalog | None:
        """The table's catalog; None for a table that is named by its path."""
        return self._catalog

    def snapshot(self) -> Snapshot:
        """The live files of the current snapshot, with the manifests' statistics.

        Raises TableNotFoundError if there is no metadata, and UnsupportedError for tables that zskip would read
        wrongly, and that are not in a catalog of the session, whose Iceberg reads them.
        """
        return self._contents().snapshot()

    def _contents(self, current: CurrentTable | None = None, known: Contents | None = None) -> Contents:
        """The table's contents, now or at a location from its catalog, also where only the session reads its rows.

        known: earlier contents.
        """
        check_installed(self._storage.root)
        from zskip.formats.iceberg.table import read_contents

        has_own_reader = self.has_own_reader or (self._catalog is not None and self._catalog.in_session)
        known = known or self._last
        contents = read_contents(self._storage, self._metadata(current), known, has_own_reader=has_own_reader)
        self._last = contents if len(contents.files) <= _MOST_KEPT else None
        return contents

    def _metadata(self, current: CurrentTable | None = None) -> TableMetadata:
        """The table's metadata, now or at a location from its catalog, with the head of the branch as current."""
        from zskip.formats.iceberg.protocol import select_branch

        name = self._storage.root if self._catalog is None else self._catalog.table
        return select_branch(self._table_metadata(current), self._branch, name)

    @property
    def branch(self) -> str | None:
        """The branch whose files are live, as the caller names it; None for main."""
        return self._named_branch

    def audits_writes(self, branch: str | None = None) -> bool:
        """Whether sessions may write for an audit; branch: and whether the table has this branch."""
        from zskip.formats.iceberg.protocol import has_branch

        metadata = self._table_metadata()
        is_enabled = metadata.properties.get(_AUDITED, "").lower() == "true"
        return is_enabled and (branch is None or has_branch(metadata, branch))

    def _table_metadata(self, current: CurrentTable | None = None) -> TableMetadata:
        from zskip.formats.iceberg.table import PathResolver, parse_metadata, read_metadata

        if self._catalog is None:
            return read_metadata(self._storage, newest_metadata(self._storage))
        current = current or self._catalog.current()
        if current.draft is not None:
            return parse_metadata(self._storage, "", current.draft)
        return read_metadata(self._storage, PathResolver(self._storage, current.root).relative(current.metadata))

    def check_replaceable(self) -> None:
        """Raise UnsupportedError if the catalog is unknown, or a rewrite would lose something."""
        catalog = self._need_catalog()
        contents = self._contents()
        from zskip.formats.iceberg.commit import check_rewritable

        check_rewritable(contents, in_session=catalog.in_session)

    def unsupported_feature(self) -> str | None:
        """The feature for which only Iceberg in the session reads or commits a rewrite, if any."""
        if self._catalog is None or not self._catalog.in_session:
            return None
        from zskip.formats.iceberg.commit import find_unsupported_feature

        return find_unsupported_feature(self._contents())

    def stage(self) -> str:
        """Create a hidden directory as other formats do; raises UnsupportedError if the catalog is unknown."""
        self._need_catalog()
        return super().stage()

    def check_appendable(self, *, overwrites: bool = False) -> None:
        """Raise UnsupportedError if the catalog is unknown, or zskip would not write new rows as Iceberg does."""
        catalog = self._need_catalog()
        contents = self._contents()
        from zskip.formats.iceberg.commit import check_appendable

        check_appendable(contents, in_session=catalog.in_session)

    def check_partitions(self, texts: Sequence[str], *, case_sensitive: bool) -> None:
        """Raise InputError unless partition fields, as Spark spells them, are the table's own."""
        from zskip.formats.iceberg.partitions import check_partition_terms

        check_partition_terms(texts, self._metadata(), self._need_catalog().table, case_sensitive=case_sensitive)

    def row_rules(self) -> RowRules:
        """The required columns, the ids of columns in files, and what the partition values are."""
        from zskip.formats.iceberg.commit import read_row_rules

        return read_row_rules(self._contents(), self._need_catalog().table.partition(".")[0])

    def stored_columns(self) -> str:
        """The columns of new files with the ids and types that Iceberg gives them, in Spark's JSON."""
        from zskip.formats.iceberg.values import stored_schema

        return stored_schema(self._metadata().schema())

    def last_batch(self, application: str) -> int | None:
        """The number of the latest batch in the summaries of the current snapshot and of those before it."""
        from zskip.formats.iceberg.commit import find_last_batch

        return find_last_batch(self._metadata(), application)

    def _commit(
        self,
        old: Snapshot,
        added: Sequence[StagedFile],
        info: Mapping[str, Any],
        mode: str,
        batch: BatchId | None = None,
    ) -> int | None:
        """Move the files to their targets, where no reader looks for them, and commit them by one snapshot."""
        if mode != REPLACE:
            self.check_appendable()
        catalog = self._need_catalog()
        known: Contents | None = None

        def read(current: CurrentTable) -> Contents:
            nonlocal known
            known = self._contents(current, known)
            return known

        contents = reread_contents(read, catalog.current())
        from zskip.formats.iceberg.commit import BatchHeldError, find_committed, prepare_rewrite
        from zskip.formats.iceberg.sweep import find_attempts

        staging_directory = added[0].path.rpartition("/")[0] if added else self.stage()
        name = staging_directory.rpartition("/")[2]
        rewrite = prepare_rewrite(contents, old, added, name, info, mode=mode, batch=batch, branch=self._branch)
        moves = [(file.staged.path, file.target) for file in rewrite.new]
        note: dict[str, Any] = {"at_ms": int(time.time() * 1000), "table": str(contents.metadata.table_uuid)}
        staging.move(self._storage, staging_directory, moves, note)
        try:
            catalog.commit(rewrite, read)
        except BatchHeldError:
            return None
        except UnknownCommitError:
            note["since"] = int(time.time())
            targets = [target for _, target in moves]
            staging.write_note(self._storage, staging_directory, targets, note, overwrite=True)
            raise
        metadata = self._metadata()
        committed = find_committed(metadata, rewrite.name)
        for path in find_attempts(self._storage, metadata, rewrite.name, note["at_ms"]):
            self._storage.delete(path)
        staging.end(self._storage, staging_directory)
        return 0 if committed is None else committed.sequence_number or 0

    def find_remains(self, staging_directory: str) -> list[str] | None:
        """The files that were moved, and the manifests and metadata of attempts.

        Everything stays if the table cannot be read or its catalog is unknown, and for a while if a commit may still
        arrive. So do files of another table that was made, or may have been, at the same place.
        """
        return staging.find_remains(self._storage, staging_directory, self._find_dead, ("at_ms", "since"))

    def _find_dead(self, rewrite: str, note: Mapping[str, Any]) -> list[str]:
        from zskip.formats.iceberg.commit import find_committed
        from zskip.formats.iceberg.sweep import find_attempts
        from zskip.formats.iceberg.table import files_of_all_snapshots

        if self._catalog is None:
            raise StorageError("its catalog knows what is committed")
        if time.time() - note["since"] < _UNKNOWN_FOR:
            raise StorageError("its commit may still arrive")
        if not _REWRITE.fullmatch(rewrite):
            raise StorageError("no rewrite has that name; delete it by hand")
        current = self._catalog.current()
        metadata = self._table_metadata(current)
        self._check_owner(note.get("table"), metadata, is_new=current.draft is not None)
        attempts = find_attempts(self._storage, metadata, rewrite, note["at_ms"])
        if not note["targets"] or find_committed(metadata, rewrite) is not None:
            return attempts
        named = files_of_all_snapshots(self._storage, metadata)
        return [*(path for path in note["targets"] if path not in named), *attempts]

    def _check_owner(self, owner: str | None, metadata: TableMetadata, *, is_new: bool) -> None:
        """Raise StorageError if files may be those of another table, which now has another name or none.

        owner: the id of the table for which they were moved; None for files of older versions of zskip.
        """
        from zskip.formats.iceberg.sweep import may_have_metadata

        is_same = str(metadata.table_uuid) == owner or (owner is None and not is_new)
        if not is_same and may_have_metadata(self._storage, owner):
            raise StorageError(
                "its files may be those of another table that was made there; delete them if no catalog has that one"
            )

    def last_operation(self) -> tuple[int, Mapping[str, Any]] | None:
        """The version and info of zskip's latest rewrite in the table's history."""
        check_installed(self._storage.root)
        from zskip.formats.iceberg.commit import read_last_rewrite

        return read_last_rewrite(self._metadata())

    def _need_catalog(self) -> IcebergCatalog:
        if self._catalog is None:
            raise UnsupportedError(
                f'zskip does not rewrite the Iceberg table "{self._storage.root}" by its path, since a commit is its '
                'catalog\'s: open it by its name there, as in zskip.table(spark, "catalog.db.table"), or cluster it '
                "with its engine, such as Spark's rewrite_data_files, and let zskip index it. Nothing was written"
            )
        return self._catalog


def check_installed(table: str) -> None:
    """Raise MissingDependencyError if pyiceberg is not installed."""
    try:
        import pyiceberg  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f'"{table}" is an Iceberg table, for which pyiceberg is not installed; run: pip install "zskip[iceberg]"'
        ) from error


def newest_metadata(storage: Storage) -> str:
    """The path of the newest metadata file: the one that `version-hint.text` leads to, or the highest version.

    Raises TableNotFoundError if there is none, and UnsupportedError if the files alone do not show which one is
    committed.
    """
    names = [file.path.rpartition("/")[2] for file in storage.list_dir(_HOME) if not file.is_dir]
    names = [name for name in names if name.endswith(_SUFFIXES)]
    numbered = {name: int(match[1] or match[2]) for name in names if (match := _NUMBERED.fullmatch(name))}
    highest = max(numbered.values(), default=0)
    hinted = _resolve_hint(storage, names, numbered)
    if hinted is None and not numbered:
        raise TableNotFoundError(
            f'"{storage.root}/{_HOME}" holds no metadata file of an Iceberg table; restore it, or check the path'
        )
    candidates = [name for name, number in numbered.items() if number == highest] if hinted is None else [hinted]
    if len(candidates) > 1:
        raise UnsupportedError(
            f'"{storage.root}/{_HOME}" holds {candidates[0]} and {candidates[1]}, and only the catalog knows which '
            "one is committed; commit to the table once more, or remove the one that is not"
        )
    if numbered.get(candidates[0], highest) < highest:
        raise UnsupportedError(
            f'"{storage.root}/{_HOME}" holds newer metadata than version-hint.text names ({candidates[0]}), as where a '
            "table is written through another catalog; remove version-hint.text if the newer one is right"
        )
    return f"{_HOME}/{candidates[0]}"


def _resolve_hint(storage: Storage, names: Sequence[str], numbered: Mapping[str, int]) -> str | None:
    """The file that the hint names, or the last of its direct successors; None without a hint."""
    try:
        hint = storage.read(_HINT).decode().strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise StorageError(f'"{storage.uri(_HINT)}" is damaged; remove it, or write the version into it') from error
    if not hint:
        return None  # as Iceberg reads it: a writer died before it wrote the version
    if not hint.isdecimal():
        files = [name for name in (hint, f"{hint}.metadata.json") if name in names]
    else:
        version = int(hint)
        hint_files = {number: name for name, number in numbered.items() if name.startswith("v")}
        while version + 1 in hint_files:
            version += 1
        files = [hint_files[version]] if version in hint_files else []
    if not files:
        raise StorageError(
            f'"{storage.uri(_HINT)}" names the version {hint[:100]!r}, of which there is no metadata file; restore the '
            "file, or write the version that is there into the hint"
        )
    return files[0]
