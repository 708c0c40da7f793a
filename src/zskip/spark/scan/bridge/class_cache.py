"""Compiled classes in the user's cache, so that only the first session of a user compiles them.

A file holds the classes of one text of Java as a serialized map from names to bytes. Its name has the digest of all
that they were compiled from, and the digest of what it holds; a file that differs, or that others may write, is not
read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from zskip.spark.jvm.gateway import JavaObject, Jvm

_log = logging.getLogger("zskip.plans")
_ENDING = ".classes"
_MOST_FILES = 32


def key_of(jvm: Jvm, text: str, libraries: Sequence[JavaObject]) -> str | None:
    """Digest a text of Java and the jars that it is compiled against; None where they are not known.

    libraries: of each jar one `java.lang.Class`.
    """
    digest = hashlib.sha256(text.encode())
    digest.update(str(jvm.call("java.lang.System", "getProperty")("java.version")).encode())
    for library in libraries:
        source = library.getProtectionDomain().getCodeSource()
        if source is None:
            return None
        path = Path(source.getLocation().getPath())
        status = path.stat()
        digest.update(repr((str(path), status.st_size, status.st_mtime_ns)).encode())
    return digest.hexdigest()[:32]


def read_classes(jvm: Jvm, key: str) -> JavaObject | None:
    """The map of the classes under a key; None if there is none that can be trusted."""
    try:
        directory = _directory()
        for path in [] if directory is None else directory.glob(f"{key}-*{_ENDING}"):
            if _is_own(path) and path.name == _name(key, path):
                source = jvm.find("java.io.ObjectInputStream")(jvm.find("java.io.FileInputStream")(str(path)))
                try:
                    return source.readObject()
                finally:
                    source.close()
    except Exception:
        _log.debug("the cache of classes cannot be read", exc_info=True)
    return None


def write_classes(jvm: Jvm, key: str, classes: JavaObject) -> None:
    """Keep a map of classes under a key, in place of the oldest of many; where that fails, nothing is kept."""
    try:
        directory = _directory()
        if directory is None:
            return
        draft = directory / f"{key}.{os.getpid()}.part"
        target = jvm.find("java.io.ObjectOutputStream")(jvm.find("java.io.FileOutputStream")(str(draft)))
        try:
            target.writeObject(jvm.find("java.util.HashMap")(classes))
        finally:
            target.close()
        draft.chmod(0o600)
        draft.replace(directory / _name(key, draft))
        kept = sorted(directory.glob(f"*{_ENDING}"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_MOST_FILES]:
            path.unlink(missing_ok=True)
    except Exception:
        _log.debug("the classes are not kept", exc_info=True)


def _name(key: str, path: Path) -> str:
    return f"{key}-{hashlib.sha256(path.read_bytes()).hexdigest()[:32]}{_ENDING}"


def _directory() -> Path | None:
    """The user's own directory, made if it is missing; None where others may write it."""
    directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zskip"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory if _is_own(directory) else None


def _is_own(path: Path) -> bool:
    status = path.lstat()
    is_mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return is_mine and not stat.S_ISLNK(status.st_mode) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
