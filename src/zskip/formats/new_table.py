"""A new table that appears whole or not at all: it is written under a hidden name beside its target and then renamed.

In an object store, where a rename copies every file, it is written in place, protected by its owner's claim: readers
see nothing before its first commit.
"""

from __future__ import annotations

import uuid

from zskip.errors import InputError
from zskip.formats import claims
from zskip.formats.base import HOME
from zskip.storage import FileInfo, Storage


def begin(parent: Storage, name: str) -> str:
    """Create a hidden directory for the table `name` and sweep those of dead processes; returns the hidden name.

    parent: the parent directory of the table. In an object store the name is the table's own.

    Raises InputError if the path is taken, and StorageError if the parent is not writable.
    """
    in_place = parent.kind == "objects"
    if in_place:
        _sweep(parent, name)
    info = parent.stat(name)
    if info is not None and (not info.is_dir or parent.list_dir(name)):
        raise _taken_error(parent, name)
    if in_place:
        try:
            claims.claim(parent, name)
        except FileExistsError as error:
            raise _taken_error(parent, name) from error
        return name
    _sweep(parent, name)
    hidden = f"{_prefix(name)}{uuid.uuid4().hex}"
    claims.claim(parent, hidden)
    return hidden


def _sweep(parent: Storage, name: str) -> None:
    for path in find_abandoned(parent, name):
        parent.delete(path)


def _taken_error(parent: Storage, name: str) -> InputError:
    return InputError(f'"{parent.uri(name)}" is taken already; name a directory that does not exist yet')


def find_abandoned(parent: Storage, name: str) -> list[str]:
    """Directories for the table `name` whose processes are dead; never one with a commit."""
    if parent.kind == "objects":
        committed = parent.list_dir(f"{name}/{HOME}/log") or parent.list_dir(f"{name}/_delta_log")
        is_dead = claims.is_claimed(parent, name) and claims.is_abandoned(parent, FileInfo(name, 0, 0, True))
        return [name] if is_dead and not committed else []
    siblings = [s for s in parent.list_dir("") if s.is_dir and s.path.startswith(_prefix(name))]
    return sorted(s.path for s in siblings if claims.is_abandoned(parent, s))


def _prefix(name: str) -> str:
    return f".{name}.zskip-"


def publish(parent: Storage, hidden: str, name: str) -> None:
    """Rename the finished table; raises InputError if somebody took its name meanwhile."""
    claims.release(parent, hidden)
    if hidden == name:
        return
    info = parent.stat(name)
    if info is not None and info.is_dir and not parent.list_dir(name):
        parent.delete(name)
    try:
        parent.rename(hidden, name)
    except FileExistsError as error:
        raise InputError(f'"{parent.uri(name)}" was taken meanwhile; name another directory') from error
