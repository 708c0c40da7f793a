"""Manifests: which segments make up the index, published one number a version, never changed."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zskip.errors import IndexFormatError, StorageError
from zskip.index.leaves import Column
from zskip.index.segment import BLOCK_ROWS, INDEX_DIR, Block, Segment
from zskip.storage import FileInfo, Storage
from zskip.types import DataType

FORMAT = 1
"""Version of the format; another one is refused."""

_NAME = re.compile(r"manifest-(\d+)\.json")
_SEGMENT = re.compile(r"segment-[0-9a-f]{32}")


class DamagedIndexError(IndexFormatError):
    """An index of this version that cannot be read; a refresh builds it anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One version of the index."""

    version: int
    table_version: int
    """Of the snapshot that it was last refreshed with."""
    zskip: str
    """The release that wrote it."""
    segments: tuple[Segment, ...]

    def to_bytes(self) -> bytes:
        """Give the manifest as JSON with a checksum over its body."""
        columns: dict[Column, int] = {}
        segments = [_segment_json(segment, columns) for segment in self.segments]
        body = {
            "version": self.version,
            "table_version": self.table_version,
            "zskip": self.zskip,
            "columns": [{"id": i, "path": list(c.path), "type": c.type} for c, i in columns.items()],
            "segments": segments,
        }
        return json.dumps({"format": FORMAT, "crc": _crc(body), "index": body}).encode()

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Manifest:
        """Read a manifest.

        Raises IndexFormatError where another version wrote it or it is damaged.
        """
        try:
            document = json.loads(data)
            version = document["format"]
            if isinstance(version, int) and version != FORMAT:
                raise IndexFormatError(
                    f"{name} has format {version}, this zskip reads {FORMAT}: update zskip, or delete {INDEX_DIR}"
                )
            body = document["index"]
            if _crc(body) != document["crc"]:
                raise ValueError("its checksum does not match")
            columns = {int(c["id"]): Column(tuple(c["path"]), c["type"]) for c in body["columns"]}
            segments = tuple(_read_segment(s, columns) for s in body["segments"])
            return cls(
                version=body["version"], table_version=body["table_version"], zskip=body["zskip"], segments=segments
            )
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise DamagedIndexError(f"{name} is damaged ({error}); refresh the index to build it anew") from error


def manifest_path(version: int) -> str:
    """Give the path of one version of the manifest."""
    return f"{INDEX_DIR}/manifest-{version:010d}.json"


def list_manifests(listing: Sequence[FileInfo]) -> dict[int, FileInfo]:
    """Find the manifests in a listing of the index's directory, by version, the newest first."""
    found = {int(m[1]): info for info in listing if (m := _NAME.fullmatch(info.path.rpartition("/")[2]))}
    return dict(sorted(found.items(), reverse=True))


def latest_manifest(storage: Storage) -> Manifest | None:
    """Read the newest manifest; None where there is no index.

    Raises IndexFormatError where another version wrote it or it is damaged.
    """
    for _ in range(3):
        found = list_manifests(storage.list_dir(INDEX_DIR))
        if not found:
            return None
        path = manifest_path(next(iter(found)))
        try:
            return Manifest.from_bytes(storage.read(path), path)
        except FileNotFoundError:
            continue  # a refresh of another process has just removed it: there is a newer one
    raise StorageError(f"{INDEX_DIR} changes faster than it can be read")


def _crc(body: Any) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def _segment_json(segment: Segment, columns: dict[Column, int]) -> dict[str, Any]:
    return {
        "name": segment.name,
        "files": segment.files,
        "entries": segment.entries,
        "bytes": segment.bytes,
        "columns": [columns.setdefault(column, len(columns)) for column in segment.columns],
        "schemas": segment.schemas,
        "defaults": segment.defaults,
        "starts": segment.starts,
        "blocks": segment.blocks,
        "footer": segment.footer,
        "listing": segment.listing,
        "filled": segment.filled,
    }


def _read_segment(data: dict[str, Any], columns: dict[int, Column]) -> Segment:
    segment = Segment(
        name=data["name"],
        files=data["files"],
        entries=data["entries"],
        columns=tuple(columns[i] for i in data["columns"]),
        schemas=tuple(tuple(schema) for schema in data["schemas"]),
        defaults=tuple(data["defaults"]),
        starts=tuple(data["starts"]),
        blocks=tuple(Block(*block) for block in data["blocks"]),
        footer=Block(*data["footer"]),
        listing=Block(*data["listing"]),
        filled=data.get("filled", False),
    )
    _check(segment)
    return segment


def _check(segment: Segment) -> None:
    """Raise ValueError where the parts of a segment do not fit together."""
    if not _SEGMENT.fullmatch(segment.name):
        raise ValueError(f"{segment.name!r} is no name of a segment")
    starts = segment.starts
    if len(starts) != len(segment.columns) + 1 or starts[0] != 0 or starts[-1] != segment.entries:
        raise ValueError(f"the columns of {segment.name} do not add up")
    if list(starts) != sorted(starts) or len(segment.blocks) != -(-segment.entries // BLOCK_ROWS):
        raise ValueError(f"the row groups of {segment.name} do not add up")
    for column, start, end in zip(segment.columns, starts[:-1], starts[1:], strict=True):
        if end > start and DataType(column.type or "").form is None:
            raise ValueError(f"{segment.name} has entries of {'.'.join(column.path)}, which has no order")
    if any(not 0 <= number < len(segment.columns) for schema in segment.schemas for number in schema):
        raise ValueError(f"the schemas of {segment.name} name columns it does not have")
