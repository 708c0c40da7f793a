"""Hidden directories below `_zskip` that hold the files of a rewrite until they are committed."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from zskip.formats import claims
from zskip.formats.base import HOME
from zskip.formats.hive import is_hidden
from zskip.storage import FileInfo, Storage

STAGING = f"{HOME}/staging"


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


def list_data_files(storage: Storage, staging: str) -> list[FileInfo]:
    """The data files of a staging directory, in path order."""
    entries = storage.list_dir(staging)
    return sorted(f for f in entries if not f.is_dir and not is_hidden(f.path.rpartition("/")[2]))
