"""The transaction of Delta's log for a rewrite, and the checks that deltalake leaves to its caller."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as Directory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zskip.errors import StorageError, UnsupportedError
from zskip.formats.base import BatchId, StagedFile
from zskip.formats.commit_checks import check_required, check_rows, null_error, read_staged_footers, target_path
from zskip.formats.delta.columns import Path
from zskip.formats.delta.stats import columns_with_statistics, file_statistics
from zskip.formats.delta.values import relative_path
from zskip.formats.hive import DEFAULT_PARTITION, parse_directory
from zskip.formats.staging import look_at_all
from zskip.records import ColumnNames, Snapshot
from zskip.storage import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

MARK = "zskip"
"""The key of zskip's entry in a commit's information."""
_SEARCHED_VERSIONS = 100
"""Versions that are searched for the latest rewrite."""
REWRITE, APPEND, OVERWRITE = "Rewrite", "Append", "Overwrite"
"""The kinds of transactions: the same rows in other files, new rows, or new rows in place of all."""
_OPERATION_PARAMETERS = ("curve", "build", "where")


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A file of a rewrite as the log will describe it."""

    staged: StagedFile
    target: str
    """Its path in the table."""
    partition: Mapping[str, str | None]
    rows: int
    statistics: str
    """JSON."""


def describe_files(
    storage: Storage,
    old: Snapshot,
    added: Sequence[StagedFile],
    configuration: Mapping[str, Any],
    by: Sequence[str],
    required: Sequence[str] | None = None,
    stored: Mapping[Path, Path] | None = None,
) -> list[NewFile]:
    """Describe the staged files for the log.

    old: the files that they replace; required: for an append, the columns without nulls; stored: the paths of columns
    in the files, None for those of the table. Raises CorruptFileError for a file that cannot be read, ConflictError if
    their rows in each partition do not match the old ones, and InputError for a null in a required column.
    """
    files = sorted(added, key=lambda file: file.path)
    index = read_staged_footers(storage, old, files, ColumnNames(paths=stored))
    statistics = file_statistics(index, columns_with_statistics(old.fields, configuration, by), stored or {})
    new_files = []
    for file, count, text in zip(files, index.rows.tolist(), statistics, strict=True):
        new_files.append(
            NewFile(
                staged=file,
                # Delta takes partition values from the log alone, and VACUUM of Delta on Spark deletes live files
                # whose paths the log spells differently than Spark does.
                target=target_path(file.directory, file.name),
                partition={
                    name if stored is None else stored[name,][0]: text
                    for name, text in parse_partition(file.directory).items()
                },
                rows=count,
                statistics=text,
            )
        )
    if required is None:
        check_rows(old, ((file.staged.directory, file.rows) for file in new_files))
    else:
        partitions = [parse_partition(file.directory) for file in files]
        check_required(index, [name for name in required if all(name not in values for values in partitions)])
        for name in required:
            if any(values.get(name, "") is None for values in partitions):
                raise null_error(name)
    return new_files


def parse_partition(directory: str) -> dict[str, str | None]:
    """Parse the partition values from a directory that `directory_of` has built.

    >>> parse_partition("r=a%3Db/n=__HIVE_DEFAULT_PARTITION__")
    {'r': 'a=b', 'n': None}
    """
    return {name: None if text == DEFAULT_PARTITION else text for name, text in parse_directory(directory)}


