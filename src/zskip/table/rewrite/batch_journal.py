"""The note of a running optimize in batches, from which the next call continues an interrupted one.

`operations/batches.gz` below zskip's home in the table has the arguments of the call and the files of each batch. A
batch is done once none of its files is live. Where a note is lost or damaged, done batches are rewritten once more.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import logging
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zskip.errors import StorageError
from zskip.formats import OPERATIONS
from zskip.records import FileIdentity
from zskip.storage import Storage
from zskip.table.optimize_request import OptimizeRequest

_NOTE = f"{OPERATIONS}/batches.gz"
_FORMAT = 1
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Files to rewrite in one commit."""

    files: tuple[FileIdentity, ...]
    new_files: int | None
    """None where their size decides how many."""

    @property
    def bytes(self) -> int:
        """Of the files to replace."""
        return sum(size for _, size, _ in self.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A running or interrupted call."""

    arguments: str
    """JSON."""
    by: tuple[str, ...]
    curve: str
    """The chosen columns and curve, where the call leaves them to zskip."""
    began_ms: int
    """In milliseconds since 1970."""
    batches: tuple[Batch, ...]


def arguments_of(request: OptimizeRequest) -> str:
    """The arguments that must be equal for a call to continue another one."""
    arguments: dict[str, Any] = {
        name: getattr(request, name)
        for name in ("by", "curve", "build", "files", "target_file_size", "where", "max_batch")
    }
    # Not the queries themselves: their literals may be private.
    digest = hashlib.sha256(repr(request.workload).encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps(arguments | {"compression": str(request.compression), "workload": digest}, sort_keys=True)


def new_note(request: OptimizeRequest, chosen: OptimizeRequest, batches: Sequence[Batch]) -> Note:
    """The note of a call that begins now; chosen: the request with its columns and curve chosen."""
    return Note(
        arguments=arguments_of(request),
        by=chosen.by,
        curve=chosen.curve,
        began_ms=time.time_ns() // 1_000_000,
        batches=tuple(batches),
    )


def read_note(home: Storage) -> Note | None:
    """Read the note; None where there is none, or none that can be read."""
    try:
        content = json.loads(gzip.decompress(home.read(_NOTE)))
        if content["format"] != _FORMAT:
            raise ValueError(f"it has format {content['format']}, this zskip knows {_FORMAT}")
        batches = [
            Batch(files=tuple((path, size, time_ms) for path, size, time_ms in b["files"]), new_files=b["wanted"])
            for b in content["batches"]
        ]
        return Note(
            arguments=content["arguments"],
            by=tuple(content["by"]),
            curve=content["curve"],
            began_ms=content["began_ms"],
            batches=tuple(batches),
        )
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        _log.info("ignoring %s: %s", home.uri(_NOTE), error)
        return None


def write_note(home: Storage, note: Note) -> None:
    """Write a note, in place of any other."""
    batches = [{"files": [list(file) for file in batch.files], "wanted": batch.new_files} for batch in note.batches]
    call = {"arguments": note.arguments, "by": list(note.by), "curve": note.curve, "began_ms": note.began_ms}
    content = {"format": _FORMAT, **call, "batches": batches}
    text = json.dumps(content, separators=(",", ":")).encode()
    home.write(_NOTE, gzip.compress(text, 5, mtime=0), overwrite=True)


def forget_note(home: Storage, note: Note) -> None:
    """Delete the note of a finished call, unless another call has written its own meanwhile."""
    current = read_note(home)
    if current is None or (current.arguments, current.began_ms) == (note.arguments, note.began_ms):
        with contextlib.suppress(StorageError, FileNotFoundError):
            home.delete(_NOTE)
