"""A new table that appears whole or not at all: made under a hidden name beside its place, and renamed at the end."""

from __future__ import annotations

import uuid

from zskip.errors import InputError
from zskip.formats import owner
from zskip.storage import Storage


def begin(parent: Storage, name: str) -> str:
    """Make a hidden directory for the table `name` and sweep those of dead processes; returns the hidden name.

    parent: the directory in which the table is to be. Raises InputError where the place is taken, StorageError where
    the parent may not be written.
    """
    found = parent.stat(name)
    if found is not None and (not found.is_dir or parent.list_dir(name)):
        raise InputError(f'into="{parent.uri(name)}" is taken already; name a directory that does not exist yet')
    for path in abandoned(parent, name):
        parent.delete(path)
    hidden = f"{_prefix(name)}{uuid.uuid4().hex}"
    owner.claim(parent, hidden)
    return hidden


def abandoned(parent: Storage, name: str) -> list[str]:
    """The hidden directories for the table `name` whose processes are dead."""
    siblings = [s for s in parent.list_dir("") if s.is_dir and s.path.startswith(_prefix(name))]
    return sorted(s.path for s in siblings if owner.is_abandoned(parent, s))


def _prefix(name: str) -> str:
    return f".{name}.zskip-"


def publish(parent: Storage, hidden: str, name: str) -> None:
    """Give the finished table its name; raises InputError where somebody took it meanwhile."""
    owner.disclaim(parent, hidden)
    found = parent.stat(name)
    if found is not None and found.is_dir and not parent.list_dir(name):
        parent.delete(name)
    try:
        parent.rename(hidden, name)
    except FileExistsError as error:
        raise InputError(f'into="{parent.uri(name)}" was taken meanwhile; name another directory') from error
