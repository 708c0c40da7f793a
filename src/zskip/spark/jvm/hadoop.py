"""Storage over Hadoop's FileSystem: tables on any file system that the Spark session reaches."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, BinaryIO, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from zskip.errors import InputError, MissingDependencyError, StorageError
from zskip.spark.jvm.compat import check_session
from zskip.spark.jvm.compiled.lists import read_columns
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.remote import hdfs_options, is_only_for_hadoop, s3_options
from zskip.storage import FileInfo, Kind, LocalStorage, Storage, parse_object_uri
from zskip.storage.base import check_inside, identity_of_etag
from zskip.storage.stream import RangeStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATH = "org.apache.hadoop.fs.Path"
_CONDITIONAL_CREATE = "fs.option.create.conditional.overwrite"
"""Lets the store itself create a file only where there is none: Hadoop's S3A since 3.4.2."""
_CHUNK = 8 << 20
_BUFFER = 1 << 20
_TRIES = 5
_FEW_TRIES = {
    "s3a": {"max_retries": "2", "retry_timeout": "10s"},
    "hdfs": {"dfs.client.failover.max.attempts": "2"},
}
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{}",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "abfss": "org.apache.hadoop:hadoop-azure:{}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
}
"""The package with the file system of each scheme; `{}` stands for the version of Hadoop."""
_PUBLISHED_AT_CLOSE = ("s3a", "s3", "s3n", "gs", "oss", "cosn", "obs")
"""Object stores: an object appears when its stream is closed, and a rename is a copy that replaces its target."""
_log = logging.getLogger("zskip")
_ON_DISK = re.compile("file:(?://)?/(?!/)")


def storage_for(spark: SparkSession, path: str) -> Storage:
    """The storage of a table's directory; resolves the path as `spark.read.parquet(path)` does.

    Returns a LocalStorage where the path, or the session's default file system, is `file:`. Raises InputError for an
    empty path and StorageError where no file system accepts the path.
    """
    check_session(spark)
    if not path:
        raise InputError("the path is empty; give the directory of a table")
    if _ON_DISK.match(path):
        return LocalStorage(path)  # whatever the session's settings are, of which Hadoop copies all
    jvm = Jvm.of(spark)
    try:
        with translate_errors("open", path):
            files, root = _resolve(spark, jvm, path)
    except StorageError as error:
        raise _explain_missing_jars(spark, path, error) from error
    if files.getUri().getScheme() == "file":
        return LocalStorage(root.toUri().getPath())
    return HadoopStorage(spark, path)


def _explain_missing_jars(spark: SparkSession, path: str, error: StorageError) -> Exception:
    """The error to raise where the session does not reach a store, with the way out."""
    scheme, _, rest = path.partition("://")
    if scheme in ("s3", "s3n") and "No FileSystem" in str(error):
        return InputError(f'"{path}" is "s3a://{rest}" in Hadoop; write it that way')
    if scheme in _PACKAGES and ("ClassNotFound" in str(error) or "No FileSystem" in str(error)):
        version = Jvm.of(spark).find("org.apache.hadoop.util.VersionInfo").getVersion()
        return MissingDependencyError(
            f'the session has no file system for "{path}"; start it with '
            f'spark.jars.packages={_PACKAGES[scheme].format(version)}, or read the table with zskip.open("{path}")'
        )
    return error


def _resolve(spark: SparkSession, jvm: Jvm, path: str) -> tuple[JavaObject, JavaObject]:
    """The file system of a path, and the qualified path."""
    hadoop_path = jvm.find(_PATH)(path)
    files = hadoop_path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return files, files.makeQualified(hadoop_path)


