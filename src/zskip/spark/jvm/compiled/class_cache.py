"""Compiled classes in the user's cache, so that only the first session of a user compiles them.

A file holds the classes of one text of Java as a serialized map from names to bytes. Its name has the digest of all
that they were compiled from, and the digest of what it holds; a file that differs, or that others may write, is not
read. Whatever fails here costs the time to compile, and is logged once.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from zskip.spark.jvm.gateway import JavaObject, Jvm

_log = logging.getLogger("zskip.plans")
_ENDING = ".classes"
_DRAFT = ".part"
_MOST_FILES = 32
_DRAFT_SECONDS = 3600
"""After this time a draft is the remains of a process that has ended."""


def key_of(jvm: Jvm, text: str, libraries: Sequence[JavaObject]) -> str | None:
    """Digest a text of Java and the jars that it is compiled against; None where they are not known.

    libraries: of each jar one `java.lang.Class`.
    """
    try:
        digest = hashlib.sha256(text.encode())
        digest.update(str(jvm.call("java.lang.System", "getProperty")("java.version")).encode())
        for library in libraries:
            source = library.getProtectionDomain().getCodeSource()
            if source is None:
                return None
            path = Path(jvm.find("java.io.File")(source.getLocation().toURI()).getPath())
            status = path.stat()
            digest.update(repr((str(path), status.st_size, status.st_mtime_ns)).encode())
        return digest.hexdigest()[:32]
    except Exception:
        _log_failure("the jars that zskip's Java is compiled against cannot be looked at")
        return None


def read_classes(jvm: Jvm, key: str) -> JavaObject | None:
    """The map of the classes under a key; None if there is none that can be trusted."""
    try:
        directory = _directory()
        for path in [] if directory is None else directory.glob(f"{key}-*{_ENDING}"):
            if _is_own(path) and path.name == _name(key, path):
                source = jvm.find("java.io.ObjectInputStream")(jvm.find("java.io.FileInputStream")(str(path)))
                try:
                    classes = source.readObject()
                finally:
                    source.close()
                os.utime(path)
                return classes
    except Exception:
        _log_failure("the cache of classes cannot be read")
    return None


def write_classes(jvm: Jvm, key: str, classes: JavaObject) -> None:
    """Keep a map of classes under a key; of too many maps, those that were not used for the longest time go."""
    try:
        directory = _directory()
        if directory is None:
            return
        draft = directory / f"{key}.{os.getpid()}{_DRAFT}"
        target = jvm.find("java.io.ObjectOutputStream")(jvm.find("java.io.FileOutputStream")(str(draft)))
        try:
            target.writeObject(jvm.find("java.util.HashMap")(classes))
        finally:
            target.close()
        draft.chmod(0o600)
        draft.replace(directory / _name(key, draft))
        by_use = sorted(directory.glob(f"*{_ENDING}"), key=lambda path: path.stat().st_mtime)
        drafts = directory.glob(f"*{_DRAFT}")
        old = [path for path in drafts if path.stat().st_mtime < time.time() - _DRAFT_SECONDS]
        for path in by_use[:-_MOST_FILES] + old:
            path.unlink(missing_ok=True)
    except Exception:
        _log_failure("the compiled classes are not kept")


@functools.cache
def _log_failure(text: str) -> None:
    """Log the exception that is being handled, once a process: the Java is compiled without the cache."""
    _log.info("%s, so zskip compiles its Java in each session", text, exc_info=True)


def _name(key: str, path: Path) -> str:
    return f"{key}-{hashlib.sha256(path.read_bytes()).hexdigest()[:32]}{_ENDING}"


def _directory() -> Path | None:
    """The user's own directory, created if it is missing; None where others may write it."""
    directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zskip"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory if _is_own(directory) else None


def _is_own(path: Path) -> bool:
    status = path.lstat()
    is_mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return is_mine and not stat.S_ISLNK(status.st_mode) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
