"""Checks of files that nobody else makes: manifests are whole, and timestamps in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.types import TimestampType, TimestamptzType

from zskip.errors import CorruptFileError, UnsupportedError, ZskipError
from zskip.formats.iceberg.values import LiveFile, leaves
from zskip.formats.schema import first_line
from zskip.storage import Storage

_LEAST, _MOST = 1 << 42, 253_402_300_800_000_000
"""Microseconds. Bounds closer to 1970 than 51 days may be milliseconds, and those after the year 9999 nanoseconds."""
_MICROSECONDS = "us"
_OTHER_UNITS: dict[tuple[str, int], tuple[str, str] | None] = {}
"""By the URI and size of files, which never change."""
_MOST_FILES = 10_000
_TIMESTAMPS = (TimestampType, TimestamptzType)


def check_blocks(content: bytes) -> None:
    """Raise EOFError or ValueError if an Avro file does not end with a block, or a block not at its recorded size.

    pyiceberg accepts a truncated file as complete, and its compiled decoder reads past the end of a block. The layout
    is that of "Object Container Files" in Avro's specification.
    """
    decoder, records = StreamingBinaryDecoder(content), 1
    header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    if header.magic != MAGIC:
        raise ValueError("it is not an Avro file")
    while decoder.tell() < len(content):
        if records == 0:
            raise ValueError("a block follows an empty one, at which pyiceberg ends")
        records, size = decoder.read_int(), decoder.read_int()
        if records < 0 or size < 0:
            raise ValueError(f"a block of {records} records and {size} bytes")
        decoder.skip(size)
        if decoder.read(SYNC_SIZE) != header.sync:
            raise ValueError("a block does not end where it says")


def check_count(manifest: ManifestFile, entries: list[ManifestEntry]) -> None:
    """Raise EOFError if a manifest has fewer entries, including deleted ones, than the manifest list records."""
    counts = manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    expected = sum(count or 0 for count in counts)
    if len(entries) < expected:
        raise EOFError(f"it has {len(entries)} of {expected} entries")


def check_time_units(storage: Storage, schema: Schema, files: Iterable[LiveFile], *, has_imported: bool) -> None:
    """Raise UnsupportedError for a file that holds timestamps in another unit than microseconds.

    Manifests take the numbers as they are, so only files with implausible bounds are opened. has_imported: whether
    files may be of other writers than Iceberg's, which need not have bounds.
    """
    columns = [i for _, i in leaves(schema.as_struct()) if isinstance(schema.find_type(i), _TIMESTAMPS)]
    for file in files if columns else ():
        if any(_is_implausible(file.data, field_id, has_imported=has_imported) for field_id in columns):
            other = _find_other_unit(storage, file.path, file.data.file_size_in_bytes)
            if other is not None:
                raise UnsupportedError(
                    f'the Iceberg table "{storage.root}" has the file "{file.path}", whose column "{other[0]}" holds '
                    f"timestamps in the unit {other[1]} where Iceberg prescribes microseconds, so its readers and its "
                    "statistics do not agree; write the rows of this file anew, with microseconds. Nothing was written"
                )


def _is_implausible(file: DataFile, field_id: int, *, has_imported: bool) -> bool:
    upper = (file.upper_bounds or {}).get(field_id)
    if upper is None:
        return has_imported and (file.null_value_counts or {}).get(field_id) != file.record_count
    return not _LEAST <= abs(int.from_bytes(upper, "little", signed=True)) < _MOST


def _find_other_unit(storage: Storage, path: str, size: int) -> tuple[str, str] | None:
    """A column of timestamps in a file that are not in microseconds, and their unit."""
    key = (storage.uri(path), size)
    if key not in _OTHER_UNITS:
        if len(_OTHER_UNITS) >= _MOST_FILES:
            _OTHER_UNITS.clear()
        try:
            _OTHER_UNITS[key] = next(_other_units(_read_schema(storage, path), ""), None)
        except ZskipError:
            return None  # whoever reads its rows says what is wrong with it
    return _OTHER_UNITS[key]


def _other_units(fields: Iterable[pa.Field], prefix: str) -> Iterator[tuple[str, str]]:
    for field in fields:
        kind = field.type
        if pa.types.is_timestamp(kind) and kind.unit != _MICROSECONDS:
            yield prefix + field.name, kind.unit
        elif pa.types.is_nested(kind):
            yield from _other_units((kind.field(i) for i in range(kind.num_fields)), f"{prefix}{field.name}.")


def _read_schema(storage: Storage, path: str) -> pa.Schema:
    try:
        with storage.open(path) as stream:
            return pq.read_schema(stream)
    except (OSError, pa.ArrowException) as error:
        raise CorruptFileError(f'cannot read the footer of "{storage.uri(path)}": {first_line(error)}') from error
