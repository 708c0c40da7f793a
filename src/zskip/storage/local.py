"""The local file system."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Literal

from zskip.errors import InputError, StorageError
from zskip.storage.base import FileInfo, check_inside, identity_on_disk, outside_error

_ADVICE = {
    errno.ENOSPC: "the disk is full; free space and call again",
    errno.EDQUOT: "the quota is used up; free space and call again",
    errno.EFBIG: "the file would be larger than allowed here; raise the limit and call again",
    errno.EACCES: "no permission; run as a user who may write there, or write elsewhere with into= or index_path=",
    errno.EPERM: "not permitted; run as a user who may write there, or write elsewhere with into= or index_path=",
    errno.EROFS: "the file system is read-only; write elsewhere with into= or index_path=",
}


class LocalStorage:
    """A directory on a disk of this machine."""

    kind: Literal["disk"] = "disk"
    options: Mapping[str, str] = MappingProxyType({})

    def __init__(self, root: str) -> None:
        text = root[len("file:") :] if root.startswith("file:") else root
        self._root = os.path.abspath(os.path.expanduser("/" + text.lstrip("/") if root.startswith("file:") else text))

    @property
    def root(self) -> str:
        return self._root

    def uri(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{check_inside(path, self._root)}" if path else self._root

    def _place(self, path: str) -> str:
        """The absolute path of what is moved or deleted; raises StorageError if a link on the way leads out."""
        place, inside = self.uri(path), self._root
        for part in path.split("/")[:-1]:
            inside = os.path.join(inside, part)
            if os.path.islink(inside):
                root = os.path.realpath(self._root).rstrip(os.sep) + os.sep
                if not os.path.realpath(inside).startswith(root):
                    raise outside_error(path, self._root)
        return place

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        files: list[FileInfo] = []
        directories = [""]
        with _translating_errors("list", self._root):
            while directories:
                directory = directories.pop()
                prefix = directory + "/" if directory else ""
                with contextlib.suppress(FileNotFoundError), os.scandir(self.uri(directory)) as entries:
                    for entry in entries:
                        if skip(entry.name):
                            continue
                        try:
                            if entry.is_dir():
                                directories.append(prefix + entry.name)
                            else:
                                files.append(_info(prefix + entry.name, entry.stat()))
                        except OSError as error:
                            _pass_dead_link(error)
        return files

    def list_dir(self, path: str) -> list[FileInfo]:
        prefix = path + "/" if path else ""
        infos = []
        with _translating_errors("list", self.uri(path)):
            try:
                entries = list(os.scandir(self.uri(path)))
            except (FileNotFoundError, NotADirectoryError):
                return []
            for entry in entries:
                try:
                    infos.append(_info(prefix + entry.name, entry.stat(), is_dir=entry.is_dir()))
                except OSError as error:
                    _pass_dead_link(error)
        return infos

    def stat(self, path: str) -> FileInfo | None:
        with _translating_errors("look at", self.uri(path)):
            try:
                stat = os.stat(self.uri(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _info(path, stat, is_dir=os.path.isdir(self.uri(path)))

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(self.uri(path))

    def read(self, path: str) -> bytes:
        with _translating_errors("read", self.uri(path)), _missing_below_a_file():
            return Path(self.uri(path)).read_bytes()

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        with _translating_errors("open", self.uri(path)), _missing_below_a_file():
            return open(self.uri(path), "rb")

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file atomically; raises FileExistsError if the path is taken and `overwrite` is false.

        Only a hard link publishes a whole file under a name on condition that the name is free.
        """
        target = self.uri(path)
        parent, name = os.path.split(target)
        hidden = os.path.join(parent, f".{name}.{uuid.uuid4().hex}.tmp")
        with _translating_errors("write", target):
            os.makedirs(parent, exist_ok=True)
            try:
                with open(hidden, "xb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                if overwrite:
                    os.replace(hidden, target)
                else:
                    _publish(hidden, target)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(hidden)
            _sync(parent)

    def is_exclusive(self) -> bool:
        """Always: hard links are exclusive, and so is the fallback where the file system has none."""
        return True

    def rename(self, source: str, target: str) -> None:
        old, new = self._place(source), self._place(target)
        with _translating_errors("move", old):
            os.makedirs(os.path.dirname(new), exist_ok=True)
            if os.path.isdir(old):
                _rename(old, new)
            else:
                _move(old, new)
            _sync(os.path.dirname(new))
            _sync(os.path.dirname(old))

    def delete(self, path: str) -> None:
        target = self._place(path)
        with _translating_errors("delete", target), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if os.path.isdir(target) and not os.path.islink(target):
                shutil.rmtree(target, onerror=_ignore_missing)
            else:
                os.unlink(target)


def _info(path: str, stat: os.stat_result, *, is_dir: bool = False) -> FileInfo:
    mtime_ms = stat.st_mtime_ns // 1_000_000
    if is_dir:
        return FileInfo(path, 0, mtime_ms, True)
    return FileInfo(path, stat.st_size, mtime_ms, False, identity_on_disk(stat.st_ino, stat.st_ctime_ns))


_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def _link(source: str, target: str) -> None:
    """Give a file a second name; raises FileExistsError if that is taken by another file.

    NFS sends a request again if the reply was lost, and then says that the name is taken.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        if not _is_one_file(source, target):
            raise


def _is_one_file(path: str, other: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return path != other and os.path.samestat(os.lstat(path), os.lstat(other))
    return False


def _publish(source: str, target: str) -> None:
    try:
        _link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links here: reserve the name first, so that one of two writers still loses.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        os.replace(source, target)


def _move(source: str, target: str) -> None:
    try:
        _link(source, target)
    except OSError as error:
        if error.errno == errno.EXDEV:
            _move_across_disks(source, target)
            return
        if error.errno not in _NO_LINKS:
            raise
        # Not reserved as in `_publish`: after a crash, the empty file would pass for the moved one.
        _rename(source, target)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(source)


def _rename(source: str, target: str) -> None:
    """Move a file or directory to a name that is free; a lost reply of NFS, after which it is gone, is no failure."""
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "there is something already", target)
    moved = os.stat(source)
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if not (os.path.exists(target) and os.path.samestat(moved, os.stat(target))):
            raise


def _move_across_disks(source: str, target: str) -> None:
    """Move a file to a directory on another disk, or under another mount: it appears whole there or not at all."""
    parent, name = os.path.split(target)
    hidden = os.path.join(parent, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        shutil.copy2(source, hidden)
        with open(hidden, "rb") as stream:
            os.fsync(stream.fileno())
        _move(hidden, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(hidden)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(source)


def _sync(directory: str) -> None:
    """Make renames durable if the system can sync a directory."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _ignore_missing(_function: object, _path: str, problem: tuple[type, BaseException, object]) -> None:
    if not isinstance(problem[1], FileNotFoundError):
        raise problem[1]


@contextlib.contextmanager
def _missing_below_a_file() -> Iterator[None]:
    try:
        yield
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, "no such file", error.filename) from error


def _pass_dead_link(error: OSError) -> None:
    """Leave out files that are gone, and links that lead nowhere or to themselves; raise other errors."""
    if not isinstance(error, FileNotFoundError) and error.errno != errno.ELOOP:
        raise error


@contextlib.contextmanager
def _translating_errors(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "see the cause above")
        raise StorageError(f'cannot {action} "{path}": {error.strerror}; {advice}') from error
    except ValueError as error:
        raise InputError(f"cannot {action} {path!r}: {error}; give another path") from error