class HadoopStorage:
    """A directory on a file system of Hadoop; `Storage` in the terms of `org.apache.hadoop.fs.FileSystem`."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = Jvm.of(spark)
        with translate_errors("open", path):
            self._files, self._root_path = _resolve(spark, self._jvm, path)
            self._root = str(self._root_path.toString()).rstrip("/")
            self._local = self._resolve_mount()

    def _resolve_mount(self) -> LocalStorage | None:
        """The local directory behind a mount: there, Hadoop has no rename that spares an existing target."""
        path = self._root_path
        while not self._files.exists(path) and path.getParent() is not None:
            path = path.getParent()
        real = self._files.resolvePath(path)
        if real.toUri().getScheme() != "file":
            return None
        rest = self._root[len(str(path.toString()).rstrip("/")) :]
        return LocalStorage(real.toUri().getPath() + rest)

    @property
    def kind(self) -> Kind:
        if self._local is not None:
            return "disk"
        return "objects" if self._files.getUri().getScheme() in _PUBLISHED_AT_CLOSE else "cluster"

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Address and credentials with which the session reaches an S3 store or HDFS, named as in deltalake."""
        read_options = {"s3a": s3_options, "hdfs": hdfs_options}.get(self._files.getUri().getScheme())
        return {} if read_options is None else read_options(self._files)

    def connecting(self, *, few_tries: bool = False) -> Callable[[], Storage] | None:
        """What reaches the same directory without Hadoop, from any process; None where that is not the same.

        few_tries: give up soon where the store does not answer.
        """
        scheme = self._files.getUri().getScheme()
        options = {**self.options, **(_FEW_TRIES.get(scheme, {}) if few_tries else {})}
        if scheme == "hdfs":
            from zskip.storage.hdfs import HdfsStorage

            return partial(HdfsStorage, self._root, options)
        place = parse_object_uri(self._root) if scheme == "s3a" else None
        if place is None or is_only_for_hadoop(self._files):
            return None
        from zskip.storage.objects import ObjectStorage

        return partial(ObjectStorage, place, options)

    @property
    def root(self) -> str:
        return self._root

    def uri(self, path: str) -> str:
        return f"{self._root}/{check_inside(path, self._root)}" if path else self._root

    def _path(self, path: str) -> JavaObject:
        return self._jvm.find(_PATH)(self.uri(path) or "/")

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        listing: Callable[[JavaObject], JavaObject] = self._jvm.call(
            "org.apache.hadoop.util.functional.RemoteIterators", "toList"
        )
        for attempt in range(_TRIES):
            try:
                with translate_errors("list", self._root):
                    statuses = listing(self._files.listFiles(self._root_path, True))
                break
            except FileNotFoundError:  # a directory disappeared during the listing
                if attempt == _TRIES - 1 or not self._files.exists(self._root_path):
                    return []
        return [f for f in self._fetch(statuses) if not any(skip(name) for name in f.path.split("/"))]

    def list_dir(self, path: str) -> list[FileInfo]:
        with contextlib.suppress(FileNotFoundError), translate_errors("list", self.uri(path)):
            iterator = self._files.listStatusIterator(self._path(path))
            statuses = self._jvm.call("org.apache.hadoop.util.functional.RemoteIterators", "toList")(iterator)
            return [f for f in self._fetch(statuses) if f.path != path]
        return []

    def _fetch(self, statuses: JavaObject) -> list[FileInfo]:
        """Fetch a `java.util.List` of FileStatus from the JVM."""
        columns = read_columns(self._jvm, statuses, *_GETTERS, *[_ETAG] * self._has_etags)
        if not self._has_etags:
            columns.append([None] * len(columns[0]))
        start = len(self._root) + 1
        return [
            FileInfo(path[start:], 0 if is_dir else size, time, is_dir, identity_of_etag(etag))
            for path, size, time, is_dir, etag in zip(*columns, strict=True)
        ]

    @cached_property
    def _has_etags(self) -> bool:
        """Whether all statuses of the file system have an ETag."""
        return self._files.getUri().getScheme() in _SCHEMES_WITH_ETAGS

    def stat(self, path: str) -> FileInfo | None:
        with contextlib.suppress(FileNotFoundError), translate_errors("look at", self.uri(path)):
            status = self._files.getFileStatus(self._path(path))
            is_dir = status.isDirectory()
            identity = identity_of_etag(status.getEtag()) if self._has_etags and not is_dir else 0
            return FileInfo(path, 0 if is_dir else status.getLen(), status.getModificationTime(), is_dir, identity)
        return None

    def read(self, path: str) -> bytes:
        with translate_errors("read", self.uri(path)):
            for _ in range(3):
                try:
                    return self._read(path)
                except Py4JJavaError as error:
                    # HDFS says so of a file that is overwritten meanwhile, and has the new one whole.
                    if "has changed" not in str(error.java_exception.getMessage()):
                        raise
            return self._read(path)

    def _read(self, path: str) -> bytes:
        stream = self._files.open(self._path(path))
        try:
            return b"".join(iter(lambda: bytes(stream.readNBytes(_CHUNK)), b""))
        finally:
            stream.close()

    def is_dir(self, path: str) -> bool:
        info = self.stat(path)
        return info is not None and info.is_dir

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        with translate_errors("open", self.uri(path)):
            if size is None:
                size = int(self._files.getFileStatus(self._path(path)).getLen())
            raw = _Stream(self._open_stream(path, size), size, self.uri(path))
        return cast("BinaryIO", io.BufferedReader(raw, _BUFFER))

    def _open_stream(self, path: str, size: int) -> JavaObject:
        """An input stream; knowing the size saves the store a request."""
        builder = self._files.openFile(self._path(path)).opt("fs.option.openfile.length", str(size))
        return builder.opt("fs.option.openfile.read.policy", "random").build().get()

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file atomically; raises FileExistsError where the path exists and `overwrite` is false.

        HDFS and its like publish by a rename, object stores at the close of a conditional upload, mounted local
        directories by a hard link. An upload whose response was lost has succeeded if the file holds the data.
        """
        if self._local is not None:
            return self._local.write(path, data, overwrite=overwrite)
        with translate_errors("write", self.uri(path)):
            if self._files.getUri().getScheme() in _PUBLISHED_AT_CLOSE:
                return self._write_object(path, data, overwrite)
            target = self._path(path)
            hidden = self._jvm.find(_PATH)(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}.tmp")
            try:
                self._upload(hidden, data, False)
                (self._replace if overwrite else self._move)(hidden, target)
            finally:
                self._files.delete(hidden, False)

    def _write_object(self, path: str, data: bytes, overwrite: bool) -> None:
        try:
            self._upload(self._path(path), data, overwrite)
        except Py4JJavaError as error:
            if overwrite or not is_java_error(error, *_EXISTS_ERRORS):
                raise
            if self.read(path) != data:
                raise FileExistsError(f'there is something already at "{self.uri(path)}"') from error

    def _upload(self, target: JavaObject, data: bytes, overwrite: bool) -> None:
        builder = self._files.createFile(target).recursive().overwrite(overwrite)
        if not overwrite:
            builder = builder.opt(_CONDITIONAL_CREATE, "true")
        stream = builder.build()
        try:
            for start in range(0, len(data), _CHUNK):
                stream.write(data[start : start + _CHUNK])
        except BaseException:
            with contextlib.suppress(Py4JJavaError):
                stream.abort()
            raise
        finally:
            stream.close()

    def is_exclusive(self) -> bool:
        """Whether only one of several concurrent writers of a path succeeds: tries it on object stores, else true."""
        if self.kind != "objects":
            return True
        if self._files.getUri().getScheme() == "s3a":
            with translate_errors("look at", self._root):
                if not self._files.hasPathCapability(self._root_path, _CONDITIONAL_CREATE):
                    return False
        path = f"_zskip/.{uuid.uuid4().hex}.tmp"
        try:
            self.write(path, b"1")
            self.write(path, b"2")
        except FileExistsError:
            return True
        finally:
            self.delete(path)
        return False

    def rename(self, source: str, target: str) -> None:
        if self._local is not None:
            return self._local.rename(source, target)
        if self.kind == "objects" and self._has_copied(source, target):
            return
        with translate_errors("move", self.uri(source)):
            target_path = self._path(target)
            self._files.getFileStatus(self._path(source))
            self._files.mkdirs(target_path.getParent())
            self._move(self._path(source), target_path)

    def _has_copied(self, source: str, target: str) -> bool:
        """Move an object without Hadoop, which asks the store some fifteen times about what may be directories."""
        if self._store is None:
            return False
        try:
            self._store.rename(source, target)
        except FileNotFoundError:
            return False  # Hadoop says so, unless it looks in another store.
        except StorageError as error:
            _log.info("Hadoop itself moves what is in %s: %s", self._root, error)
            self._store = None
            return False
        return True

    @cached_property
    def _store(self) -> Storage | None:
        try:
            connect = self.connecting()
            return None if connect is None else connect()
        except (InputError, MissingDependencyError):
            return None

    def _replace(self, source: JavaObject, target: JavaObject) -> None:
        """Move a file over another one, atomically unless a third-party file system has no such rename."""
        find = self._jvm.call("org.apache.hadoop.fs.FileContext", "getFileContext")
        rename = self._jvm.find("org.apache.hadoop.fs.Options$Rename")
        try:
            context = find(self._files.getUri(), self._files.getConf())
        except Py4JJavaError:
            self._files.delete(target, False)
            return self._move(source, target)
        context.rename(source, target, self._jvm.array("org.apache.hadoop.fs.Options$Rename", [rename.OVERWRITE]))

    def _move(self, source: JavaObject, target: JavaObject) -> None:
        if self._files.exists(target):
            raise FileExistsError(f"there is something already at {target.toString()}")
        if not self._files.rename(source, target):
            if self._files.exists(target):
                raise FileExistsError(f"there is something already at {target.toString()}")
            raise StorageError(
                f'cannot move "{source.toString()}" to "{target.toString()}": the file system refused; '
                "check permissions and quotas"
            )

    def delete(self, path: str) -> None:
        if self._local is not None:
            return self._local.delete(path)
        with contextlib.suppress(FileNotFoundError), translate_errors("delete", self.uri(path)):
            self._files.delete(self._path(path), True)


_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"
_EXISTS_ERRORS = (_EXISTS, "org.apache.hadoop.fs.s3a.RemoteFileChangedException")
"""What a conditional upload raises where the file exists."""
_GETTERS = ("getPath.toString", "getLen", "getModificationTime", "isDirectory")
_ETAG = "getEtag"
_SCHEMES_WITH_ETAGS = ("s3a", "abfs", "abfss")


class _Stream(RangeStream):
    """An `FSDataInputStream` as a Python stream."""

    def __init__(self, stream: JavaObject, size: int, name: str) -> None:
        super().__init__()
        self._stream = stream
        self._size = size
        self._name = name

    def _length(self) -> int:
        return self._size

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._next(_CHUNK), b""))

    def _next(self, count: int) -> bytes:
        count = min(count, self._size - self._position, _CHUNK)
        if count <= 0:
            return b""
        with translate_errors("read", self._name):
            self._stream.seek(self._position)
            data = bytes(self._stream.readNBytes(count))
        self._position += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(Exception):
                self._stream.close()
        super().close()


def is_java_error(error: Py4JJavaError, *names: str) -> bool:
    """Whether a Java exception is an instance of one of these classes."""
    java_class = error.java_exception.getClass()
    while java_class is not None:
        if java_class.getName() in names:
            return True
        java_class = java_class.getSuperclass()
    return False


def _is_missing(error: Py4JJavaError) -> bool:
    """Whether a file does not exist, or its parent is a file, which HDFS reports as a lack of permission."""
    if is_java_error(error, "java.io.FileNotFoundException", "org.apache.hadoop.fs.ParentNotDirectoryException"):
        return True
    denied = is_java_error(error, "org.apache.hadoop.security.AccessControlException")
    return denied and "(is not a directory)" in str(error.java_exception.getMessage())


@contextlib.contextmanager
def translate_errors(action: str, path: str) -> Iterator[None]:
    """Raise Java's errors as FileNotFoundError, FileExistsError or StorageError."""
    try:
        yield
    except CapturedException as error:
        raise StorageError(f'cannot {action} "{path}": {error}') from error
    except Py4JJavaError as error:
        message = f'cannot {action} "{path}": {error.java_exception.toString()}'
        if action != "write" and _is_missing(error):
            raise FileNotFoundError(message) from error
        if is_java_error(error, _EXISTS):
            raise FileExistsError(message) from error
        raise StorageError(message) from error
