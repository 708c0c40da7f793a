"""Directories that belong to a process until it commits: whose they are, and whether they may be swept."""

from __future__ import annotations

import json
import os
import socket
import time

from zskip.storage import FileInfo, Storage

_FILE = "_owner.json"
_ABANDONED_MS = 7 * 24 * 3600 * 1000


def claim(storage: Storage, directory: str) -> None:
    """Make a directory and write down that it is this process's; raises StorageError where that is not possible."""
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "started_ms": int(time.time() * 1000)}
    storage.write(f"{directory}/{_FILE}", json.dumps(owner).encode())


def release(storage: Storage, directory: str) -> None:
    """Take the note of the owner out of a directory that goes public."""
    storage.delete(f"{directory}/{_FILE}")


def is_claimed(storage: Storage, directory: str) -> bool:
    """Whether a directory has the note of an owner."""
    return storage.stat(f"{directory}/{_FILE}") is not None


def is_abandoned(storage: Storage, directory: FileInfo) -> bool:
    """Whether its process is dead, as far as this host can tell, or it has been there for a week."""
    now = int(time.time() * 1000)
    try:
        owner = json.loads(storage.read(f"{directory.path}/{_FILE}"))
        dead = owner["host"] == socket.gethostname() and not _alive(int(owner["pid"]))
        return bool(dead or now - int(owner["started_ms"]) > _ABANDONED_MS)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        changed = directory.mtime_ms
        if storage.kind == "objects":  # where directories have no time of their own
            changed = max((file.mtime_ms for file in storage.list_dir(directory.path)), default=0)
        return now - changed > _ABANDONED_MS


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
