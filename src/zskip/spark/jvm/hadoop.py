"""Tables wherever the Spark session reaches: storage over Hadoop's FileSystem."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from zskip.errors import InputError, MissingDependencyError, StorageError
from zskip.spark.jvm.compat import check_session
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.remote import hdfs_options, s3_options
from zskip.storage import FileInfo, Kind, LocalStorage, Storage
from zskip.storage.stream import RangeStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATH = "org.apache.hadoop.fs.Path"
_STATUS = "org.apache.hadoop.fs.FileStatus"
_CONDITIONAL = "fs.option.create.conditional.overwrite"
"""That a file is only created where there is none, by the store itself: Hadoop's S3A from 3.4.2 on."""
_CHUNK = 8 << 20
_BUFFER = 1 << 20
_TRIES = 5
_MODULES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{}",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "abfss": "org.apache.hadoop:hadoop-azure:{}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
}
"""What brings a file system, by the version of Hadoop."""
_PUBLISHED_AT_CLOSE = ("s3a", "s3", "s3n", "gs", "oss", "cosn", "obs")
"""Object stores: an object appears when its stream is closed, and a rename is a copy that replaces its target."""


def storage_for(spark: SparkSession, path: str) -> Storage:
    """The storage of a table's directory, as `spark.read.parquet(path)` would resolve the path.

    A local directory where the path, or the session's default file system, is `file:`. Raises InputError for an
    empty path and StorageError where no file system knows the path.
    """
    check_session(spark)
    if not path:
        raise InputError("the path is empty; give the directory of a table")
    jvm = Jvm.of(spark)
    try:
        with translate_errors("open", path):
            files, root = _resolve(spark, jvm, path)
    except StorageError as error:
        raise _without_jars(spark, path, error) from error
    if files.getUri().getScheme() == "file":
        return LocalStorage(root.toUri().getPath())
    return HadoopStorage(spark, path)


def _without_jars(spark: SparkSession, path: str, error: StorageError) -> Exception:
    """What to do where the session does not reach a store."""
    scheme, _, rest = path.partition("://")
    if scheme in ("s3", "s3n") and "No FileSystem" in str(error):
        return InputError(f'"{path}" is "s3a://{rest}" to Hadoop; write it so')
    if scheme in _MODULES and ("ClassNotFound" in str(error) or "No FileSystem" in str(error)):
        version = Jvm.of(spark).find("org.apache.hadoop.util.VersionInfo").getVersion()
        return MissingDependencyError(
            f'the session has no file system for "{path}"; start it with '
            f'spark.jars.packages={_MODULES[scheme].format(version)}, or read the table with zskip.open("{path}")'
        )
    return error


def _resolve(spark: SparkSession, jvm: Jvm, path: str) -> tuple[JavaObject, JavaObject]:
    """The file system of a path and the path in full."""
    given = jvm.find(_PATH)(path)
    files = given.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    return files, files.makeQualified(given)


