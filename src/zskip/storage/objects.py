"""Object stores: S3 and what speaks its protocol, Google Cloud Storage, Azure, through `obstore`.

A store has no directories: one is there while a key begins with its name. A key is written whole or not at all, which
makes `write` a single request, and a rename is a copy.
"""

from __future__ import annotations

import contextlib
import posixpath
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from zskip.storage.base import FileInfo
from zskip.storage.failures import again, explained, no_condition
from zskip.storage.places import Place, connect, with_http
from zskip.storage.stream import ReadAhead

if TYPE_CHECKING:
    from obstore import ObjectMeta

_PAGE = 1000
"""Keys that a store lists in one answer."""
_DELETED_AT_ONCE = 10_000
_WRITER = "zskipwriter"
"""In an object's metadata: which call has written it."""


class ObjectStorage:
    """A place in a bucket or container."""

    kind: Literal["objects"] = "objects"

    def __init__(self, place: Place, options: Mapping[str, str]) -> None:
        """options: as deltalake and Polars name them; what they leave out comes from the environment.

        Raises InputError for an option that the store does not know, MissingDependencyError without `obstore`.
        """
        self._place = place
        self.options = with_http(place, options)
        self._store = connect(place, options)

    @property
    def root(self) -> str:
        """The URI of the root, nothing in it escaped."""
        return self.uri("")

    def uri(self, path: str) -> str:
        """The URI of a file, as DuckDB, Polars and Spark take it, nothing in it escaped."""
        return "/".join(part for part in (self._place.base, self._key(path)) if part)

    def _key(self, path: str) -> str:
        key = "/".join(part for part in (self._place.key, path) if part)
        return posixpath.normpath(key) if "../" in key else key

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        """All files below the root, but for names that `skip` accepts and what lies below such."""
        start = len(self._place.key) + bool(self._place.key)
        found: list[FileInfo] = []
        hidden: dict[str, bool] = {}
        for meta in self._below(""):
            path = meta["path"][start:]
            directory, _, name = path.rpartition("/")
            if directory not in hidden:
                hidden[directory] = any(skip(part) for part in directory.split("/") if part)
            if not hidden[directory] and not skip(name):
                found.append(_info(path, meta))
        return found

    def _below(self, path: str) -> Iterator[ObjectMeta]:
        """The objects below a directory, page by page."""
        import obstore

        pages, last = None, None

        def read() -> Sequence[ObjectMeta] | None:
            nonlocal pages
            if pages is None:
                pages = iter(obstore.list(self._store, self._key(path) or None, offset=last, chunk_size=_PAGE))
            try:
                return next(pages, None)
            except Exception:
                pages = None  # to go on after the last one that came
                raise

        while True:
            with explained("list", self.uri(path)):
                page = again(read)
            if page is None:
                return
            yield from page
            last = page[-1]["path"]

    def list_dir(self, path: str) -> list[FileInfo]:
        """What lies directly in a directory, which has no time; empty where there is none."""
        import obstore

        prefix = path + "/" if path else ""
        with explained("list", self.uri(path)):
            found = again(lambda: obstore.list_with_delimiter(self._store, self._key(path) or None))
        directories = [FileInfo(prefix + d.rpartition("/")[2], 0, 0, True) for d in found["common_prefixes"]]
        return directories + [_info(prefix + o["path"].rpartition("/")[2], o) for o in found["objects"]]

    def is_dir(self, path: str) -> bool:
        """Whether any key lies below the path."""
        return next(self._below(path), None) is not None

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory, or None where there is none; to the second, where listings may know milliseconds."""
        import obstore

        if (not path and self.is_dir(path)) or not self._key(path):
            return FileInfo(path, 0, 0, True)
        try:
            with explained("look at", self.uri(path)):
                return _info(path, again(lambda: obstore.head(self._store, self._key(path))))
        except FileNotFoundError:
            return FileInfo(path, 0, 0, True) if path and self.is_dir(path) else None

    def read(self, path: str) -> bytes:
        """The whole content; raises FileNotFoundError where there is none."""
        import obstore

        with explained("read", self.uri(path)):
            return again(lambda: bytes(obstore.get(self._store, self._key(path)).bytes()))

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """A seekable binary stream for reading; nothing is asked of the store before something is read."""
        return cast("BinaryIO", ReadAhead(self, path, size))

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Bytes of a file from `start` on, fewer where it ends before; raises FileNotFoundError where there is none."""
        import obstore

        with explained("read", self.uri(path)):
            return again(lambda: bytes(obstore.get_range(self._store, self._key(path), start=start, length=size)))

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file at once; raises FileExistsError where the path is taken and `overwrite` is false.

        By a conditional request. Where an answer is lost, the object itself says whose it is. A store that knows no
        conditions is looked at first, and two writers at once may then both succeed.
        """
        import obstore

        key = self._key(path)
        if overwrite:
            with explained("write", self.uri(path)):
                obstore.put(self._store, key, data)
            return
        writer = uuid.uuid4().hex
        try:
            with explained("write", self.uri(path)):
                try:
                    obstore.put(self._store, key, data, mode="create", attributes={_WRITER: writer})
                except Exception as error:
                    if not no_condition(error):
                        raise
                    if self.stat(path) is not None:
                        raise FileExistsError(f'"{self.uri(path)}" exists') from error
                    obstore.put(self._store, key, data)
        except FileNotFoundError:
            raise
        except Exception:
            if self._written_by(key) != writer:
                raise

    def is_exclusive(self) -> bool:
        """Whether the store knows conditional requests; tried on an object of its own."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        path = f"_zskip/.{uuid.uuid4().hex}.tmp"
        self.write(path, b"1", overwrite=True)
        try:
            obstore.put(self._store, self._key(path), b"2", mode="create")
        except AlreadyExistsError:
            return True
        except Exception as error:
            if not no_condition(error):
                raise
        finally:
            self.delete(path)
        return False

    def _written_by(self, key: str) -> object:
        import obstore

        with contextlib.suppress(Exception):
            return obstore.get(self._store, key).attributes.get(_WRITER)
        return None

    def rename(self, source: str, target: str) -> None:
        """Copy a file or all below a directory, then delete it where it was; makes no parents, which need none.

        Raises FileNotFoundError where there is no source and FileExistsError where there is a target.
        """
        import obstore

        if self.stat(target) is not None:
            raise FileExistsError(f'there is something already at "{self.uri(target)}"')
        found = self.stat(source)
        if found is None:
            raise FileNotFoundError(f'"{self.uri(source)}" does not exist')
        old, new = self._key(source), self._key(target)
        keys = [meta["path"] for meta in self._below(source)] if found.is_dir else [old]
        for key in keys:
            with explained("copy", f"{self._place.base}/{key}"):
                obstore.copy(self._store, key, new + key[len(old) :])
        self._remove(source, keys)

    def delete(self, path: str) -> None:
        """Remove a file and all below a directory; nothing where there is none."""
        self._remove(path, [meta["path"] for meta in self._below(path)])
        if self._key(path):
            self._remove(path, [self._key(path)])

    def _remove(self, path: str, keys: Sequence[str]) -> None:
        import obstore

        for start in range(0, len(keys), _DELETED_AT_ONCE):
            with explained("delete", self.uri(path)), contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, keys[start : start + _DELETED_AT_ONCE])


def _info(path: str, meta: ObjectMeta) -> FileInfo:
    return FileInfo(path, meta["size"], round(meta["last_modified"].timestamp() * 1000))
