"""Checks whether an Iceberg table's delete files apply to any of its data files; after those are rewritten, none do."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from pyiceberg.manifest import DataFileContent, FileFormat, ManifestEntry

from zskip.formats.iceberg.protocol import OwnReaderNeeded

_FILE_PATH_ID = 2147483546
"""The id of the column with data file paths in positional deletes."""


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
        "its data files; rewrite those with rewrite_data_files (delete-file-threshold=1, remove-dangling-deletes=true)"
        ", or read it with Iceberg. Nothing was written",
        kind,
    )
