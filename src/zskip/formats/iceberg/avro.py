"""Whether a manifest is whole, which pyiceberg does not ask."""

from __future__ import annotations

from pyiceberg.avro.decoder import StreamingBinaryDecoder
from pyiceberg.avro.file import MAGIC, META_SCHEMA, SYNC_SIZE, AvroFileHeader
from pyiceberg.avro.resolver import construct_reader
from pyiceberg.manifest import ManifestEntry, ManifestFile


def check_blocks(content: bytes) -> None:
    """Raise EOFError or ValueError where an Avro file does not end with a block, or a block not where it says.

    pyiceberg takes a file that is cut short for one that ends there, and its compiled decoder reads beyond the end of
    a block. The layout is that of "Object Container Files" in the specification of Avro.
    """
    decoder, records = StreamingBinaryDecoder(content), 1
    header = construct_reader(META_SCHEMA, {-1: AvroFileHeader}).read(decoder)
    if header.magic != MAGIC:
        raise ValueError("it is no Avro file")
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
    """Raise EOFError where a manifest has fewer entries, deleted ones too, than the list of manifests says."""
    counts = manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
    said = sum(count or 0 for count in counts)
    if len(entries) < said:
        raise EOFError(f"it has {len(entries)} of {said} entries")
