"""Manifests: the segments of each index version, published under its number and never changed.

Their specification is `docs/index-format.md`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zskip.errors import IndexFormatError, InputError, StorageError
from zskip.index.store.cache import read_part
from zskip.index.store.leaves import Column, ColumnList
from zskip.index.store.segment import BLOCK_ROWS, INDEX_DIR, Block, Segment
from zskip.index.store.sketches import SketchRecord, SketchSegment
from zskip.storage import FileInfo, Storage, is_same_location
from zskip.types import DataType

FORMAT = 2
"""The version of the format; a newer one is refused, and an older one counts as no index."""

_NAME = re.compile(r"manifest-([0-9]{10,18})\.json")
_HEAD = re.compile(rb'\{"crc": "([0-9a-f]{8})", ')
_SEGMENT = re.compile(r"segment-[0-9a-f]{32}")
_SKETCH = re.compile(r"sketch-[0-9a-f]{32}")


class OutdatedIndexError(IndexFormatError):
    """An index of an older format version, which counts as none; a refresh builds it anew."""


class DamagedIndexError(IndexFormatError):
    """An unreadable index of this format version; a refresh rebuilds it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """One version of the index."""

    version: int
    table_version: int
    """The table version of its latest refresh."""
    zskip: str
    """The zskip release that wrote it."""
    segments: tuple[Segment, ...]
    table: str | None = None
    """The root of the table, if the index lies elsewhere."""
    sketches: tuple[SketchRecord, ...] = ()
    row_group_segments: tuple[Segment, ...] | None = None
    """The segments that describe row groups; None if the index describes only files."""

    def to_bytes(self) -> bytes:
        """The manifest as JSON that begins with a checksum of the rest."""
        columns: dict[Column, int] = {}
        segments = [_segment_json(segment, columns) for segment in self.segments]
        row_groups = self.row_group_segments
        row_group_segments = None if row_groups is None else [_segment_json(s, columns) for s in row_groups]
        column_list = ColumnList.of(columns)
        types = {name: i for i, name in enumerate(dict.fromkeys(column_list.types))}
        ids = {} if column_list.ids is None else {"ids": column_list.ids}
        body = {
            "format": FORMAT,
            "zskip": self.zskip,
            "version": self.version,
            "table_version": self.table_version,
            "table": self.table,
            "columns": column_list.names,
            "types": list(types),
            "type_of": [types[name] for name in column_list.types],
            **ids,
            "segments": segments,
            "row_group_segments": row_group_segments,
            "sketches": [_sketch_json(record) for record in self.sketches],
        }
        rest = json.dumps(body, separators=(",", ":")).encode()[1:]
        return b'{"crc": "%08x", %s' % (zlib.crc32(rest), rest)

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Manifest:
        """Read a manifest.

        Raises IndexFormatError if another version wrote it or it is damaged.
        """
        try:
            body = _parse_body(data)
            if body["format"] < FORMAT:
                raise OutdatedIndexError(f"{name} has format {body['format']}, this zskip reads {FORMAT}: refresh it")
            if body["format"] != FORMAT:
                raise IndexFormatError(
                    f"{name} has format {body['format']}, this zskip reads {FORMAT}: update zskip, or delete "
                    f"{INDEX_DIR} to rebuild the index"
                )
            columns = _read_columns(body)
            row_groups = body.get("row_group_segments")
            if not _all_integers([body["version"]]) or not _all_integers([body["table_version"]], most=(1 << 63) - 1):
                raise ValueError("its versions are not numbers")
            return cls(
                version=body["version"],
                table_version=body["table_version"],
                zskip=str(body["zskip"]),
                segments=tuple(_read_segment(s, columns) for s in body["segments"]),
                table=body["table"],
                sketches=tuple(map(_read_sketch, body.get("sketches", ()))),
                row_group_segments=None
                if row_groups is None
                else tuple(_read_segment(s, columns, of_row_groups=True) for s in row_groups),
            )
        except (
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            AttributeError,
            OverflowError,
            MemoryError,
            RecursionError,
        ) as error:
            raise DamagedIndexError(f"{name} is damaged ({error})") from error


def _parse_body(data: bytes) -> Mapping[str, Any]:
    """The JSON document; raises ValueError if its checksum does not match."""
    head = _HEAD.match(data)
    if head is None or int(head[1], 16) != zlib.crc32(data[head.end() :]):
        raise ValueError("its checksum does not match")
    body: Mapping[str, Any] = json.loads(data)
    return body


