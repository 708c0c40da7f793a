"""Checks that a manifest is complete, which pyiceberg does not."""

from __future__ import annotations

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.manifest import ManifestEntry, ManifestFile


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