class HadoopStorage:
    """A directory on a file system of Hadoop; `Storage` in the terms of `org.apache.hadoop.fs.FileSystem`."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = Jvm.of(spark)
        with translate_errors("open", path):
            self._files, self._root_path = _resolve(spark, self._jvm, path)
            self._root = str(self._root_path.toString()).rstrip("/")
            self._local = self._below()

    def _below(self) -> LocalStorage | None:
        """The local directory that a mount leads to, for which Hadoop has no rename that spares an existing target."""
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
        """What is fast there and what is slow."""
        if self._local is not None:
            return "disk"
        return "objects" if self._files.getUri().getScheme() in _PUBLISHED_AT_CLOSE else "cluster"

    @cached_property
    def options(self) -> Mapping[str, str]:
        """Where and as whom the session reaches an S3 store or HDFS, in the words of deltalake."""
        found = {"s3a": s3_options, "hdfs": hdfs_options}.get(self._files.getUri().getScheme())
        return {} if found is None else found(self._files)

    @property
    def root(self) -> str:
        """The URI of the root, nothing in it escaped."""
        return self._root

    def uri(self, path: str) -> str:
        """The URI of a file, as Spark takes it."""
        return f"{self._root}/{path}" if path else self._root

    def _at(self, path: str) -> JavaObject:
        return self._jvm.find(_PATH)(self.uri(path) or "/")

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        """All files below the root, but for names that `skip` accepts and what lies below such."""
        listing: Callable[[JavaObject], JavaObject] = self._jvm.call(
            "org.apache.hadoop.util.functional.RemoteIterators", "toList"
        )
        for attempt in range(_TRIES):
            try:
                with translate_errors("list", self._root):
                    statuses = listing(self._files.listFiles(self._root_path, True))
                break
            except FileNotFoundError:  # a directory went away while it was being listed
                if attempt == _TRIES - 1 or not self._files.exists(self._root_path):
                    return []
        return [f for f in self._bring(statuses) if not any(skip(name) for name in f.path.split("/"))]

    def list_dir(self, path: str) -> list[FileInfo]:
        """What lies directly in a directory; empty where there is none."""
        with contextlib.suppress(FileNotFoundError), translate_errors("list", self.uri(path)):
            iterator = self._files.listStatusIterator(self._at(path))
            statuses = self._jvm.call("org.apache.hadoop.util.functional.RemoteIterators", "toList")(iterator)
            return [f for f in self._bring(statuses) if f.path != path]
        return []

    def _bring(self, statuses: JavaObject) -> list[FileInfo]:
        """Bring a `java.util.List` of FileStatus over."""
        jvm = self._jvm
        paths, sizes, times, kinds = jvm.read(
            jvm.list_of(
                jvm.map(statuses, jvm.once("status path", lambda: _path_text(jvm))),
                *(jvm.map(statuses, _getter(jvm, method, kind)) for method, kind in _GETTERS),
            )
        )
        start = len(self._root) + 1
        rows = zip(paths, sizes, times, kinds, strict=True)
        return [FileInfo(p[start:], 0 if is_dir else size, time, is_dir) for p, size, time, is_dir in rows]

    def stat(self, path: str) -> FileInfo | None:
        """One file or directory, or None where there is none."""
        with contextlib.suppress(FileNotFoundError), translate_errors("look at", self.uri(path)):
            status = self._files.getFileStatus(self._at(path))
            is_dir = status.isDirectory()
            return FileInfo(path, 0 if is_dir else status.getLen(), status.getModificationTime(), is_dir)
        return None

    def read(self, path: str) -> bytes:
        """The whole content; raises FileNotFoundError where there is none."""
        with translate_errors("read", self.uri(path)):
            stream = self._files.open(self._at(path))
            try:
                return b"".join(iter(lambda: bytes(stream.readNBytes(_CHUNK)), b""))
            finally:
                stream.close()

    def is_dir(self, path: str) -> bool:
        """Whether there is a directory."""
        found = self.stat(path)
        return found is not None and found.is_dir

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """A seekable binary stream for reading; size: in bytes, where it is known."""
        with translate_errors("open", self.uri(path)):
            if size is None:
                size = int(self._files.getFileStatus(self._at(path)).getLen())
            raw = _Stream(self._opened(path, size), size, self.uri(path))
        return cast("BinaryIO", io.BufferedReader(raw, _BUFFER))

    def _opened(self, path: str, size: int) -> JavaObject:
        """An input stream; a store that is told the size does not ask for it."""
        builder = self._files.openFile(self._at(path)).opt("fs.option.openfile.length", str(size))
        return builder.opt("fs.option.openfile.read.policy", "random").build().get()

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file at once; raises FileExistsError where the path is taken and `overwrite` is false.

        On HDFS and the like by a rename, on object stores by the close of a conditional upload, on mounted local
        directories by a hard link. An upload whose answer was lost has won if what is there is what was sent.
        """
        if self._local is not None:
            return self._local.write(path, data, overwrite=overwrite)
        with translate_errors("write", self.uri(path)):
            if self._files.getUri().getScheme() in _PUBLISHED_AT_CLOSE:
                return self._create(path, data, overwrite)
            target = self._at(path)
            hidden = self._jvm.find(_PATH)(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}.tmp")
            try:
                self._upload(hidden, data, False)
                (self._replace if overwrite else self._move)(hidden, target)
            finally:
                self._files.delete(hidden, False)

    def _create(self, path: str, data: bytes, overwrite: bool) -> None:
        try:
            self._upload(self._at(path), data, overwrite)
        except Py4JJavaError as error:
            if overwrite or not is_java_error(error, *_LOST):
                raise
            if self.read(path) != data:
                raise FileExistsError(f'there is something already at "{self.uri(path)}"') from error

    def _upload(self, target: JavaObject, data: bytes, overwrite: bool) -> None:
        builder = self._files.createFile(target).recursive().overwrite(overwrite)
        if not overwrite:
            builder = builder.opt(_CONDITIONAL, "true")
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
        """Whether a conditional upload is one, where files are published by that; renames on HDFS and the like are."""
        if self.kind != "objects":
            return True
        if self._files.getUri().getScheme() == "s3a":
            with translate_errors("look at", self._root):
                if not self._files.hasPathCapability(self._root_path, _CONDITIONAL):
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
        """Move a file or directory without ever replacing one; makes the parents of the target."""
        if self._local is not None:
            return self._local.rename(source, target)
        with translate_errors("move", self.uri(source)):
            new = self._at(target)
            self._files.getFileStatus(self._at(source))
            self._files.mkdirs(new.getParent())
            self._move(self._at(source), new)

    def _replace(self, source: JavaObject, target: JavaObject) -> None:
        """Move a file over another one: at once, but for file systems of others that know no such thing."""
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
        """Remove a file or a directory with all in it; nothing where there is none."""
        with contextlib.suppress(FileNotFoundError), translate_errors("delete", self.uri(path)):
            self._files.delete(self._at(path), True)


