"""HDFS without Spark, through `hdfs-native`, which needs neither Java nor Hadoop's own libraries."""

from __future__ import annotations

import contextlib
import posixpath
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, BinaryIO, Literal, cast

from zskip.errors import InputError, MissingDependencyError, StorageError
from zskip.storage.base import FileInfo, check_inside
from zskip.storage.stream import ReadAhead

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus

_URI = re.compile(r"hdfs://([^/]*)(.*)", re.I)
_RPC_ERROR = re.compile(r'RPCError\("([\w.$]+)", "((?:[^"\\]|\\.)*)')
_SETTINGS = {"dfs.client.failover.max.attempts": "4"}
"""Gives up an unresponsive NameNode after 16 s; Hadoop's own 15 attempts take minutes."""
_BELOW_A_FILE = re.compile(r"ParentNotDirectoryException|\(is not a directory\)")
_ONTO_A_DIRECTORY = "must both be directories"
_READING = ("list", "look at", "open", "read", "delete")
_ADVICE = (
    (
        re.compile("NameNode hosts|defaultFS"),
        "write hdfs://host:port/path, or let HADOOP_CONF_DIR name the directory of core-site.xml and hdfs-site.xml",
    ),
    (
        re.compile("AccessControlException|Permission denied"),
        "use another user, whom HADOOP_USER_NAME names, or keep the index elsewhere with index_path=",
    ),
    (re.compile("SafeModeException"), "the NameNode is starting or in safe mode; call again later"),
    (re.compile("Quota"), "the quota is used up; free space and call again"),
    (re.compile("SASL|GSS|[Kk]erberos"), "get a ticket with kinit, and call again"),
    (
        re.compile("os error|lookup|onnection|timed out|[Tt]imeout|attempts"),
        "the NameNode does not answer; check host, port and network, and call again",
    ),
)


class HdfsStorage:
    """A directory on HDFS."""

    kind: Literal["cluster"] = "cluster"

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        """options: settings under Hadoop's own names; the rest come from the files in HADOOP_CONF_DIR.

        Raises InputError for names that are no such setting, MissingDependencyError without `hdfs-native`.
        """
        for name in options:
            if "." not in name:
                raise InputError(
                    f'storage_options: "{name}" is not a Hadoop setting, such as dfs.client.use.datanode.hostname'
                )
        match = _URI.fullmatch(uri)
        if match is None:
            raise InputError(f'"{uri}" is not a path on HDFS; write hdfs://host:port/path')
        self._base = f"hdfs://{match[1]}"
        self._path = "/" + "/".join(part for part in match[2].split("/") if part)
        self.options = {**_SETTINGS, **options}
        self._client = self._connect()

    def _connect(self) -> Client:
        try:
            from hdfs_native import Client
        except ImportError as error:
            raise MissingDependencyError(
                f'"{self._base}" is reached without Spark by hdfs-native, which is not installed; run: pip install '
                '"zskip[hdfs]", or open the table with zskip.table(spark, path)'
            ) from error
        with self._translating_errors("open", ""):
            return Client(None if self._base == "hdfs://" else self._base, self.options)

    @property
    def root(self) -> str:
        return self.uri("")

    def uri(self, path: str) -> str:
        return self._base + self._at(path)

    def _at(self, path: str) -> str:
        return posixpath.join(self._path, check_inside(path, self._base + self._path)) if path else self._path

    def walk(self, skip: Callable[[str], bool]) -> list[FileInfo]:
        files: list[FileInfo] = []
        directories = [""]
        while directories:
            for info in self.list_dir(directories.pop()):
                if skip(posixpath.basename(info.path)):
                    continue
                if info.is_dir:
                    directories.append(info.path)
                else:
                    files.append(info)
        return files

    def list_dir(self, path: str) -> list[FileInfo]:
        target, prefix = self._at(path), path + "/" if path else ""
        with contextlib.suppress(FileNotFoundError), self._translating_errors("list", path):
            statuses = [status for status in self._client.list_status(target) if status.path != target]
            return [_info(prefix + posixpath.basename(status.path), status) for status in statuses]
        return []

    def stat(self, path: str) -> FileInfo | None:
        with contextlib.suppress(FileNotFoundError), self._translating_errors("look at", path):
            return _info(path, self._client.get_file_info(self._at(path)))
        return None

    def is_dir(self, path: str) -> bool:
        info = self.stat(path)
        return info is not None and info.is_dir

    def read(self, path: str) -> bytes:
        with self._translating_errors("read", path):
            return self._client.read(self._at(path)).read()

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """Bytes of a file from `start` on, fewer at its end; raises FileNotFoundError if it does not exist."""
        with self._translating_errors("read", path):
            file = self._client.read(self._at(path))
            size = min(size, len(file) - start)
            return file.read_range(start, size) if size > 0 else b""

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        if size is None:
            with self._translating_errors("open", path):
                size = len(self._client.read(self._at(path)))
        return cast("BinaryIO", ReadAhead(self, path, size))

    def write(self, path: str, data: bytes, *, overwrite: bool = False) -> None:
        """Publish a file atomically, by a rename; raises FileExistsError if the path is taken and not `overwrite`."""
        target = self._at(path)
        parent, name = posixpath.split(target)
        hidden = f"{parent}/.{name}.{uuid.uuid4().hex}.tmp"
        with self._translating_errors("write", path):
            try:
                with self._client.create(hidden) as stream:
                    stream.write(data)
                self._client.rename(hidden, target, overwrite)
            except BaseException:
                with contextlib.suppress(Exception):
                    self._client.delete(hidden)
                raise

    def is_exclusive(self) -> bool:
        """Always: renames on HDFS are exclusive."""
        return True

    def rename(self, source: str, target: str) -> None:
        with self._translating_errors("move", source):
            self._client.get_file_info(self._at(source))
            self._client.mkdirs(posixpath.dirname(self._at(target)), create_parent=True)
            self._client.rename(self._at(source), self._at(target))

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._translating_errors("delete", path):
            self._client.delete(self._at(path), recursive=True)

    @contextlib.contextmanager
    def _translating_errors(self, action: str, path: str) -> Iterator[None]:
        """Raise HDFS's errors as FileNotFoundError, FileExistsError or StorageError."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(f'cannot {action} "{self.uri(path)}": there is no such file') from error
        except FileExistsError as error:
            raise FileExistsError(f'there is something already at "{self.uri(path)}"') from error
        except Exception as error:
            raise self._error(action, path, str(error)) from error

    def _error(self, action: str, path: str, text: str) -> Exception:
        """text: the NameNode's error with its class and stack, or the client's own message."""
        match, failure = _RPC_ERROR.search(text), f'cannot {action} "{self.uri(path)}"'
        if match is not None:
            text = f"{match[1].rpartition('.')[2]}: {match[2]}".replace('\\"', '"').replace("\\n", "\n")
        reason = text.partition("\n")[0].rstrip(".")
        if action in _READING and _BELOW_A_FILE.search(reason):
            return FileNotFoundError(f"{failure}: {reason}")
        if _ONTO_A_DIRECTORY in reason:
            return FileExistsError(f'there is something already at "{self.uri(path)}"')
        advice = next((advice for pattern, advice in _ADVICE if pattern.search(reason)), "see the cause above")
        return StorageError(f"{failure}: {reason}; {advice}")


def _info(path: str, status: FileStatus) -> FileInfo:
    return FileInfo(path, status.length, status.modification_time, status.isdir)
