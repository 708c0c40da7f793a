"""The log of a stream's file sink (Spark's `FileStreamSinkLog`): it says which files of a directory hold its rows."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from zskip.errors import StorageError, UnsupportedError
from zskip.storage import FileInfo, Storage, leads_out

SINK_LOG = "_spark_metadata"
_COMPACT = ".compact"
_TRIES = 5
_PREFIX = re.compile(r"(?:[A-Za-z][\w+.-]*:(?://([^/]*))?)?(.*)", re.DOTALL)
"""Scheme and authority of a URI, and its path."""


def select_committed(storage: Storage, files: Sequence[FileInfo]) -> list[FileInfo]:
    """The files that the sink's log names; what else lies in the directory is left from batches that failed.

    files: all files below the root. A file that is gone is as the log describes it, so that reading it fails as in
    Spark. Raises UnsupportedError for files outside the directory, StorageError for a damaged log.
    """
    listed = {file.path: file for file in files}
    committed: dict[str, FileInfo] = {}
    for entry in _read_log(storage):
        path = _path_below(storage, entry["path"])
        if not entry["isDir"]:
            committed[path] = listed.get(path) or FileInfo(path, entry["size"], entry["modificationTime"])
    return list(committed.values())


def _read_log(storage: Storage) -> list[dict[str, Any]]:
    for tries_left in reversed(range(_TRIES)):
        try:
            return [entry for name in _list_batches(storage) for entry in _read_batch(storage, f"{SINK_LOG}/{name}")]
        except FileNotFoundError as error:
            # The stream has merged its batches and deleted them during the listing.
            if not tries_left:
                raise StorageError(f'"{storage.uri(SINK_LOG)}" changes constantly; try again later') from error
    raise AssertionError("not reached")


def _list_batches(storage: Storage) -> list[str]:
    """The files of the log since the latest that has all earlier entries, in their order."""
    names = [file.path.rpartition("/")[2] for file in storage.list_dir(SINK_LOG)]
    numbers = {name: int(stem) for name in names if (stem := name.removesuffix(_COMPACT)).isdigit()}
    start = max((number for name, number in numbers.items() if name.endswith(_COMPACT)), default=-1)
    newer = sorted((number, name) for name, number in numbers.items() if number > start)
    return [*([f"{start}{_COMPACT}"] if start >= 0 else []), *(name for _, name in newer)]


def _read_batch(storage: Storage, path: str) -> list[dict[str, Any]]:
    version, *lines = storage.read(path).decode().splitlines() or [""]
    if version != "v1":
        raise UnsupportedError(
            f'"{storage.uri(path)}" is of version "{version}", and zskip knows v1; read the table with Spark'
        )
    try:
        entries = [json.loads(line) for line in lines]
        return [{key: entry[key] for key in ("path", "size", "isDir", "modificationTime")} for entry in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f'"{storage.uri(path)}" is damaged ({error}); restore it from a backup') from error


def _path_below(storage: Storage, uri: str) -> str:
    """The path of a file below the root."""
    authority, path = _split(unquote(uri))
    own_authority, root = _split(storage.root)
    is_disk = storage.kind == "disk"
    same_store = authority == own_authority or not (is_disk or (authority and own_authority))
    if same_store and is_disk and not path.startswith(f"{root}/"):
        path, root = os.path.realpath(path), os.path.realpath(root)
    below = path[len(root) + 1 :]
    if not same_store or not path.startswith(f"{root}/") or leads_out(below):
        raise UnsupportedError(
            f'the log of the stream in "{storage.uri(SINK_LOG)}" names "{uri}", which lies outside the table: the '
            f"directory was moved or copied, and Spark reads the files where they were. Remove {SINK_LOG} if the files "
            "of this directory are the table"
        )
    return below


def _split(uri: str) -> tuple[str, str]:
    match = _PREFIX.fullmatch(uri)
    assert match is not None, "all parts are optional"
    return match[1] or "", match[2]
