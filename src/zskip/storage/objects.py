"""Object stores through `obstore`: S3 and compatible stores, Google Cloud Storage, Azure.

A store has no directories: one exists while a key begins with its name. A key is written whole or not at all, so
`write` is a single request, and a rename is a copy.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from zskip.storage.base import FileInfo, check_inside, identity_of_etag
from zskip.storage.failures import lacks_conditional_writes, retry_broken, translating_errors
from zskip.storage.object_client import allow_plain_http, connect
from zskip.storage.object_uri import ObjectUri
from zskip.storage.stream import ReadAhead

if TYPE_CHECKING:
    from obstore import ObjectMeta

_PAGE = 1000
"""Keys in one page of a listing."""
_DELETED_AT_ONCE = 10_000
_WRITER = "zskipwriter"
"""The metadata key that identifies the call that wrote an object."""


class ObjectStorage:
    """A directory in a bucket or container."""

    kind: Literal["objects"] = "objects"

    def __init__(self, uri: ObjectUri, options: Mapping[str, str]) -> None:
        """options: as deltalake and Polars name them; the rest come from the environment.

        Raises InputError for an option that the store does not know, MissingDependencyError without `obstore`.
        """
        self._location = uri
        self.options = allow_plain_http(uri, options)
        self._store = connect(uri, options)

    @property
    def root(self) -> str:
        return self.uri("")

    def uri(self, path: str) -> str:
        return "/".join(part for part in (self._location.base, self._key(path)) if part)

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._location.key, check_inside(path, self._location.base)) if part)

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        root_length = len(self._location.key) + bool(self._location.key)
        files: list[FileInfo] = []
        hidden: dict[str, bool] = {}
        for meta in self._list_below(""):
            path = meta["path"][root_length:]
            directory, _, name = path.rpartition("/")
            if directory not in hidden:
                hidden[directory] = any(skip(part) for part in directory.split("/") if part)
            if not hidden[directory] and not skip(name):
                files.append(_info(path, meta))
        return files

    def _list_below(self, path: str) -> Iterator[ObjectMeta]:
        """The objects below a directory, fetched page by page."""
        import obstore

        pages, last_key = None, None

        def read() -> Sequence[ObjectMeta] | None:
            nonlocal pages
            if pages is None:
                pages = iter(obstore.list(self._store, self._key(path) or None, offset=last_key, chunk_size=_PAGE))
            try:
                return next(pages, None)
            except Exception:
                pages = None  # the next attempt continues after the last key received
                raise

        while True:
            with translating_errors("list", self.uri(path)):
                page = retry_broken(read)
            if page is None:
                return
            yield from page
            last_key = page[-1]["path"]

    def list_dir(self, path: str) -> list[FileInfo]:
        """All entries directly in a directory, which has no time; empty if it does not exist."""
        import obstore

        prefix = path + "/" if path else ""
        with translating_errors("list", self.uri(path)):
            listing = retry_broken(lambda: obstore.list_with_delimiter(self._store, self._key(path) or None))
        directories = [FileInfo(prefix + d.rpartition("/")[2], 0, 0, True) for d in listing["common_prefixes"]]
        return directories + [_info(prefix + o["path"].rpartition("/")[2], o) for o in listing["objects"]]

    def is_dir(self, path: str) -> bool:
        """Whether any key lies below the path."""
        return next(self._list_below(path), None) is not None

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory; None if it does not exist. The time is in seconds, in listings in milliseconds."""
        import obstore

        if (not path and self.is_dir(path)) or not self._key(path):
            return FileInfo(path, 0, 0, True)
        try:
            with translating_errors("look at", self.uri(path)):
                return _info(path, retry_broken(lambda: obstore.head(self._store, self._key(path))))
        except FileNotFoundError:
            return FileInfo(path, 0, 0, True) if path and self.is_dir(path) else None

    def read(self, path: str) -> bytes:
        import obstore

        with translating_errors("read", self.uri(path)):
            return retry_broken(lambda: bytes(obstore.get(self._store, self._key(path)).bytes()))

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """A seekable binary stream for reading; sends no request before the first read."""
        return cast("BinaryIO", ReadAhead(self, path, size))

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Bytes of a file from `start` on, fewer at its end; raises FileNotFoundError if it does not exist."""
        import obstore

        with translating_errors("read", self.uri(path)):
            return retry_broken(
                lambda: bytes(obstore.get_range(self._store, self._key(path), start=start, length=size))
            )

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file atomically; raises FileExistsError if the path is taken and `overwrite` is false.

        Uses a conditional request. If its answer is lost, the object's metadata tell whose it is. Without support for
        conditions the path is checked first, and then two simultaneous writers may both succeed.
        """
        import obstore

        key = self._key(path)
        if overwrite:
            with translating_errors("write", self.uri(path)):
                obstore.put(self._store, key, data)
            return
        writer = uuid.uuid4().hex
        try:
            with translating_errors("write", self.uri(path)):
                try:
                    obstore.put(self._store, key, data, mode="create", attributes={_WRITER: writer})
                except Exception as error:
                    if not lacks_conditional_writes(error):
                        raise
                    if self.stat(path) is not None:
                        raise FileExistsError(f'"{self.uri(path)}" exists') from error
                    obstore.put(self._store, key, data)
        except FileNotFoundError:
            raise
        except Exception:
            if self._writer_of(key) != writer:
                raise

    def is_exclusive(self) -> bool:
        """Whether the store honors conditional requests, probed with an object of its own."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        path = f"_zskip/.{uuid.uuid4().hex}.tmp"
        self.write(path, b"1", overwrite=True)
        try:
            obstore.put(self._store, self._key(path), b"2", mode="create")
        except AlreadyExistsError:
            return True
        except Exception as error:
            if not lacks_conditional_writes(error):
                raise
        finally:
            self.delete(path)
        return False

    def _writer_of(self, key: str) -> object:
        import obstore

        with contextlib.suppress(Exception):
            return obstore.get(self._store, key).attributes.get(_WRITER)
        return None

    def rename(self, source: str, target: str) -> None:
        """Copy a file, or everything below a directory, then delete the source; a target needs no parents.

        Raises FileNotFoundError if the source does not exist and FileExistsError if the target does.
        """
        import obstore

        if self.stat(target) is not None:
            raise FileExistsError(f'there is something already at "{self.uri(target)}"')
        info = self.stat(source)
        if info is None:
            raise FileNotFoundError(f'"{self.uri(source)}" does not exist')
        old, new = self._key(source), self._key(target)
        keys = [meta["path"] for meta in self._list_below(source)] if info.is_dir else [old]
        for key in keys:
            with translating_errors("copy", f"{self._location.base}/{key}"):
                obstore.copy(self._store, key, new + key[len(old) :])
        self._remove(source, keys)

    def delete(self, path: str) -> None:
        """Remove a file and everything below a directory; nothing happens if it does not exist."""
        self._remove(path, [meta["path"] for meta in self._list_below(path)])
        if self._key(path):
            self._remove(path, [self._key(path)])

    def _remove(self, path: str, keys: Sequence[str]) -> None:
        import obstore

        for start in range(0, len(keys), _DELETED_AT_ONCE):
            with translating_errors("delete", self.uri(path)), contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, keys[start : start + _DELETED_AT_ONCE])


def _info(path: str, meta: ObjectMeta) -> FileInfo:
    mtime_ms = round(meta["last_modified"].timestamp() * 1000)
    return FileInfo(path, meta["size"], mtime_ms, False, identity_of_etag(meta["e_tag"]))
