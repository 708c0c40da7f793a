"""One transaction of Delta's log for a rewrite: all that deltalake would take on trust is checked before."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zskip.errors import StorageError, UnsupportedError
from zskip.formats.base import StagedFile
from zskip.formats.commit_checks import check_rows, read_staged_footers, target_path
from zskip.formats.delta.stats import columns_with_statistics, file_statistics
from zskip.formats.delta.values import relative_path
from zskip.formats.hive import DEFAULT_PARTITION, directory_values
from zskip.records import Snapshot
from zskip.storage import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

MARK = "zskip"
"""Key of a commit's information under which zskip keeps its own."""
_LOOKED_BACK = 100
"""Versions in which the latest rewrite is looked for."""
_SAID = ("curve", "build", "where")


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A file of a rewrite as the log will have it."""

    staged: StagedFile
    target: str
    """Its path in the table."""
    partition: Mapping[str, str | None]
    rows: int
    statistics: str
    """JSON."""


def describe(
    storage: Storage,
    old: Snapshot,
    added: Sequence[StagedFile],
    configuration: Mapping[str, Any],
    by: Sequence[str],
) -> list[NewFile]:
    """Look at the staged files and say what the log will say of them.

    old: the files that they replace. Raises CorruptFileError for one that cannot be read, and ConflictError where they
    do not hold as many rows in each partition as the old ones.
    """
    files = sorted(added, key=lambda file: file.path)
    index = read_staged_footers(storage, old, files)
    statistics = file_statistics(index, columns_with_statistics(old.fields, configuration, by))
    new = []
    for file, count, text in zip(files, index.rows.tolist(), statistics, strict=True):
        name = file.path.rpartition("/")[2]
        new.append(
            NewFile(
                staged=file,
                # Delta takes partition values from the log alone, and the VACUUM of Delta on Spark deletes live files
                # that the log spells in another way than Spark does.
                target=target_path(file.directory, name),
                partition=partition_of(file.directory),
                rows=count,
                statistics=text,
            )
        )
    check_rows(old, ((file.staged.directory, file.rows) for file in new))
    return new


def partition_of(directory: str) -> dict[str, str | None]:
    """The partition values that `directory_of` made a directory of.

    >>> partition_of("r=a%3Db/n=__HIVE_DEFAULT_PARTITION__")
    {'r': 'a=b', 'n': None}
    """
    return {name: None if text == DEFAULT_PARTITION else text for name, text in directory_values(directory)}


def transact(
    table: DeltaTable, storage: Storage, old: Snapshot, new: Sequence[NewFile], rewrite: str, info: Mapping[str, Any]
) -> None:
    """Commit the version that follows upon the one in which the table was opened, or raise what deltalake raises."""
    from deltalake import CommitProperties, PostCommitHookProperties
    from deltalake.transaction import AddAction, RemoveAction

    now = int(time.time() * 1000)
    removes = [
        RemoveAction(f.path, False, now, f.size, partition_of(old.partitions[f.partition].directory)) for f in old
    ]
    adds = []
    for file in new:
        found = storage.stat(file.target)
        if found is None or found.size != file.staged.size:
            raise StorageError(f'"{storage.uri(file.target)}" is gone; nothing was committed, call again')
        adds.append(
            AddAction(
                path=file.target,
                size=found.size,
                partition_values=file.partition,
                modification_time=found.mtime_ms,
                data_change=False,
                stats=file.statistics,
            )
        )
    parameters = {"zOrderBy": json.dumps(list(info.get("by", ()))), "predicate": "[]", "auto": "false"}
    parameters |= {name: str(info[name]) for name in _SAID if info.get(name) is not None}
    options: dict[str, Any] = {
        "mode": "append",
        "schema": table.schema(),
        "partition_by": table.metadata().partition_columns,
        "commit_properties": CommitProperties(
            custom_metadata={
                "operationParameters": parameters,
                "readVersion": old.version,
                "isBlindAppend": False,
                MARK: {"rewrite": rewrite, **info},
            },
            # With retries of its own two stale rewrites would both be committed, and rows be doubled.
            max_commit_retries=0,
        ),
        "post_commithook_properties": PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
    }
    entry = _rehearse([*removes, *adds], options)
    spelled = _spelled_as_logged(table, entry, removes, adds, old.root)
    if spelled == entry:
        table.create_write_transaction([*removes, *adds], **options)
    else:
        lines = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in spelled)
        storage.write(f"_delta_log/{table.version() + 1:020d}.json", lines.encode())


def _rehearse(actions: list[AddAction | RemoveAction], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What deltalake would write into the log: the same is first committed to an empty table that is thrown away."""
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(prefix="zskip-") as directory:
        scratch = DeltaTable.create(directory, options["schema"], partition_by=options["partition_by"])
        scratch.create_write_transaction(actions, **options)
        lines = (Path(directory) / "_delta_log" / f"{1:020d}.json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _spelled_as_logged(
    table: DeltaTable,
    entry: Sequence[dict[str, Any]],
    removes: Sequence[RemoveAction],
    adds: Sequence[AddAction],
    root: str,
) -> list[dict[str, Any]]:
    """An entry of the log in which each file that goes is called as it was when it came.

    deltalake escapes paths by its own rules, but engines find the file to remove by the text of its path: one that is
    spelled otherwise, such as `r=%C3%A9/` for the `r=é/` of Spark, would stay live, and its rows be doubled. Raises
    UnsupportedError where a file of the rewrite would be missing from the entry.
    """
    logged = {relative_path(path, root): path for path in pa.table(table.get_add_actions())["path"].to_pylist()}
    spelled = []
    for line in entry:
        if "remove" in line:
            path = relative_path(line["remove"]["path"], root)
            line = {"remove": line["remove"] | {"path": logged.get(path, path)}}
        spelled.append(line)
    for kind, actions in (("remove", {logged[a.path] for a in removes}), ("add", {a.path for a in adds})):
        found = {line[kind]["path"] for line in spelled if kind in line}
        for path in sorted(actions ^ found):
            raise UnsupportedError(f'deltalake cannot write the path "{path}" into a log; "{root}" is as it was')
    return spelled


def committed_version(table: DeltaTable, rewrite: str, since: int) -> int | None:
    """The version that a rewrite has committed after version `since`; None where it has committed none.

    Raises StorageError where the log no longer tells.
    """
    newer = table.version() - since
    history = table.history(newer) if newer > 0 else []
    for entry in history:
        if _mark(entry).get("rewrite") == rewrite:
            return int(entry["version"])
    if len(history) < newer:
        raise StorageError(f"the log of {table.table_uri} no longer tells what followed version {since}")
    return None


def last_rewrite(table: DeltaTable) -> tuple[int, Mapping[str, Any]] | None:
    """Version of the latest rewrite among the last versions, and what it said of itself."""
    for entry in table.history(_LOOKED_BACK):
        if said := _mark(entry):
            return int(entry["version"]), said
    return None


def _mark(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """What zskip wrote into a commit's information; nothing where it did not commit it."""
    found = entry.get(MARK, {})
    if not found and MARK in str(entry.get("userMetadata")):
        with contextlib.suppress(ValueError, AttributeError):
            found = json.loads(entry["userMetadata"]).get(MARK, {})
    found = json.loads(found) if isinstance(found, str) else found
    return found if isinstance(found, dict) else {}
