"""The commit log of a plain Parquet table: one entry for each rewrite, both its intent and its commit.

`_zskip/log/<version>.json` is created exclusively and names the files that the rewrite adds and removes. From that
moment zskip's readers see the table as after the rewrite. `<version>.done` records that all files have been moved.
Every step in between is idempotent, so anyone who finds an entry without `.done` can finish it.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from zskip.errors import IndexFormatError, StorageError
from zskip.formats.base import HOME
from zskip.formats.staging import STAGING, check_data_files, end, look_at_all, movers
from zskip.storage import Storage

LOG = f"{HOME}/log"
TRASH = f"{HOME}/trash"
SUMMARIES = ("_metadata", "_common_metadata")
"""In which other programs keep the footers of all files, and their columns."""
FORMAT = 1
_STAGED = re.compile(rf"{STAGING}/[^/.][^/]*/[^/.][^/]*")
_RESERVED_MS = 10 * 60 * 1000
"""The age from which an empty entry counts as one whose writer has crashed; between its two steps is less than 1 s."""
REPLACED = ".replaced"
"""The ending of a replaced file in the trash."""
KEEP = 20
"""Finished entries that are kept for inspection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Added:
    """A file that a rewrite adds: its staged path, its target, and its size in bytes."""

    staged: str
    target: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Removed:
    """A file that a rewrite replaces, as the rewrite read it."""

    path: str
    size: int
    mtime_ms: int
    identity: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One rewrite, or an append, which removes no files."""

    version: int
    added: tuple[Added, ...]
    removed: tuple[Removed, ...]
    info: Mapping[str, Any] = field(default_factory=dict)
    """A description of the operation: clustering columns, curve, time."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """For each application the latest batch that it has appended, up to this entry."""

    @property
    def name(self) -> str:
        """The path of the entry without its extension."""
        return f"{LOG}/{self.version:020d}"

    @property
    def trash(self) -> str:
        """The directory that holds the removed files until they are deleted."""
        return f"{TRASH}/{self.version:020d}"

    def to_json(self) -> bytes:
        """The content of the entry's file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()


def versions(storage: Storage) -> tuple[list[int], set[int]]:
    """The versions that have an entry, ascending, and the finished ones.

    An empty entry is being written, where the disk has no hard links, or its writer has crashed: it is no commit.
    """
    entries, done = [], set()
    for file in storage.list_dir(LOG):
        stem, _, ending = file.path.rpartition("/")[2].partition(".")
        if stem.isdigit() and ending == "json" and file.size:
            entries.append(int(stem))
        elif stem.isdigit() and ending == "done":
            done.add(int(stem))
    return sorted(entries), done


def next_version(storage: Storage, entries: Sequence[int]) -> int:
    """The version of the next entry; passes over empty ones, of which so old ones are never finished.

    entries: the versions that have an entry.
    """
    version = max(entries, default=0) + 1
    while storage.kind == "disk":
        info = storage.stat(f"{LOG}/{version:020d}.json")
        if info is None or info.size or time.time() * 1000 - info.mtime_ms < _RESERVED_MS:
            break
        version += 1
    return version


def read_entry(storage: Storage, version: int) -> Entry:
    """Read one entry; raises IndexFormatError if another version of zskip wrote it, or it is damaged.

    An entry with paths outside the table counts as damaged, since its files are moved and deleted.
    """
    path = f"{LOG}/{version:020d}.json"
    try:
        content = json.loads(storage.read(path))
        format_version = content["format"]
        if format_version != FORMAT:
            raise IndexFormatError(
                f'"{storage.uri(path)}" has format {format_version}, this zskip knows format {FORMAT}: '
                "use the zskip that wrote it, or a newer one"
            )
        entry = Entry(
            version=content["version"],
            added=tuple(Added(**file) for file in content["added"]),
            removed=tuple(Removed(**file) for file in content["removed"]),
            info=content["info"],
            batches={str(name): int(version) for name, version in content.get("batches", {}).items()},
        )
        _check_names(entry, version)
        return entry
    except (ValueError, KeyError, TypeError) as error:
        raise IndexFormatError(
            f'"{storage.uri(path)}" is damaged ({error}); restore it from a backup before anything writes to the table'
        ) from error


def _check_names(entry: Entry, version: int) -> None:
    """Raise ValueError unless the entry has this version and names only data files of the table and staged files."""
    if entry.version != version:
        raise ValueError(f"it is version {entry.version!r}")
    removed = (old.path for old in entry.removed if old.path not in SUMMARIES)
    check_data_files([*(new.target for new in entry.added), *removed])
    for new in entry.added:
        if not _STAGED.fullmatch(new.staged):
            raise ValueError(f"{new.staged!r} is not a staged file")


def publish(storage: Storage, entry: Entry) -> bool:
    """Commit a rewrite; False if another writer took the version first.

    A store may fail to answer, or say that the name is taken, although it has done what it was asked. The entry itself
    tells whose it is, since it names its staging directory.
    """
    data = entry.to_json()
    try:
        storage.write(f"{entry.name}.json", data)
    except (FileExistsError, StorageError) as error:
        with contextlib.suppress(FileNotFoundError):
            if storage.read(f"{entry.name}.json") == data:
                return True
        if isinstance(error, StorageError):
            raise
        return False
    return True


