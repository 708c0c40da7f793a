"""Checks whether an Iceberg table's delete files apply to any of its data files; after those are rewritten, none do."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry

from zskip.formats.iceberg.protocol import OwnReaderNeeded
from zskip.records import Deletes, Ints

_FILE_PATH_ID = 2147483546
"""The id of the column with data file paths in positional deletes."""
VECTOR, POSITIONS, _EQUALITY = "deletion vector", "position deletes", "equality deletes"
_REFERENCED, _OFFSET = 17, 18
"""Positions in a `DataFile` of format version 3."""
_FOREVER = int(np.iinfo(np.int64).max)


def check_deletes(location: str, deletes: Sequence[ManifestEntry], files: Sequence[ManifestEntry]) -> None:
    """Raise OwnReaderNeeded if a live delete file may apply to a live data file."""
    if not deletes:
        return
    oldest = min((entry.sequence_number or 0 for entry in files), default=None)
    by_path = sorted((entry.data_file.file_path.encode(), entry.sequence_number or 0) for entry in files)
    paths = [path for path, _ in by_path]
    for delete in deletes:
        least, greatest = _path_bounds(delete)
        first = bisect_left(paths, least)
        last = len(paths) if greatest is None else bisect_right(paths, greatest)
        older = oldest if last - first == len(paths) else min((n for _, n in by_path[first:last]), default=None)
        if older is not None and (delete.sequence_number is None or older <= delete.sequence_number):
            _refuse(location, delete)


def find_deleted(deletes: Sequence[ManifestEntry], files: Sequence[ManifestEntry]) -> set[str]:
    """The absolute paths of the live data files to which a live delete file may apply."""
    by_path = sorted((entry.data_file.file_path.encode(), entry.sequence_number or 0) for entry in files)
    paths, numbers = [path for path, _ in by_path], np.array([number for _, number in by_path], np.int64)
    newest: Ints = np.full(len(paths), -1, np.int64)
    for (least, greatest), number in _newest_by_bounds(deletes).items():
        some = slice(bisect_left(paths, least), None if greatest is None else bisect_right(paths, greatest))
        newest[some] = np.maximum(newest[some], number)
    return {paths[i].decode() for i in np.flatnonzero(numbers <= newest)}


def _newest_by_bounds(deletes: Sequence[ManifestEntry]) -> dict[tuple[bytes, bytes | None], int]:
    newest: dict[tuple[bytes, bytes | None], int] = {}
    for delete in deletes:
        bounds = _path_bounds(delete)
        number = _FOREVER if delete.sequence_number is None else delete.sequence_number
        newest[bounds] = max(number, newest.get(bounds, -1))
    return newest


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
        if any(_kind(delete) == VECTOR for delete in applied):
            applied = [delete for delete in applied if _kind(delete) != POSITIONS]
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
        return delete.sequence_number is None or number < delete.sequence_number
    least, greatest = _path_bounds(delete)
    is_named = least <= path and (greatest is None or path <= greatest)
    return is_named and (delete.sequence_number is None or number <= delete.sequence_number)


def _describe(data: DataFile, file: DataFile, names: Mapping[int, str], uri: Callable[[str], str]) -> Deletes:
    offset, size = file._data[_OFFSET], file._data[_OFFSET + 1]
    return Deletes(
        kind=_kind_of(file),
        path=uri(file.file_path),
        offset=offset,
        size=file.file_size_in_bytes if size is None else size,
        columns=tuple(names[field_id] for field_id in file.equality_ids or ()),
        location=data.file_path,
    )


def _kind(delete: ManifestEntry) -> str:
    return _kind_of(delete.data_file)


def _kind_of(file: DataFile) -> str:
    if file.file_format == FileFormat.PUFFIN:
        return VECTOR
    return _EQUALITY if file.content == DataFileContent.EQUALITY_DELETES else POSITIONS


def _path_bounds(delete: ManifestEntry) -> tuple[bytes, bytes | None]:
    """The bounds of the data file paths that a delete file applies to; None for no upper bound."""
    file = delete.data_file
    if file.content != DataFileContent.POSITION_DELETES:
        return b"", None
    return (file.lower_bounds or {}).get(_FILE_PATH_ID, b""), (file.upper_bounds or {}).get(_FILE_PATH_ID)


def _refuse(location: str, delete: ManifestEntry) -> None:
    file = delete.data_file
    if file.file_format == FileFormat.PUFFIN:
        kind = "deletion vectors"
    else:
        kind = "equality deletes" if file.content == DataFileContent.EQUALITY_DELETES else "positional deletes"
    raise OwnReaderNeeded(
        f'the Iceberg table "{location}" has {kind} ("{file.file_path}"), which only Iceberg\'s own reader applies to '
        "its data files; rewrite those with rewrite_data_files (delete-file-threshold=1, remove-dangling-deletes=true)",
        kind,
    )
