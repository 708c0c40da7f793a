"""What every commit of a rewrite has to be sure of: the files it removes, the rows and places of those it adds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from zskip.errors import ConflictError, CorruptFileError, StorageError
from zskip.formats.base import StagedFile
from zskip.index import BoundIndex, footers_only
from zskip.records import Partition, Snapshot
from zskip.storage import Storage

_PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9_=.-]*")
"""A name that nobody escapes, or takes for hidden."""


def target_path(directory: str, name: str) -> str:
    """Where a new file goes: to its partition's directory, or above all partitions where that has to be escaped.

    Engines escape paths in several ways; one that finds a file by its own spelling must find it by that of the others.

    >>> place_of("day=2024-01-01", "a.parquet"), place_of("region=us east", "a.parquet"), place_of("", "a.parquet")
    ('day=2024-01-01/a.parquet', 'a.parquet', 'a.parquet')
    """
    plain = all(_PLAIN.fullmatch(part) for part in directory.split("/"))
    return f"{directory}/{name}" if plain else name


def read_staged_footers(storage: Storage, old: Snapshot, files: Sequence[StagedFile]) -> BoundIndex:
    """What the footers of staged files say, in their order.

    old: the files that they replace. Raises StorageError for a file that is not as it was written, and CorruptFileError
    for one that cannot be read.
    """
    found = [storage.stat(file.path) for file in files]
    for file, info in zip(files, found, strict=True):
        if info is None or info.size != file.size:
            raise StorageError(f'"{storage.uri(file.path)}" is not the file that was written; nothing was committed')
    snapshot = Snapshot(
        root=old.root,
        version=old.version,
        fields=old.fields,
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(file.path for file in files),
        sizes=np.array([file.size for file in files], np.int64),
        mtimes_ms=np.array([info.mtime_ms for info in found if info is not None], np.int64),
        partition_of=np.zeros(len(files), np.int32),
    )
    index = footers_only(storage, snapshot)
    if (index.rows < 0).any():
        path = snapshot.paths[int(np.argmin(index.rows))]
        raise CorruptFileError(f'"{storage.uri(path)}" cannot be read; nothing was committed, call again')
    return index


def check_rows(old: Snapshot, new: Iterable[tuple[str, int]]) -> None:
    """Raise ConflictError where a partition would have other rows, as far as the log knows, or is none of the old.

    new: the partition's directory and the rows of each file.
    """
    used = np.unique(old.partition_of)
    directories = {old.partitions[i].directory: i for i in used.tolist()}
    counts = dict.fromkeys(directories, 0)
    for directory, rows in new:
        if directory not in counts:
            raise ConflictError(f'no file of the partition "{directory}" is replaced; nothing was committed')
        counts[directory] += rows
    if old.known is None:
        return
    for directory, place in directories.items():
        known = old.known.rows[old.partition_of == place]
        if (known >= 0).all() and int(known.sum()) != counts[directory]:
            raise ConflictError(
                f'the log of "{old.root}" says that partition "{directory}" has {int(known.sum())} rows, but '
                f"{counts[directory]} were written; nothing was committed"
            )


def check_live(current: Snapshot, old: Snapshot) -> None:
    """Raise ConflictError where a file that a rewrite has read is no longer live as it was."""
    live = {file.path: (file.size, file.mtime_ms) for file in current}
    for file in old:
        if live.get(file.path) != (file.size, file.mtime_ms):
            raise ConflictError(
                f'another writer removed "{file.path}" from "{old.root}" since the rewrite read it; '
                "nothing was committed, call again"
            )