def finish(storage: Storage, entry: Entry) -> None:
    """Move the files where the entry puts them, old ones out and new ones in.

    Two processes may do this at once. Nothing is deleted before every added file is in place.
    """
    if storage.kind == "objects":
        _finish_by_copies(storage, entry)
    else:
        _finish_by_renames(storage, entry)
    storage.write(f"{entry.name}.done", b"", overwrite=True)
    clean(storage, entry)


def _finish_by_copies(storage: Storage, entry: Entry) -> None:
    """For stores where a rename is a copy: copy each new file once, many at a time, then delete the old ones."""
    with movers(storage) as pool:
        list(pool.map(lambda new: _move_into_place(storage, new), entry.added))
        check_added(storage, entry, entry.added)
        list(pool.map(lambda old: _drop(storage, old), entry.removed))


def _finish_by_renames(storage: Storage, entry: Entry) -> None:
    old_by_directory, new_by_directory = _by_directory(entry)
    with movers(storage) as pool:
        for directory in sorted({*old_by_directory, *new_by_directory}):
            list(pool.map(lambda old: _retire(storage, old, entry.trash), old_by_directory[directory]))
            list(pool.map(lambda new: _move_into_place(storage, new), new_by_directory[directory]))
    check_added(storage, entry, entry.added)


def _by_directory(entry: Entry) -> tuple[dict[str, list[Removed]], dict[str, list[Added]]]:
    old: dict[str, list[Removed]] = defaultdict(list)
    new: dict[str, list[Added]] = defaultdict(list)
    for file in entry.removed:
        old[_parent(file.path)].append(file)
    for added in entry.added:
        new[_parent(added.target)].append(added)
    return old, new


def check_added(storage: Storage, entry: Entry, added: Sequence[Added]) -> None:
    """Check that added files are in place; raises StorageError before anything is deleted."""
    for new, info in zip(added, look_at_all(storage, [new.target for new in added]), strict=True):
        if (info is None or info.size != new.size) and storage.stat(f"{entry.name}.done") is None:
            old_files = f'are safe in "{storage.uri(entry.trash)}": move them back by hand, without "{REPLACED}"'
            if storage.kind == "objects":
                old_files = f'are where they were: remove "{storage.uri(entry.name)}.json" to go on with them'
            raise StorageError(
                f'"{storage.uri(new.target)}" is missing or has another size than the commit {entry.version} says; '
                f"the replaced files {old_files}"
            )


def check_reachable(storage: Storage, entry: Entry) -> None:
    """Check that every added file is readable, staged or in place; raises StorageError if one is lost."""
    for new in entry.added:
        if storage.stat(new.target) is None and storage.stat(new.staged) is None:
            check_added(storage, entry, [new])


def clean(storage: Storage, entry: Entry) -> None:
    """Delete the remains of a finished rewrite: the replaced files, its staging directory, old entries."""
    for staging in {_parent(file.staged) for file in entry.added}:
        end(storage, staging)
    for path in list_dead_trash(storage):
        storage.delete(path)
    entries, done = versions(storage)
    for version in entries[:-KEEP]:
        if version in done:
            storage.delete(f"{LOG}/{version:020d}.json")
            storage.delete(f"{LOG}/{version:020d}.done")


def list_dead_trash(storage: Storage) -> list[str]:
    """The directories with files that finished rewrites have replaced."""
    done = versions(storage)[1]
    directories = [trash.path for trash in storage.list_dir(TRASH)]
    return [path for path in directories if (name := path.rpartition("/")[2]).isdigit() and int(name) in done]


def list_pending(storage: Storage) -> list[Entry]:
    """The rewrites that are committed, but not known to be finished."""
    entries, done = versions(storage)
    pending = []
    for version in entries:
        if version not in done:
            # Another process may have finished it and swept the entry during the listing.
            with contextlib.suppress(FileNotFoundError):
                pending.append(read_entry(storage, version))
    return pending


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _is_in_place(storage: Storage, old: Removed) -> bool:
    """Whether nobody has moved a replaced file yet, or written another one under its name."""
    info = storage.stat(old.path)
    # Not its identity, which a second link changes, such as that of a move that was cut short.
    return info is not None and info.is_unchanged(old.size, old.mtime_ms)


def _retire(storage: Storage, old: Removed, trash: str) -> None:
    """Move a replaced file away, unless somebody already did."""
    if _is_in_place(storage, old):
        try:
            storage.rename(old.path, f"{trash}/{old.path}{REPLACED}")
        except FileNotFoundError:
            return
        except FileExistsError:
            storage.delete(old.path)


def _drop(storage: Storage, old: Removed) -> None:
    """Delete a replaced file, unless somebody already did."""
    if _is_in_place(storage, old):
        storage.delete(old.path)


def _move_into_place(storage: Storage, new: Added) -> None:
    """Move an added file to its target, unless somebody already did."""
    try:
        storage.rename(new.staged, new.target)
    except FileNotFoundError:
        return
    except FileExistsError:
        storage.delete(new.staged)
