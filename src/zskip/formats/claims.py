"""Claims on directories: a directory belongs to a process until it commits, and is swept after the process has died.

The owner's record in the directory names its process, and a thread renews it, however long the work takes. Whether a
process of the same machine lives is known at once. Another one counts as dead when it has not renewed its record for a
day. A host's name and a process's number do not tell machines apart: containers share them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

from zskip.storage import FileInfo, Storage

_FILE = "_owner.json"
_RENEW_SECONDS = 60.0
_LEASE_MS = 24 * 3600 * 1000
_log = logging.getLogger("zskip")


class _Renewal:
    """Renews the records of all claims of this process."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Storage] = {}
        self._lock = threading.Lock()
        """Held during a renewal: it must not bring back a directory that its owner deletes."""
        self._thread: threading.Thread | None = None

    def add(self, storage: Storage, directory: str) -> None:
        self._claims[storage.root, directory] = storage
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._renew_periodically, name="zskip-claims", daemon=True)
            self._thread.start()

    def remove(self, storage: Storage, directory: str) -> None:
        if self._claims.pop((storage.root, directory), None) is not None:
            with self._lock:
                pass

    def _renew_periodically(self) -> None:
        while True:
            time.sleep(_RENEW_SECONDS)
            self.renew_all()

    def renew_all(self) -> None:
        for key, storage in list(self._claims.items()):
            try:
                with self._lock:
                    if key in self._claims and not _renew(storage, key[1]):
                        del self._claims[key]
            except Exception:
                _log.info('cannot renew the claim on "%s"', storage.uri(key[1]), exc_info=True)


_renewal = _Renewal()


def claim(storage: Storage, directory: str) -> None:
    """Create a directory and record this process as its owner; raises StorageError if that is not possible."""
    storage.write(f"{directory}/{_FILE}", _owner())
    _renewal.add(storage, directory)


def _renew(storage: Storage, directory: str) -> bool:
    """Record anew that this process owns a directory; False where there is no record any more."""
    if not is_claimed(storage, directory):
        return False
    storage.write(f"{directory}/{_FILE}", _owner(), overwrite=True)
    return True


def forget(storage: Storage, directory: str) -> None:
    """Renew this process's claim on a directory no more, which is about to be deleted."""
    _renewal.remove(storage, directory)


def release(storage: Storage, directory: str) -> None:
    """Remove the owner's record from a directory that becomes public."""
    forget(storage, directory)
    storage.delete(f"{directory}/{_FILE}")


def is_claimed(storage: Storage, directory: str) -> bool:
    """Whether a directory has an owner's record."""
    return storage.stat(f"{directory}/{_FILE}") is not None


def is_abandoned(storage: Storage, directory: FileInfo) -> bool:
    """Whether the owner is certainly dead, or lives elsewhere, if at all, and has not renewed its record for a day."""
    is_alive = None
    with contextlib.suppress(FileNotFoundError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        is_alive = _is_alive(json.loads(storage.read(f"{directory.path}/{_FILE}")))
    if is_alive is not None:
        return not is_alive
    record, changed_ms = storage.stat(f"{directory.path}/{_FILE}"), directory.mtime_ms
    if record is not None:
        changed_ms = record.mtime_ms
    elif storage.kind == "objects":  # directories have no modification time
        changed_ms = max((file.mtime_ms for file in storage.list_dir(directory.path)), default=0)
    return time.time() * 1000 - changed_ms > _LEASE_MS


def _owner() -> bytes:
    return json.dumps({"pid": os.getpid(), "started": _start_of("self"), **_machine()}).encode()


def _machine() -> dict[str, str | None]:
    """What tells process numbers apart: the host, the boot of its kernel, and the namespace of processes.

    Not known where the system does not say, or shows the processes of another namespace.
    """
    boot = namespace = None
    with contextlib.suppress(OSError):
        if os.readlink("/proc/self") == str(os.getpid()):
            namespace = os.readlink("/proc/self/ns/pid")
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
                boot = stream.read().strip()
    return {"host": socket.gethostname(), "boot": boot, "namespace": namespace}


def _start_of(pid: int | str) -> int | None:
    """When a process was started, in ticks since the boot: a later process may get the same number."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as stream:
        return int(stream.read().rpartition(b")")[2].split()[19])
    return None


def _is_alive(owner: Mapping[str, Any]) -> bool | None:
    """Whether a process lives; None where that is not certain.

    A namespace that got the number of an earlier one has other processes, which were started later.
    """
    machine, pid = _machine(), int(owner["pid"])
    if None in machine.values() or any(owner.get(name) != value for name, value in machine.items()):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    started = _start_of(pid)
    return None if started is None or owner.get("started") is None else started == owner["started"]
