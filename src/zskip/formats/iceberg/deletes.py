"""What deletes rows of an Iceberg table's data files; delete files of data files that were rewritten apply to none."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry

from zskip.formats.iceberg.protocol import OwnReaderNeeded
from zskip.records import Deletes

_FILE_PATH_ID = 2147483546
"""The id of the column with data file paths in positional deletes."""
VECTOR, POSITIONS, _EQUALITY = "deletion vector", "position deletes", "equality deletes"
_REFERENCED, _OFFSET = 17, 18
"""Positions in a `DataFile` of format version 3."""
_FOREVER = int(np.iinfo(np.int64).max)


def find_deleted(
    deletes: Sequence[ManifestEntry], files: Sequence[ManifestEntry]
) -> tuple[frozenset[str], ManifestEntry | None]:
    """The absolute paths of the live data files to which live delete files may apply, and one of these delete files."""
    by_path = sorted((entry.data_file.file_path.encode(), entry.sequence_number or 0) for entry in files)
    paths, numbers = [path for path, _ in by_path], np.array([number for _, number in by_path], np.int64)
    newest: dict[tuple[bytes, bytes | None], ManifestEntry] = {}
    for delete in sorted(deletes, key=_number):
        newest[_path_bounds(delete)] = delete
    deleted, one = np.zeros(len(paths), np.bool_), None
    for (least, greatest), delete in newest.items():
        some = slice(bisect_left(paths, least), None if greatest is None else bisect_right(paths, greatest))
        applies = numbers[some] <= _number(delete)
        deleted[some] |= applies
        one = delete if applies.any() else one
    return frozenset(paths[i].decode() for i in np.flatnonzero(deleted)), one


def _number(delete: ManifestEntry) -> int:
    """The number up to which a delete applies to older files; it is unknown in tables of version 1."""
    return _FOREVER if delete.sequence_number is None else delete.sequence_number


def check_deletes(location: str, delete: ManifestEntry | None) -> None:
    """Raise OwnReaderNeeded for a table with a delete file that may apply."""
    if delete is not None:
        kind = _kind(delete.data_file)
        kind = f"{kind}s" if kind == VECTOR else kind
        raise OwnReaderNeeded(
            f'the Iceberg table "{location}" has {kind} ("{delete.data_file.file_path}"), which only Iceberg\'s own '
            "reader applies to its data files; rewrite those with rewrite_data_files (delete-file-threshold=1, "
            "remove-dangling-deletes=true)",
            kind,
        )


def find_deletes(
    files: Sequence[ManifestEntry],
    deletes: Sequence[ManifestEntry],
    unpartitioned: Collection[int],
    names: Mapping[int, str],
    uri: Callable[[str], str],
) -> dict[str, tuple[Deletes, ...]]:
    """What deletes rows of the live data files, by their absolute paths, as Iceberg's scans find it.

    deletes: as of format version 3; unpartitioned: ids of partition specs without fields; names: of columns by id; uri:
    of a file by its path in the metadata.
    """
    scopes: dict[Any, list[ManifestEntry]] = {}
    for delete in deletes:
        scopes.setdefault(_scope(delete, unpartitioned), []).append(delete)
    result = {}
    for file in files:
        data = file.data_file
        keys = (None, data.file_path, (data.spec_id, repr(data.partition)))
        applied = [delete for key in keys for delete in scopes.get(key, ()) if _applies(delete, file)]
        if any(_kind(delete.data_file) == VECTOR for delete in applied):
            applied = [delete for delete in applied if _kind(delete.data_file) != POSITIONS]
        if applied:
            result[data.file_path] = tuple(_describe(data, delete.data_file, names, uri) for delete in applied)
    return result


def _scope(delete: ManifestEntry, unpartitioned: Collection[int]) -> Any:
    """The path of the one data file that a delete is for, or its partition; None for deletes in the whole table."""
    file = delete.data_file
    if file.content == DataFileContent.EQUALITY_DELETES and file.spec_id in unpartitioned:
        return None
    referenced = file._data[_REFERENCED]
    return (file.spec_id, repr(file.partition)) if referenced is None else referenced


def _applies(delete: ManifestEntry, file: ManifestEntry) -> bool:
    number, path = file.sequence_number or 0, file.data_file.file_path.encode()
    if delete.data_file.content == DataFileContent.EQUALITY_DELETES:
        return number < _number(delete)
    least, greatest = _path_bounds(delete)
    return least <= path and (greatest is None or path <= greatest) and number <= _number(delete)


def _describe(data: DataFile, file: DataFile, names: Mapping[int, str], uri: Callable[[str], str]) -> Deletes:
    offset, size = file._data[_OFFSET], file._data[_OFFSET + 1]
    return Deletes(
        kind=_kind(file),
        path=uri(file.file_path),
        offset=offset,
        size=file.file_size_in_bytes if size is None else size,
        columns=tuple(names[field_id] for field_id in file.equality_ids or ()),
        location=data.file_path,
    )


def _kind(file: DataFile) -> str:
    if file.file_format == FileFormat.PUFFIN:
        return VECTOR
    return _EQUALITY if file.content == DataFileContent.EQUALITY_DELETES else POSITIONS


def _path_bounds(delete: ManifestEntry) -> tuple[bytes, bytes | None]:
    """The bounds of the data file paths that a delete file applies to; None for no upper bound."""
    file = delete.data_file
    if file.content != DataFileContent.POSITION_DELETES:
        return b"", None
    return (file.lower_bounds or {}).get(_FILE_PATH_ID, b""), (file.upper_bounds or {}).get(_FILE_PATH_ID)
