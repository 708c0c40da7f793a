"""What a rewrite of an Iceberg table leaves outside of its staging directory where it did not get to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

from pyiceberg.table.metadata import TableMetadata

from zskip.errors import ZskipError
from zskip.formats.iceberg.commit import committed
from zskip.formats.iceberg.table import files_ever, manifests_ever, read_metadata
from zskip.storage import Storage

TRIES = 50
"""Attempts at a commit."""
_HOME = "metadata"
_SLACK_MS = 3_600_000
"""By which the clocks of writers may differ."""


def attempt_id(rewrite: str, attempt: int) -> UUID:
    """The id in the names of the manifests that an attempt writes."""
    return uuid5(UUID(hex=rewrite), str(attempt))


def undo(storage: Storage, metadata: TableMetadata, rewrite: str, note: Mapping[str, Any]) -> None:
    """Remove the files of a rewrite that is not committed, or of its attempts that are not.

    metadata: the current one, which decides: whatever any of its snapshots knows of stays. note: `targets` are the
    places of data files, `at_ms` when they were first moved.
    """
    targets: Sequence[str] = note["targets"]
    if committed(metadata, rewrite) is None:
        known = files_ever(storage, metadata) if targets else set()
        for target in targets:
            if target not in known:
                storage.delete(target)
    sweep_attempts(storage, metadata, rewrite, note["at_ms"])


def sweep_attempts(storage: Storage, metadata: TableMetadata, rewrite: str, since_ms: int) -> None:
    """Remove the manifests and metadata files of attempts that were not committed."""
    files = [file for file in storage.list_dir(_HOME) if file.mtime_ms >= since_ms - _SLACK_MS]
    ids = [str(attempt_id(rewrite, i)) for i in range(TRIES)]
    ours = {file.path for file in files if file.path.endswith(".avro") and any(name in file.path for name in ids)}
    found = committed(metadata, rewrite)
    done = "" if found is None else next((name for name in ids if name in found.manifest_list), "")
    lost = {path for path in ours if not done or done not in path}
    if lost:
        lost -= manifests_ever(storage, metadata)
    known = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    logged = {_name(entry.metadata_file) for entry in metadata.metadata_log}
    for file in files:
        if file.path.endswith(".json") and _name(file.path) not in logged:
            lost |= {file.path} & _uncommitted(storage, file.path, rewrite, known)
    for path in sorted(lost):
        storage.delete(path)


def _uncommitted(storage: Storage, path: str, rewrite: str, known: set[int]) -> set[str]:
    """The path of a metadata file if the rewrite is its latest snapshot, and the table does not have it."""
    try:
        described = read_metadata(storage, path)
    except ZskipError:
        return set()
    snapshot = committed(described, rewrite)
    is_ours = snapshot is not None and snapshot.snapshot_id == described.current_snapshot_id
    return {path} if is_ours and described.current_snapshot_id not in known else set()


def _name(path: str) -> str:
    return path.rpartition("/")[2]
