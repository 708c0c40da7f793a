"""Checks before every commit of a rewrite: the removed files, and the rows and partitions of the added ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from zskip.errors import ConflictError, CorruptFileError, InputError, UnsupportedError
from zskip.formats.base import StagedFile
from zskip.formats.staging import check_staged
from zskip.index import BoundIndex, bind_footers
from zskip.records import ColumnNames, Partition, Reading, Snapshot
from zskip.records.reading import SAME_NAMES
from zskip.storage import Storage

_PLAIN = re.compile("[A-Za-z0-9][A-Za-z0-9_=.-]*")
"""A name that no engine escapes or treats as hidden."""


def target_path(directory: str, name: str) -> str:
    """The path of a new file: in its partition's directory, or in the table's root if that directory needs escaping.

    Engines escape paths in several ways, and an engine must find a file under the others' spelling of its path.

    >>> target_path("day=2024-01-01", "a.parquet"), target_path("region=us east", "a.parquet")
    ('day=2024-01-01/a.parquet', 'a.parquet')
    """
    is_plain = all(_PLAIN.fullmatch(part) for part in directory.split("/"))
    return f"{directory}/{name}" if is_plain else name


def read_staged_footers(
    storage: Storage, old: Snapshot, files: Sequence[StagedFile], names: ColumnNames = SAME_NAMES
) -> BoundIndex:
    """The footers' statistics of staged files, in their order.

    old: the files that they replace; names: how the new files name the columns. Raises ConflictError for a file that
    is not as it was written, and CorruptFileError for one that cannot be read.
    """
    infos = check_staged(storage, files)
    snapshot = Snapshot(
        root=old.root,
        version=old.version,
        fields=old.fields,
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(file.path for file in files),
        sizes=np.array([file.size for file in files], np.int64),
        mtimes_ms=np.array([info.mtime_ms for info in infos], np.int64),
        partition_of=np.zeros(len(files), np.int32),
        reading=Reading(names=names),
    )
    index = bind_footers(storage, snapshot)
    if (index.rows < 0).any():
        path = snapshot.paths[int(np.argmin(index.rows))]
        raise CorruptFileError(f'"{storage.uri(path)}" cannot be read; nothing was committed, call again')
    return index


def check_rows(old: Snapshot, new: Iterable[tuple[str, int]]) -> None:
    """Raise ConflictError if a partition would change its row count, as far as the log knows it, or is not an old one.

    The log does not know it where rows are deleted beside the files.

    new: the partition's directory and the rows of each file.
    """
    used_partitions = np.unique(old.partition_of)
    directories = {old.partitions[i].directory: i for i in used_partitions.tolist()}
    counts = dict.fromkeys(directories, 0)
    for directory, rows in new:
        if directory not in counts:
            raise ConflictError(f'no file of the partition "{directory}" is replaced; nothing was committed')
        counts[directory] += rows
    if old.known is None:
        return
    known = np.where(old.reading.deleted, -1, old.known.rows) if old.reading.deleted is not None else old.known.rows
    for directory, partition in directories.items():
        known_rows = known[old.partition_of == partition]
        if (known_rows >= 0).all() and int(known_rows.sum()) != counts[directory]:
            raise ConflictError(
                f'the log of "{old.root}" says that partition "{directory}" has {int(known_rows.sum())} rows, but '
                f"{counts[directory]} were written; nothing was committed"
            )


def check_required(index: BoundIndex, required: Iterable[str]) -> None:
    """Raise InputError if the new files of an append hold a null in a column that must have none."""
    for name in required:
        stats = index.column((name,))
        nulls = None if stats is None else stats.nulls
        if nulls is None or (nulls == -1).any():
            raise UnsupportedError(
                f'"{name}" must not be null, but the new files do not say whether it is; append with the format\'s own '
                "writer. Nothing was committed"
            )
        if (nulls != 0).any():
            raise null_error(name)


def null_error(name: str) -> InputError:
    """The error for a null in a column that must have none."""
    return InputError(f'the new rows hold a null in "{name}", which must not be null; nothing was committed')


def check_live(current: Snapshot, old: Snapshot) -> None:
    """Raise ConflictError if a file that a rewrite has read is no longer live and unchanged."""
    live = {file.path: (file.size, file.mtime_ms) for file in current}
    for file in old:
        if live.get(file.path) != (file.size, file.mtime_ms):
            raise ConflictError(
                f'another writer removed "{file.path}" from "{old.root}" since the rewrite read it; '
                "nothing was committed, call again"
            )