_LOST = ("org.apache.hadoop.fs.FileAlreadyExistsException", "org.apache.hadoop.fs.s3a.RemoteFileChangedException")
"""What a conditional upload raises where there is something already."""
_GETTERS = (("getLen", "long"), ("getModificationTime", "long"), ("isDirectory", "boolean"))


def _getter(jvm: Jvm, method: str, kind: str) -> JavaObject:
    make = jvm.handles.function
    return jvm.once(f"status {method}", lambda: make(jvm.handles.virtual(_STATUS, method, kind)))


def _path_text(jvm: Jvm) -> JavaObject:
    path = jvm.handles.virtual(_STATUS, "getPath", _PATH)
    return jvm.handles.function(jvm.handles.chain(path, jvm.handles.virtual(_PATH, "toString", "java.lang.String")))


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
    """Whether a Java exception is of one of these classes or below."""
    found = error.java_exception.getClass()
    while found is not None:
        if found.getName() in names:
            return True
        found = found.getSuperclass()
    return False


def _not_there(error: Py4JJavaError) -> bool:
    """Whether there is no such file, or what were its directory is a file; HDFS calls that a lack of permission."""
    if is_java_error(error, "java.io.FileNotFoundException", "org.apache.hadoop.fs.ParentNotDirectoryException"):
        return True
    said = str(error.java_exception.getMessage())
    return is_java_error(error, "org.apache.hadoop.security.AccessControlException") and "(is not a directory)" in said


@contextlib.contextmanager
def translate_errors(action: str, path: str) -> Iterator[None]:
    """Raise what Java raises as FileNotFoundError, FileExistsError or StorageError."""
    try:
        yield
    except CapturedException as error:
        raise StorageError(f'cannot {action} "{path}": {error}') from error
    except Py4JJavaError as error:
        message = f'cannot {action} "{path}": {error.java_exception.toString()}'
        if action != "write" and _not_there(error):
            raise FileNotFoundError(message) from error
        if is_java_error(error, "org.apache.hadoop.fs.FileAlreadyExistsException"):
            raise FileExistsError(message) from error
        raise StorageError(message) from error
