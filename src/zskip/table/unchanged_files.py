"""Which files of a table are still as they were: the same path, bytes and time."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from zskip.records import Ints, Snapshot

File = tuple[str, int, int]
"""Path, bytes and time: a file is the same where all three are."""


def named(snapshot: Snapshot, places: Ints) -> tuple[File, ...]:
    """The files of some places of a snapshot."""
    files = [snapshot.file(i) for i in places.tolist()]
    return tuple((file.path, file.size, file.mtime_ms) for file in files)


class Live:
    """The files of a snapshot, to be found by what makes them the same; made once for all questions to it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._places = {path: i for i, path in enumerate(snapshot.paths)}

    def places(self, files: Collection[File]) -> Ints:
        """(files,) where they are in the snapshot, -1 for those that are not there any more, or not as they were."""
        places = np.fromiter((self._places.get(path, -1) for path, _, _ in files), np.int64, len(files))
        there = places >= 0
        now = iter(named(self._snapshot, places[there]))
        same = [is_there and next(now) == file for file, is_there in zip(files, there.tolist(), strict=True)]
        return np.where(np.array(same, np.bool_), places, -1)
