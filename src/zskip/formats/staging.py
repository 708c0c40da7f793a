"""Hidden directories below `_zskip` that hold the files of a rewrite until they are committed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from zskip.formats import claims
from zskip.formats.base import HOME, STAGED
from zskip.formats.hive import is_hidden
from zskip.storage import FileInfo, Storage

STAGING = f"{HOME}/staging"
_AT_ONCE = {"disk": 4, "cluster": 16, "objects": 16}
"""Files moved, or copied, at a time; measured on a disk, where each move is synced."""


def begin(storage: Storage, abort: Callable[[str], None]) -> str:
    """Create a directory for a rewrite's files and abort the rewrites of dead processes; returns its path.

    Raises StorageError if the table is not writable.
    """
    for directory in storage.list_dir(STAGING):
        # The owner is dead before the format checks for its commit, so that it cannot commit in between.
        if claims.is_abandoned(storage, directory):
            abort(directory.path)
    path = f"{STAGING}/{uuid.uuid4().hex}"
    claims.claim(storage, path)
    return path


def movers(storage: Storage) -> ThreadPoolExecutor:
    """Threads that move, or look at, the files of a commit."""
    return ThreadPoolExecutor(_AT_ONCE[storage.kind], thread_name_prefix="zskip-commit")


def look_at_all(storage: Storage, paths: Sequence[str]) -> list[FileInfo | None]:
    """What is at each path, as `Storage.stat` tells; a store far away is asked for many at a time."""
    if storage.kind == "disk":
        return [storage.stat(path) for path in paths]
    with movers(storage) as pool:
        return list(pool.map(storage.stat, paths))


def move_all(storage: Storage, moves: Iterable[tuple[str, str]]) -> None:
    """Give staged files their names; raises as `Storage.rename`, perhaps after some have moved.

    moves: the path of each file, and its new one.
    """
    with movers(storage) as pool:
        list(pool.map(lambda move: storage.rename(*move), moves))


def rename_as_staged(storage: Storage, staging: str) -> None:
    """Give data files that Spark's own writer has named the ending of staged files.

    Object stores are left out, since a rename is a copy there.
    """
    if storage.kind != "objects":
        paths = [file.path for file in list_data_files(storage, staging)]
        move_all(storage, [(path, f"{path}{STAGED}") for path in paths])


def list_data_files(storage: Storage, staging: str) -> list[FileInfo]:
    """The data files of a staging directory, in path order."""
    entries = storage.list_dir(staging)
    return sorted(f for f in entries if not f.is_dir and not is_hidden(f.path.rpartition("/")[2]))


def end(storage: Storage, staging: str) -> None:
    """Delete a staging directory, which nobody needs any more."""
    claims.forget(storage, staging)
    storage.delete(staging)
