"""Entries of Delta's log: those of a rewrite, an append or an overwrite, and what they say of new files."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa

from zskip.errors import StorageError, UnsupportedError
from zskip.formats.base import APPEND, OVERWRITE, REPLACE, BatchId, StagedFile
from zskip.formats.commit_checks import check_required, check_rows, null_error, read_staged_footers, target_path
from zskip.formats.delta.columns import Path
from zskip.formats.delta.opening import open_table
from zskip.formats.delta.stats import columns_with_statistics, file_statistics
from zskip.formats.delta.values import relative_path
from zskip.formats.hive import DEFAULT_PARTITION, parse_directory
from zskip.formats.schema import first_line
from zskip.formats.staging import look_at_all
from zskip.records import ColumnNames, Snapshot
from zskip.storage import Storage
from zskip.version import __version__

if TYPE_CHECKING:
    from deltalake import DeltaTable

MARK = "zskip"
"""The key of zskip's entry in a commit's information."""
_SEARCHED_VERSIONS = 100
"""Versions that are searched for the latest rewrite."""
_OPERATION_PARAMETERS = ("curve", "build", "where")
_CHECKPOINT_INTERVAL = 10
"""Commits between two checkpoints, as in Delta Lake."""
_IN_CHECKPOINTS = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "invariants",
    "timestampNtz",
}
"""Features that add nothing to the log which a checkpoint by deltalake might leave out."""
_LOG = logging.getLogger("zskip.delta")
_UNESCAPED = "/!$&'()+,:;=@"
"""What deltalake leaves in paths as it is, beside letters, digits and what is never escaped in a URI."""


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


def add_actions(storage: Storage, new: Sequence[NewFile], *, changes: bool) -> list[dict[str, Any]]:
    """The lines of the log for new files, which are in place; changes: whether their rows are new."""
    lines = []
    for file, stat in zip(new, look_at_all(storage, [file.target for file in new]), strict=True):
        if stat is None or stat.size != file.staged.size:
            raise StorageError(f'"{storage.uri(file.target)}" is gone; nothing was committed, call again')
        add = {
            "path": file.target,
            "partitionValues": file.partition,
            "size": stat.size,
            "modificationTime": stat.mtime_ms,
            "dataChange": changes,
            "stats": file.statistics,
        }
        lines.append({"add": add})
    return lines


def commit_info(
    operation: str, parameters: Mapping[str, str], rewrite: str, info: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
    """The line of the log that says who commits what."""
    line = {
        "timestamp": int(time.time() * 1000),
        "operation": operation,
        "operationParameters": parameters,
        **more,
        "engineInfo": f"zskip/{__version__}",
        MARK: {"rewrite": rewrite, **info},
    }
    return {"commitInfo": line}


def write_entry(storage: Storage, version: int, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write a version of the log; raises FileExistsError where another writer has committed it."""
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    storage.write(f"_delta_log/{version:020d}.json", text.encode())


def commit_transaction(
    table: DeltaTable,
    storage: Storage,
    old: Snapshot,
    new: Sequence[NewFile],
    rewrite: str,
    info: Mapping[str, Any],
    *,
    mode: str = REPLACE,
    batch: BatchId | None = None,
) -> None:
    """Commit the version that follows the one in which the table was opened.

    mode: REPLACE, APPEND or OVERWRITE; batch: the number of an append's rows in the log. Raises FileExistsError, or
    deltalake's error, where another writer has committed that version.
    """
    changes, partition_by = mode != REPLACE, table.metadata().partition_columns
    parameters = {"mode": (APPEND if mode == REPLACE else mode).capitalize(), "partitionBy": json.dumps(partition_by)}
    if not changes:
        parameters |= {"zOrderBy": json.dumps(list(info.get("by", ()))), "predicate": "[]", "auto": "false"}
    parameters |= {name: str(info[name]) for name in _OPERATION_PARAMETERS if info.get(name) is not None}
    about = commit_info("WRITE", parameters, rewrite, info, readVersion=old.version, isBlindAppend=mode == APPEND)
    removes = _remove_actions(table, old, changes=changes)
    lines = [about, *removes, *add_actions(storage, new, changes=changes)]
    if batch is not None:
        lines.append({"txn": {"appId": batch.application, "version": batch.version}})
    escaped = [quote(file.path, _UNESCAPED, errors="surrogateescape") for file in old]
    is_spelled_alike = escaped == [line["remove"]["path"] for line in removes]
    if storage.kind != "objects":
        write_entry(storage, table.version() + 1, lines)
    elif is_spelled_alike and (mode != OVERWRITE or not storage.is_exclusive()):
        # Its history calls an overwrite an append.
        _commit_by_deltalake(table, lines)
    elif storage.is_exclusive():
        write_entry(storage, table.version() + 1, lines)
    else:
        raise UnsupportedError(
            f'the log of "{storage.root}" spells paths otherwise than deltalake, which alone commits to this store one '
            "writer after another (it knows no conditional requests, or Hadoop is older than 3.4.2); write with Delta "
            "Lake. Nothing was committed"
        )