def commit_transaction(
    table: DeltaTable,
    storage: Storage,
    old: Snapshot,
    new: Sequence[NewFile],
    rewrite: str,
    info: Mapping[str, Any],
    *,
    mode: str = REWRITE,
    batch: BatchId | None = None,
) -> None:
    """Commit the version that follows the one in which the table was opened, or raise deltalake's error.

    mode: REWRITE, APPEND or OVERWRITE; batch: the number of an append's rows in the log.
    """
    from deltalake import CommitProperties, PostCommitHookProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    now, changes = int(time.time() * 1000), mode != REWRITE
    removes = [
        RemoveAction(f.path, changes, now, f.size, parse_partition(old.partitions[f.partition].directory)) for f in old
    ]
    adds = []
    for file, stat in zip(new, look_at_all(storage, [file.target for file in new]), strict=True):
        if stat is None or stat.size != file.staged.size:
            raise StorageError(f'"{storage.uri(file.target)}" is gone; nothing was committed, call again')
        adds.append(
            AddAction(
                path=file.target,
                size=stat.size,
                partition_values=file.partition,
                modification_time=stat.mtime_ms,
                data_change=changes,
                stats=file.statistics,
            )
        )
    parameters = {"zOrderBy": json.dumps(list(info.get("by", ()))), "predicate": "[]", "auto": "false"}
    if changes:
        parameters = {"mode": mode, "partitionBy": json.dumps(table.metadata().partition_columns)}
    parameters |= {name: str(info[name]) for name in _OPERATION_PARAMETERS if info.get(name) is not None}
    options: dict[str, Any] = {
        "mode": "append",
        "schema": table.schema(),
        "partition_by": table.metadata().partition_columns,
        "commit_properties": CommitProperties(
            custom_metadata={
                "operationParameters": parameters,
                "readVersion": old.version,
                "isBlindAppend": mode == APPEND,
                MARK: {"rewrite": rewrite, **info},
            },
            # With deltalake's own retries, two stale rewrites would both be committed, and rows doubled.
            max_commit_retries=0,
            app_transactions=None if batch is None else [Transaction(batch.application, batch.version)],
        ),
        "post_commithook_properties": PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
    }
    entry = _rehearse([*removes, *adds], options)
    spelled = _spell_as_logged(table, entry, removes, adds, old.root)
    if mode == OVERWRITE:
        # deltalake names the operation by its own argument, with which it would remove files itself.
        spelled = [_name_overwrite(line) for line in spelled]
    if spelled == entry:
        table.create_write_transaction([*removes, *adds], **options)
    else:
        lines = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in spelled)
        storage.write(f"_delta_log/{table.version() + 1:020d}.json", lines.encode())


def _rehearse(actions: list[AddAction | RemoveAction], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The actions that deltalake would write to the log, from a commit to an empty scratch table."""
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(prefix="zskip-") as directory:
        scratch = DeltaTable.create(directory, options["schema"], partition_by=options["partition_by"])
        scratch.create_write_transaction(actions, **options)
        lines = (Directory(directory) / "_delta_log" / f"{1:020d}.json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _spell_as_logged(
    table: DeltaTable,
    entry: Sequence[dict[str, Any]],
    removes: Sequence[RemoveAction],
    adds: Sequence[AddAction],
    root: str,
) -> list[dict[str, Any]]:
    """Spell each removed file's path in a log entry as it was spelled when it was added.

    deltalake escapes paths by its own rules, but engines match removed files by the text of their paths: a file that is
    spelled differently, such as `r=%C3%A9/` for Spark's `r=é/`, would stay live, and its rows be doubled. Raises
    UnsupportedError if a file of the rewrite would be missing from the entry.
    """
    logged = {relative_path(path, root): path for path in pa.table(table.get_add_actions())["path"].to_pylist()}
    spelled = []
    for line in entry:
        if "remove" in line:
            path = relative_path(line["remove"]["path"], root)
            line = {"remove": line["remove"] | {"path": logged.get(path, path)}}
        spelled.append(line)
    for kind, actions in (("remove", {logged[a.path] for a in removes}), ("add", {a.path for a in adds})):
        paths = {line[kind]["path"] for line in spelled if kind in line}
        for path in sorted(actions ^ paths):
            raise UnsupportedError(f'deltalake cannot write the path "{path}" into a log; "{root}" is as it was')
    return spelled


def _name_overwrite(line: dict[str, Any]) -> dict[str, Any]:
    if "commitInfo" not in line:
        return line
    parameters = line["commitInfo"]["operationParameters"] | {"mode": OVERWRITE}
    return {"commitInfo": line["commitInfo"] | {"operationParameters": parameters}}


def committed_version(table: DeltaTable, rewrite: str, since: int) -> int | None:
    """The version that a rewrite has committed after version `since`; None if it has committed none.

    Raises StorageError if the log no longer shows it.
    """
    newer = table.version() - since
    history = table.history(newer) if newer > 0 else []
    for entry in history:
        if _read_info(entry).get("rewrite") == rewrite:
            return int(entry["version"])
    if len(history) < newer:
        raise StorageError(f"the log of {table.table_uri} no longer tells what followed version {since}")
    return None


def read_last_rewrite(table: DeltaTable) -> tuple[int, Mapping[str, Any]] | None:
    """The version and info of the latest rewrite among the last versions."""
    for entry in table.history(_SEARCHED_VERSIONS):
        if info := _read_info(entry):
            return int(entry["version"]), info
    return None


def _read_info(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """zskip's entry in a commit's information; empty if zskip did not commit it."""
    info = entry.get(MARK, {})
    if not info and MARK in str(entry.get("userMetadata")):
        with contextlib.suppress(ValueError, AttributeError):
            info = json.loads(entry["userMetadata"]).get(MARK, {})
    info = json.loads(info) if isinstance(info, str) else info
    return info if isinstance(info, dict) else {}
