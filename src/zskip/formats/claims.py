"""Claims on directories: a directory belongs to a process until it commits, and is swept after the process has died."""

from __future__ import annotations

import json
import os
import socket
import time

from zskip.storage import FileInfo, Storage

_FILE = "_owner.json"
_ABANDONED_MS = 7 * 24 * 3600 * 1000


def claim(storage: Storage, directory: str) -> None:
    """Create a directory and record this process as its owner; raises StorageError if that is not possible."""
    storage.write(f"{directory}/{_FILE}", _owner())


def renew(storage: Storage, directory: str) -> None:
    """Record anew that this process is alive and owns a directory."""
    storage.write(f"{directory}/{_FILE}", _owner(), overwrite=True)


def renewed_ms(storage: Storage, directory: str) -> int | None:
    """When the owner last recorded itself, by the storage's clock; None where there is no record."""
    info = storage.stat(f"{directory}/{_FILE}")
    return None if info is None else info.mtime_ms


def _owner() -> bytes:
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "started_ms": int(time.time() * 1000)}
    return json.dumps(owner).encode()


def release(storage: Storage, directory: str) -> None:
    """Remove the owner's record from a directory that becomes public."""
    storage.delete(f"{directory}/{_FILE}")


def is_claimed(storage: Storage, directory: str) -> bool:
    """Whether a directory has an owner's record."""
    return storage.stat(f"{directory}/{_FILE}") is not None


def is_abandoned(storage: Storage, directory: FileInfo) -> bool:
    """Whether the owner is dead, as far as this host can tell, or the directory is a week old."""
    now = int(time.time() * 1000)
    try:
        owner = json.loads(storage.read(f"{directory.path}/{_FILE}"))
        is_dead = owner["host"] == socket.gethostname() and not _alive(int(owner["pid"]))
        return bool(is_dead or now - int(owner["started_ms"]) > _ABANDONED_MS)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        changed_ms = directory.mtime_ms
        if storage.kind == "objects":  # directories have no modification time
            changed_ms = max((file.mtime_ms for file in storage.list_dir(directory.path)), default=0)
        return now - changed_ms > _ABANDONED_MS


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
