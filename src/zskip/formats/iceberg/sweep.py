"""Finds the remains of interrupted rewrites of an Iceberg table, outside of their staging directories."""

from __future__ import annotations

import re
from uuid import UUID, uuid5

from pyiceberg.table.metadata import TableMetadata

from zskip.errors import ZskipError
from zskip.formats.iceberg.commit import find_committed
from zskip.formats.iceberg.table import manifests_of_all_snapshots, read_metadata
from zskip.storage import Storage

TRIES = 50
"""Attempts at a commit."""
_HOME = "metadata"
_NUMBERED = re.compile(r"v?(\d+)[-.]")
_SLACK_MS = 3_600_000
"""The tolerated difference between writers' clocks."""


def attempt_id(rewrite: str, attempt: int) -> UUID:
    """The id in the names of an attempt's manifests."""
    return uuid5(UUID(hex=rewrite), str(attempt))


def may_have_metadata(storage: Storage, table_uuid: str | None) -> bool:
    """Whether a table of this id may have been committed, since its metadata lies there; None stands for any table."""
    for file in storage.list_dir(_HOME):
        if file.path.endswith((".metadata.json", ".metadata.json.gz")):
            try:
                if table_uuid in (None, str(read_metadata(storage, file.path).table_uuid)):
                    return True
            except ZskipError:
                return True
    return False


def find_attempts(storage: Storage, metadata: TableMetadata, rewrite: str, since_ms: int) -> list[str]:
    """The manifests and metadata files of attempts at a rewrite that were not committed."""
    files = [file for file in storage.list_dir(_HOME) if file.mtime_ms >= since_ms - _SLACK_MS]
    ids = [str(attempt_id(rewrite, i)) for i in range(TRIES)]
    ours = {file.path for file in files if file.path.endswith(".avro") and any(name in file.path for name in ids)}
    snapshot = find_committed(metadata, rewrite)
    committed_id = "" if snapshot is None else next((name for name in ids if name in snapshot.manifest_list), "")
    dead = {path for path in ours if not committed_id or committed_id not in path}
    if dead:
        dead -= manifests_of_all_snapshots(storage, metadata)
    known = {each.snapshot_id for each in metadata.snapshots}
    logged = {_name(entry.metadata_file) for entry in metadata.metadata_log}
    # The log forgets old files, of which there may be thousands; an attempt's number is not among theirs.
    forgotten = min((number for name in logged if (number := _number(name)) is not None), default=0)
    for file in files:
        name, number = _name(file.path), _number(file.path)
        if name.endswith(".json") and name not in logged and (number is None or number >= forgotten):
            dead |= {file.path} & _uncommitted(storage, file.path, rewrite, known)
    return sorted(dead)


def _uncommitted(storage: Storage, path: str, rewrite: str, known: set[int]) -> set[str]:
    """The path of a metadata file if the rewrite is its latest snapshot and the table does not have it."""
    try:
        metadata = read_metadata(storage, path)
    except ZskipError:
        return set()
    snapshot = find_committed(metadata, rewrite)
    is_ours = snapshot is not None and snapshot.snapshot_id == metadata.current_snapshot_id
    return {path} if is_ours and metadata.current_snapshot_id not in known else set()


def _number(path: str) -> int | None:
    """The number of a metadata file; None where its name has none."""
    match = _NUMBERED.match(_name(path))
    return None if match is None else int(match[1])


def _name(path: str) -> str:
    return path.rpartition("/")[2]