def _remove_actions(table: DeltaTable, old: Snapshot, *, changes: bool) -> list[dict[str, Any]]:
    """The lines of the log that remove files, each by its path as the log spells it.

    Engines match removed files by the text of their paths: one that is spelled differently, such as `r=%C3%A9/` for
    Spark's `r=é/`, would stay live, and its rows be doubled.
    """
    now_ms = int(time.time() * 1000)
    texts = pa.table(table.get_add_actions())["path"].to_pylist() if len(old) else []
    logged = {relative_path(text, old.root): text for text in texts}
    return [
        {
            "remove": {
                "path": logged[file.path],
                "dataChange": changes,
                "deletionTimestamp": now_ms,
                "extendedFileMetadata": True,
                "partitionValues": parse_partition(old.partitions[file.partition].directory),
                "size": file.size,
            }
        }
        for file in old
    ]


def _commit_by_deltalake(table: DeltaTable, lines: Sequence[Mapping[str, Any]]) -> None:
    """Let deltalake write an entry to an object store: it knows locks, and conditions that an old Hadoop lacks."""
    from deltalake import CommitProperties, PostCommitHookProperties, Transaction
    from deltalake.transaction import AddAction, RemoveAction

    actions: list[AddAction | RemoveAction] = []
    transactions = []
    for line in lines:
        ((kind, a),) = line.items()
        if kind == "remove":
            path = unquote(a["path"], errors="surrogateescape")
            actions.append(RemoveAction(path, a["dataChange"], a["deletionTimestamp"], a["size"], a["partitionValues"]))
        elif kind == "add":
            values, time_ms = a["partitionValues"], a["modificationTime"]
            actions.append(AddAction(a["path"], a["size"], values, time_ms, a["dataChange"], a["stats"]))
        elif kind == "txn":
            transactions.append(Transaction(a["appId"], a["version"]))
    about = lines[0]["commitInfo"]
    table.create_write_transaction(
        actions,
        mode="append",
        schema=table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={n: about[n] for n in ("operationParameters", "readVersion", "isBlindAppend", MARK)},
            # With deltalake's own retries, two stale rewrites would both be committed, and rows doubled.
            max_commit_retries=0,
            app_transactions=transactions,
        ),
        post_commithook_properties=PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False),
    )


def is_checkpoint_due(table: DeltaTable, version: int) -> bool:
    """Whether a checkpoint should follow a commit: without any, each reader reads all commits again.

    Of tables with more features Delta Lake itself takes care.
    """
    protocol = table.protocol()
    if set(protocol.writer_features or ()) - _IN_CHECKPOINTS or protocol.min_writer_version == 6:
        return False
    text = str(table.metadata().configuration.get("delta.checkpointInterval", _CHECKPOINT_INTERVAL))
    interval = int(text) if text.isdigit() else 0
    return interval > 0 and version % interval == 0


def write_checkpoint(storage: Storage, version: int) -> None:
    """Write the checkpoint of a table's version; a failure is logged only, since the commit is done."""
    try:
        open_table(storage, version=version).create_checkpoint()
    except Exception as error:
        _LOG.warning('no checkpoint of version %d of "%s": %s', version, storage.root, first_line(error))


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
