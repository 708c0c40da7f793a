"""The note of an optimize in batches that is under way, by which the next call goes on where one was cut short.

`operations/batches.gz` below zskip's home in the table: the arguments of the call, and the files of each batch as they
were. A batch of which no file is live any more is done. A note that is lost or damaged costs the rewrite of batches
that were done, no more.
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
from zskip.storage import Storage
from zskip.table.optimize_request import OptimizeRequest
from zskip.table.unchanged_files import FileIdentity

_NOTE = f"{OPERATIONS}/batches.gz"
_FORMAT = 1
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Files that are rewritten in one commit."""

    files: tuple[FileIdentity, ...]
    wanted: int | None
    """New files; None where their size says how many."""

    @property
    def bytes(self) -> int:
        """Of the files that go."""
        return sum(size for _, size, _ in self.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A call that is under way, or was cut short."""

    arguments: str
    """JSON."""
    by: tuple[str, ...]
    curve: str
    """As they were chosen, where the call lets zskip choose."""
    began_ms: int
    """In milliseconds since 1970."""
    batches: tuple[Batch, ...]


def arguments_of(request: OptimizeRequest) -> str:
    """What has to be the same for a call to go on with another one."""
    said: dict[str, Any] = {
        name: getattr(request, name)
        for name in ("by", "curve", "build", "files", "target_file_size", "where", "sort_within_files", "max_batch")
    }
    # Not the queries themselves: their literals may be private.
    digest = hashlib.sha256(repr(request.workload).encode("utf-8", "surrogatepass")).hexdigest()
    return json.dumps(said | {"compression": str(request.compression), "workload": digest}, sort_keys=True)


def new_note(asked: OptimizeRequest, chosen: OptimizeRequest, batches: Sequence[Batch]) -> Note:
    """The note of a call that begins now; chosen: what it comes to."""
    return Note(
        arguments=arguments_of(asked),
        by=chosen.by,
        curve=chosen.curve,
        began_ms=time.time_ns() // 1_000_000,
        batches=tuple(batches),
    )


def read_note(home: Storage) -> Note | None:
    """The note that lies there; None for none, or one that cannot be read."""
    try:
        content = json.loads(gzip.decompress(home.read(_NOTE)))
        if content["format"] != _FORMAT:
            raise ValueError(f"it has format {content['format']}, this zskip knows {_FORMAT}")
        batches = [
            Batch(files=tuple((path, size, time_ms) for path, size, time_ms in found["files"]), wanted=found["wanted"])
            for found in content["batches"]
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
        _log.info("%s is left out: %s", home.uri(_NOTE), error)
        return None


def write_note(home: Storage, note: Note) -> None:
    """Keep a note, in the place of any other."""
    batches = [{"files": [list(file) for file in batch.files], "wanted": batch.wanted} for batch in note.batches]
    said = {"arguments": note.arguments, "by": list(note.by), "curve": note.curve, "began_ms": note.began_ms}
    content = {"format": _FORMAT, **said, "batches": batches}
    text = json.dumps(content, separators=(",", ":")).encode()
    home.write(_NOTE, gzip.compress(text, 5, mtime=0), overwrite=True)


def forget_note(home: Storage, note: Note) -> None:
    """Remove a note of a call that is done, unless another call has written its own meanwhile."""
    found = read_note(home)
    if found is None or (found.arguments, found.began_ms) == (note.arguments, note.began_ms):
        with contextlib.suppress(StorageError, FileNotFoundError):
            home.delete(_NOTE)
