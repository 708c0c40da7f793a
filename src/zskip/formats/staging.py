"""Hidden directories below `_zskip` that hold the files of a rewrite until they are committed.

Delta and Iceberg move these files to their targets before they commit. A note in the directory names the targets, so
that others can undo the moves of a process that died before its commit.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from zskip.errors import ConflictError, StorageError, ZskipError
from zskip.formats import claims
from zskip.formats.base import HOME, STAGED, StagedFile
from zskip.formats.hive import is_hidden
from zskip.storage import FileInfo, Storage

STAGING = f"{HOME}/staging"
_NOTE = "_moved.json"
"""The note of moves in a staging directory."""
_AT_ONCE = {"disk": 4, "cluster": 16, "objects": 16}
"""Files moved, or copied, at a time; measured on a disk, where each move is synced."""
_LOG = logging.getLogger("zskip")


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


def check_staged(storage: Storage, files: Sequence[StagedFile]) -> list[FileInfo]:
    """What is at the path of each staged file; raises ConflictError unless it is the file that was written."""
    infos = []
    for file, info in zip(files, look_at_all(storage, [file.path for file in files]), strict=True):
        if info is None or info.size != file.size:
            change = "is gone" if info is None else "has another size"
            raise ConflictError(
                f'the new file "{storage.uri(file.path)}" {change} since it was written; nothing was committed, call '
                "again"
            )
        infos.append(info)
    return infos


def check_data_files(paths: Iterable[object]) -> None:
    """Raise ValueError for a path that no data file has: outside of the table, or hidden as logs and the index are."""
    for path in paths:
        if not isinstance(path, str) or any(not part or is_hidden(part) for part in path.split("/")):
            raise ValueError(f"{path!r} is not the path of a data file")


def move(storage: Storage, staging: str, moves: Sequence[tuple[str, str]], note: Mapping[str, Any]) -> None:
    """Give staged files their names, after a note of these for `find_remains`; note: what else belongs in it."""
    write_note(storage, staging, [target for _, target in moves], note)
    move_all(storage, moves)


def write_note(
    storage: Storage, staging: str, targets: Sequence[str], note: Mapping[str, Any], *, overwrite: bool = False
) -> None:
    """Write the note of moves."""
    data = json.dumps({**note, "targets": list(targets)}).encode()
    storage.write(f"{staging}/{_NOTE}", data, overwrite=overwrite)


def _read_note(storage: Storage, staging: str, numbers: Sequence[str]) -> dict[str, Any] | None:
    """The note of moves, if there is one; raises StorageError if it is damaged or names what is no data file.

    numbers: its other entries, 0 where it has none.
    """
    path = f"{staging}/{_NOTE}"
    try:
        content = json.loads(storage.read(path))
        targets: list[str] = content["targets"]
        note: dict[str, Any] = content | {name: content.get(name, 0) for name in numbers}
        if not isinstance(targets, list) or any(type(note[name]) is not int for name in numbers):
            raise TypeError("its entries have other types")
        check_data_files(targets)
        if any(target.startswith("metadata/") for target in targets):
            raise ValueError("it names metadata")
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f'"{storage.uri(path)}" is damaged ({error}); see who wrote it, and delete its directory by hand'
        ) from error
    return note


def find_remains(
    storage: Storage, staging: str, find: Callable[[str, Mapping[str, Any]], list[str]], numbers: Sequence[str]
) -> list[str] | None:
    """The files that were moved out of a staging directory, or belong to it, and that nobody needs.

    find: from a rewrite's name and its note to the paths that may be such files; numbers: the note's entries that it
    reads. Returns None where it raises a ZskipError, and where the note is damaged: then everything stays.
    """
    try:
        note = _read_note(storage, staging, numbers)
        paths = [] if note is None else find(staging.rpartition("/")[2], note)
    except ZskipError as error:
        _LOG.warning('"%s" stays in "%s": %s', staging, storage.root, error)
        return None
    infos = zip(paths, look_at_all(storage, paths), strict=True)
    return [path for path, info in infos if info is not None and not info.is_dir]


def end(storage: Storage, staging: str) -> None:
    """Delete a staging directory, which nobody needs any more."""
    claims.forget(storage, staging)
    storage.delete(staging)