def _read_columns(body: Mapping[str, Any]) -> ColumnList:
    """All columns of all segments; checked in C where possible, since there may be thousands."""
    names, types, type_of, ids = body["columns"], body["types"], body["type_of"], body.get("ids")
    if not _all_text(names):
        for name in names:
            _check_name(name)
    if not _all_integers(type_of) or not _all_text(name for name in types if name is not None):
        raise ValueError("the types of its columns are not types")
    if len(names) != len(type_of):
        raise ValueError("its columns have not one type each")
    if ids is not None and (len(ids) != len(names) or not set(map(type, ids)) <= {int, type(None)}):
        raise ValueError("the ids of its columns are not ids")
    return ColumnList(names, [types[i] for i in type_of], ids)


def _check_name(name: object) -> None:
    path = name if isinstance(name, list) else [name]
    if not path or not _all_text(path):
        raise ValueError(f"{name!r} is not a column")


def manifest_path(version: int) -> str:
    """The path of one version of the manifest."""
    return f"{INDEX_DIR}/manifest-{version:010d}.json"


def list_manifests(listing: Sequence[FileInfo]) -> dict[int, FileInfo]:
    """The manifests in a listing of the index directory, by version, newest first."""
    names = {info.path.rpartition("/")[2]: info for info in listing if not info.is_dir}
    named = {int(m[1]): (name, info) for name, info in names.items() if (m := _NAME.fullmatch(name))}
    sorted_versions = sorted(named.items(), reverse=True)
    return {version: info for version, (name, info) in sorted_versions if manifest_path(version).endswith(f"/{name}")}


def next_version(listing: Sequence[FileInfo]) -> int:
    """The version after all versions in a listing of the index directory, sound or not."""
    matches = (_NAME.fullmatch(info.path.rpartition("/")[2]) for info in listing)
    return max((int(m[1]) for m in matches if m), default=0) + 1


def latest_manifest(storage: Storage, table: str | None = None) -> Manifest | None:
    """Read the newest manifest; None if there is no index.

    table: root of the table, if the index lies elsewhere. Raises IndexFormatError if another version wrote it or it is
    damaged, StorageError if it cannot be read, and InputError if it belongs to another table.
    """
    for _ in range(3):
        manifests = list_manifests(storage.list_dir(INDEX_DIR))
        if not manifests:
            return None
        try:
            return _read_manifest(storage, *next(iter(manifests.items())), table)
        except OutdatedIndexError:
            return None
        except FileNotFoundError:
            continue  # another process's refresh has just removed it: there is a newer one
    raise StorageError(f"{INDEX_DIR} changes faster than it can be read")


def sound_manifest(storage: Storage, table: str | None = None) -> Manifest | None:
    """Read the newest manifest that is not damaged; raises like `latest_manifest`."""
    for version, info in list_manifests(storage.list_dir(INDEX_DIR)).items():
        with contextlib.suppress(DamagedIndexError, OutdatedIndexError, FileNotFoundError):
            return _read_manifest(storage, version, info, table)
    return None


def _read_manifest(storage: Storage, version: int, info: FileInfo, table: str | None) -> Manifest:
    path = manifest_path(version)
    data = read_part(storage, (path, *info[1:]), lambda: storage.read(path))
    manifest = Manifest.from_bytes(data, path)
    if manifest.version != version:
        raise DamagedIndexError(f"{path} is damaged (it is version {manifest.version})")
    if table is not None and not (manifest.table and is_same_location(manifest.table, table)):
        other = "a table that lies there" if manifest.table is None else f'"{manifest.table}"'
        raise InputError(
            f'"{storage.root}" holds the index of {other}, not of "{table}"; give each table an index_path of its own'
        )
    return manifest


def _segment_json(segment: Segment, columns: dict[Column, int]) -> dict[str, Any]:
    return {
        "name": segment.name,
        "files": segment.files,
        "entries": segment.entries,
        "columns": _runs([columns.setdefault(column, len(columns)) for column in segment.columns]),
        "schemas": [_runs(schema) for schema in segment.schemas],
        "defaults": segment.defaults,
        "starts": segment.starts,
        "blocks": segment.blocks,
        "footer": segment.footer,
        "places": segment.group_offsets,
        "listing": segment.listing,
        "filled": segment.filled,
    }


def _read_segment(data: Mapping[str, Any], columns: ColumnList, *, of_row_groups: bool = False) -> Segment:
    segment = Segment(
        name=data["name"],
        files=data["files"],
        entries=data["entries"],
        columns=columns.pick(_expand_runs(data["columns"], len(columns))),
        schemas=tuple(_expand_runs(schema, len(columns)) for schema in data["schemas"]),
        defaults=tuple(data["defaults"]),
        starts=tuple(data["starts"]),
        blocks=tuple(Block(*block) for block in data["blocks"]),
        footer=Block(*data["footer"]),
        group_offsets=tuple(data.get("places", ())),
        listing=Block(*data["listing"]),
        filled=data["filled"],
        of_row_groups=of_row_groups,
    )
    _check_segment(segment)
    return segment


