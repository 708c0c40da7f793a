"""Which files of a table are unchanged: the same path, bytes and time."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from zskip.records import Ints, Snapshot

FileIdentity = tuple[str, int, int]
"""Path, bytes and time; a file is unchanged where all three are."""


def identify_files(snapshot: Snapshot, numbers: Ints) -> tuple[FileIdentity, ...]:
    """Identify the files with these numbers in a snapshot."""
    files = [snapshot.file(i) for i in numbers.tolist()]
    return tuple((file.path, file.size, file.mtime_ms) for file in files)


class LiveFiles:
    """Finds unchanged files in a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._numbers = {path: i for i, path in enumerate(snapshot.paths)}

    def find(self, files: Collection[FileIdentity]) -> Ints:
        """(files,) their numbers in the snapshot, -1 for those that are gone or changed."""
        numbers = np.fromiter((self._numbers.get(path, -1) for path, _, _ in files), np.int64, len(files))
        is_live = numbers >= 0
        live = iter(identify_files(self._snapshot, numbers[is_live]))
        is_same = [exists and next(live) == file for file, exists in zip(files, is_live.tolist(), strict=True)]
        return np.where(np.array(is_same, np.bool_), numbers, -1)