def _sketch_json(record: SketchRecord) -> dict[str, Any]:
    return {
        "spec": record.spec,
        "timezone": record.timezone,
        "segments": [[s.name, s.files, s.bytes, s.crc] for s in record.segments],
        **({} if record.chosen_ms is None else {"chosen_ms": record.chosen_ms}),
        **({"condition": record.condition} if record.condition else {}),
    }


def _read_sketch(data: Mapping[str, Any]) -> SketchRecord:
    segments = tuple(
        SketchSegment(name=name, files=files, bytes=size, crc=crc) for name, files, size, crc in data["segments"]
    )
    chosen_ms = data.get("chosen_ms")
    numbers = [number for s in segments for number in (s.files, s.bytes, s.crc)]
    numbers += [] if chosen_ms is None else [chosen_ms]
    condition = data.get("condition", "")
    if not _all_text([data["spec"], data["timezone"], condition]) or not _all_integers(numbers):
        raise ValueError("what it says of its sketches is wrong")
    if not all(isinstance(s.name, str) and _SKETCH.fullmatch(s.name) for s in segments):
        raise ValueError("a name in it is none of a sketch's segment")
    return SketchRecord(
        spec=data["spec"], timezone=data["timezone"], segments=segments, chosen_ms=chosen_ms, condition=condition
    )


def _runs(numbers: Iterable[int]) -> list[list[int]]:
    """Encode numbers as runs of consecutive ones: each run's first number and its length."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def _expand_runs(runs: Sequence[Sequence[int]], limit: int) -> tuple[int, ...]:
    """Decode runs of numbers; raises ValueError if a number is not below the limit."""
    if any(not _all_integers([first, count]) or first + count > limit for first, count in runs):
        raise ValueError("its columns are not those it has")
    return tuple(itertools.chain.from_iterable(range(first, first + count) for first, count in runs))


def _check_segment(segment: Segment) -> None:
    """Raise ValueError if the parts of a segment do not fit together.

    Its files are known by name alone, so the name must not lead outside of the index directory.
    """
    if not _SEGMENT.fullmatch(segment.name):
        raise ValueError(f"{segment.name!r} is not the name of a segment")
    offsets = segment.group_offsets
    numbers = [segment.files, segment.entries, *segment.starts, *segment.footer, *segment.listing, *offsets]
    numbers += [number for block in segment.blocks for number in block]
    if not _all_integers(numbers) or not isinstance(segment.filled, bool):
        raise ValueError(f"what it says of {segment.name} is not numbers")
    starts = np.array(segment.starts, np.int64)
    if len(starts) != len(segment.columns) + 1 or starts[0] != 0 or starts[-1] != segment.entries:
        raise ValueError(f"the columns of {segment.name} do not add up")
    counts = np.diff(starts)
    if counts.min(initial=0) < 0 or counts.max(initial=0) > segment.files:
        raise ValueError(f"the columns of {segment.name} do not add up")
    if len(segment.blocks) != -(-segment.entries // BLOCK_ROWS):
        raise ValueError(f"the row groups of {segment.name} do not add up")
    ends = [*segment.blocks, segment.footer]
    if any(a.offset + a.length != b.offset for a, b in itertools.pairwise(ends)) or segment.listing.offset:
        raise ValueError(f"the row groups of {segment.name} do not add up")
    is_rising = all(a < b for a, b in itertools.pairwise(offsets))
    if offsets and not (is_rising and len(offsets) == len(segment.blocks) + 1 and offsets[-1] < segment.footer.length):
        raise ValueError(f"the row groups of {segment.name} do not add up")
    types = segment.columns.types
    unordered = {name for name in set(types) if DataType(name or "").form is None}
    if unordered and any(n and name in unordered for name, n in zip(types, counts.tolist(), strict=True)):
        raise ValueError(f"{segment.name} has entries of columns that have no order")
    if any(max(schema, default=-1) >= len(segment.columns) for schema in segment.schemas):
        raise ValueError(f"the schemas of {segment.name} name columns it does not have")
    if not _all_text(segment.defaults):
        raise ValueError(f"the defaults of {segment.name} are not names")


def _all_integers(numbers: Sequence[object], *, most: int = 1 << 53) -> bool:
    """Whether all are integers from 0 to `most`."""
    integers: Any = numbers
    return set(map(type, numbers)) <= {int} and (not integers or (min(integers) >= 0 and max(integers) <= most))


def _all_text(names: Iterable[object]) -> bool:
    return set(map(type, names)) <= {str}
