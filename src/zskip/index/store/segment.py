"""Segments: the part of an index that one refresh adds, never changed once written.

A segment is two Parquet files. `<name>-files.zskip` lists the data files that it describes; the row number is the
file's number within the segment. `<name>-entries.zskip` holds one row for each (column, file), sorted by column, then
file, so that a query reads only the row groups of its own columns. Everything read back is first verified against a
checksum from the manifest: a damaged segment is never trusted. Other segments describe the row groups of data files,
each as if it were a file.
"""

from __future__ import annotations

import io
import itertools
import threading
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.errors import IndexFormatError, StorageError
from zskip.index.store.cache import forget_part, read_part
from zskip.index.store.leaves import Column, ColumnList
from zskip.index.store.listing import FILES_SCHEMA, ROW_GROUPS_SCHEMA, Listing
from zskip.index.store.thrift import row_group_offsets, select_row_groups
from zskip.records import Bools, Ints, Values
from zskip.storage import Storage, prefetch
from zskip.storage.stream import RangeStream
from zskip.types import ZEROS, DataType, Form

INDEX_DIR = "_zskip/index"
ENDING = ".zskip"
"""The ending of an index's Parquet files: programs that read every `*.parquet` below a directory pass them over."""
MAX_ENTRIES = 4_000_000
"""Entries after which a segment is closed, which bounds the memory of a refresh."""

BLOCK_ROWS = 1 << 14
"""Rows in each row group of the entries."""

ENTRIES_SCHEMA = pa.schema(
    {
        "column": pa.int32(),
        "file": pa.int32(),
        "nulls": pa.int64(),
        "nans": pa.int64(),
        "int_min": pa.int64(),
        "int_max": pa.int64(),
        "float_min": pa.float64(),
        "float_max": pa.float64(),
        "bytes_min": pa.binary(),
        "bytes_max": pa.binary(),
    }
)


_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": False,
    "write_statistics": False,
    "store_schema": False,
}
"""Encodings that Spark, DuckDB and Polars can also read."""

_NUMBERS = "DELTA_BINARY_PACKED"
_ENTRIES_ENCODING = dict.fromkeys(("column", "file", "nulls", "nans", "int_min", "int_max"), _NUMBERS)

_CHUNK = 1 << 26
"""The most bytes read at once, so that an impossible length allocates no more memory than there are bytes."""

_FEW_GROUPS = 16
"""The most row groups whose descriptions are parsed alone, without the whole footer."""

_SERIAL_GROUPS = 64
"""The most row groups that one thread reads: beyond that, starting threads pays off."""

_UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, StorageError)


def new_name() -> str:
    """A unique name for a segment."""
    return f"segment-{uuid.uuid4().hex}"


class Block(NamedTuple):
    """A range of bytes and its CRC-32."""

    offset: int
    length: int
    crc: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """The manifest's description of a segment."""

    name: str
    files: int
    entries: int
    columns: ColumnList
    """The columns of its files; a column's number within the segment is its position here."""
    schemas: tuple[tuple[int, ...], ...]
    """The distinct sets of its files' columns, as column numbers."""
    defaults: tuple[str, ...]
    """Top-level columns that are not null in files without them."""
    starts: tuple[int, ...]
    """The entries row at which each column begins, and the end."""
    blocks: tuple[Block, ...]
    """The row groups of the entries."""
    footer: Block
    """The Parquet footer of the entries, to the end of the file."""
    listing: Block
    """The whole listing."""
    filled: bool = False
    """Whether gaps in footer statistics were filled with counts from the rows, as far as possible."""
    group_offsets: tuple[int, ...] = ()
    """Offsets of the row groups' descriptions in the footer, and the end of the last one; empty if not recorded."""
    of_row_groups: bool = False
    """Whether it describes row groups of data files, not whole files."""

    @property
    def bytes(self) -> int:
        """The size on disk."""
        return self.listing.length + self.footer.offset + self.footer.length

    @property
    def has_ids(self) -> bool:
        """Whether the ids of its columns' fields are recorded."""
        return self.columns.ids is not None

    @property
    def files_path(self) -> str:
        """The path of its listing."""
        return f"{INDEX_DIR}/{self.name}-files{ENDING}"

    @property
    def entries_path(self) -> str:
        """The path of its entries."""
        return f"{INDEX_DIR}/{self.name}-entries{ENDING}"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entries:
    """A segment's entries of one column; arrays of (entries,)."""

    files: npt.NDArray[np.int32]
    nulls: Ints
    """-1 if unknown."""
    nans: Ints
    """-1 if unknown."""
    lower: Values
    upper: Values
    bounded: Bools


def entries_table(
    number: int,
    form: Form,
    *,
    files: Sequence[int] | npt.NDArray[np.int32],
    nulls: Sequence[int] | Ints,
    nans: Sequence[int] | Ints,
    lower: Sequence[Any] | Values,
    upper: Sequence[Any] | Values,
    unbounded: Bools | None = None,
) -> pa.Table:
    """Rows of `ENTRIES_SCHEMA` for one column of a segment; counts of -1 and bounds of None are unknown.

    unbounded: (entries,) mask of unknown bounds, instead of None.
    """
    low, high = f"{form.value}_min", f"{form.value}_max"
    null_counts, nan_counts = np.asarray(nulls, np.int64), np.asarray(nans, np.int64)
    known = {
        "column": pa.repeat(pa.scalar(number, pa.int32()), len(files)),
        "file": pa.array(files, pa.int32()),
        "nulls": pa.array(null_counts, mask=null_counts < 0),
        "nans": pa.array(nan_counts, mask=nan_counts < 0),
        low: pa.array(lower, ENTRIES_SCHEMA.field(low).type, mask=unbounded),
        high: pa.array(upper, ENTRIES_SCHEMA.field(high).type, mask=unbounded),
    }
    arrays = [known[f.name] if f.name in known else pa.nulls(len(files), f.type) for f in ENTRIES_SCHEMA]
    return pa.table(arrays, schema=ENTRIES_SCHEMA)


def write_segment(
    storage: Storage,
    name: str,
    listing: pa.Table,
    columns: Iterable[Column],
    schemas: Sequence[tuple[int, ...]],
    defaults: Iterable[str],
    entries: Iterable[pa.Table],
    *,
    filled: bool = False,
) -> Segment:
    """Write a segment, of files or of row groups like its listing; it is valid once a manifest names it.

    entries: for each column in order, its rows of `ENTRIES_SCHEMA`, sorted by file; filled: as in `Segment.filled`.
    """
    starts = [0]
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, ENTRIES_SCHEMA, column_encoding=_ENTRIES_ENCODING, **_OPTIONS) as writer:
        pending: list[pa.Table] = []
        rows = 0
        for table in entries:
            starts.append(starts[-1] + table.num_rows)
            pending.append(table)
            rows += table.num_rows
            if rows >= BLOCK_ROWS:
                buffered = pa.concat_tables(pending)
                full = rows - rows % BLOCK_ROWS
                writer.write_table(buffered.slice(0, full), row_group_size=BLOCK_ROWS)
                pending, rows = [buffered.slice(full)], rows - full
        if rows:
            writer.write_table(pa.concat_tables(pending), row_group_size=BLOCK_ROWS)
    data = sink.getvalue()
    blocks, footer = _blocks(data)
    group_offsets = row_group_offsets(data[footer.offset :])
    files = io.BytesIO()
    encoding = {name: _NUMBERS for name in listing.column_names if name not in ("path", "identity")}
    pq.write_table(listing, files, column_encoding=encoding, **_OPTIONS)
    segment = Segment(
        name=name,
        files=listing.num_rows,
        entries=starts[-1],
        columns=ColumnList.of(columns),
        schemas=tuple(schemas),
        defaults=tuple(sorted(defaults)),
        starts=tuple(starts),
        blocks=blocks,
        footer=footer,
        group_offsets=group_offsets,
        listing=Block(0, files.tell(), zlib.crc32(files.getvalue())),
        filled=filled,
        of_row_groups="row_group" in listing.column_names,
    )
    storage.write(segment.entries_path, data)
    storage.write(segment.files_path, files.getvalue())
    return segment


def _blocks(data: bytes) -> tuple[tuple[Block, ...], Block]:
    """Split a Parquet file into its row groups and the footer."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    ends = [min(g.column(j).data_page_offset for j in range(g.num_columns)) for g in groups]
    ends.append(len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    view = memoryview(data)
    blocks = [Block(a, b - a, zlib.crc32(view[a:b])) for a, b in itertools.pairwise(ends)]
    return tuple(blocks), Block(ends[-1], len(data) - ends[-1], zlib.crc32(view[ends[-1] :]))


class SegmentReader:
    """Reads as little of a segment as needed; safe to share between threads.

    Its methods raise IndexFormatError if the segment is missing or damaged.
    """

    def __init__(self, storage: Storage, segment: Segment) -> None:
        self.segment = segment
        self._storage = storage
        self._lock = threading.Lock()
        self._footer: bytes | None = None
        self._metadata: pq.FileMetaData | None = None

    def listing(self, *, whole: bool = False) -> Listing:
        """Read the listing; whole: including the table versions."""
        segment = self.segment
        expected = ROW_GROUPS_SCHEMA if segment.of_row_groups else FILES_SCHEMA
        try:
            source = pq.ParquetFile(pa.BufferReader(self._read_verified(segment.files_path, [segment.listing])))
            names = [name for name in expected.names if whole or name != "table_version"]
            table = source.read(names, use_threads=False)
            if source.schema_arrow.remove_metadata() != expected or table.num_rows != segment.files:
                raise ValueError("it is not the listing in the manifest")
            if any(column.null_count for column in table.columns):
                raise ValueError("it has gaps")
            listing = Listing.of(table)
            if table.num_rows and not 0 <= listing.schema.min() <= listing.schema.max() < len(segment.schemas):
                raise ValueError("its schemas are not those in the manifest")
            return listing
        except _UNREADABLE as error:
            raise IndexFormatError(f"cannot read {segment.files_path}: {error}") from error

    def entries(self, column: int) -> Entries:
        """Read the entries of one column by its number within the segment."""
        form = DataType(self.segment.columns[column].type or "").form
        if form is None:
            raise IndexFormatError(f"{self.segment.entries_path} has entries of a column without an order")
        low, high = f"{form.value}_min", f"{form.value}_max"
        table = self.table(column, ("file", "nulls", "nans", low, high))
        lower, upper = table[low], table[high]
        has_all_bounds = not lower.null_count and not upper.null_count
        bounded = (
            np.ones(len(table), np.bool_) if has_all_bounds else np.asarray(pc.and_(lower.is_valid(), upper.is_valid()))
        )
        return Entries(
            files=table["file"].to_numpy(),
            nulls=_or_unknown(table["nulls"]),
            nans=_or_unknown(table["nans"]),
            lower=_values(lower, form),
            upper=_values(upper, form),
            bounded=bounded,
        )

    def table(self, column: int, names: Sequence[str] = ENTRIES_SCHEMA.names) -> pa.Table:
        """Read the rows of one column unchanged; names: the columns of the table to read."""
        return self.rows(self.segment.starts[column], self.segment.starts[column + 1], names)

    def rows(self, start: int, end: int, names: Sequence[str] = ENTRIES_SCHEMA.names) -> pa.Table:
        """Read a range of rows unchanged; names: the columns of the table to read, always with `file`."""
        segment = self.segment
        if start == end:
            return ENTRIES_SCHEMA.empty_table().select(names)
        first, last = start // BLOCK_ROWS, (end - 1) // BLOCK_ROWS
        try:
            table = self._row_groups(first, last, names).slice(start - first * BLOCK_ROWS, end - start)
            expected = pa.schema([ENTRIES_SCHEMA.field(name) for name in names])
            if table.schema.remove_metadata() != expected or table.num_rows != end - start:
                raise ValueError("its rows are not those in the manifest")
            files = pc.min_max(table["file"]).as_py()
            if table["file"].null_count or not 0 <= files["min"] <= files["max"] < segment.files:
                raise ValueError("its rows are not those in the manifest")
            return table
        except _UNREADABLE as error:
            raise IndexFormatError(f"cannot read {segment.entries_path}: {error}") from error

    def check(self) -> None:
        """Verify the whole segment, as currently stored, against its checksums."""
        segment = self.segment
        parts = [(segment.files_path, segment.listing)]
        parts += [(segment.entries_path, block) for block in (*segment.blocks, segment.footer)]
        for path, block in parts:
            try:
                self._read_verified(path, [block], now=True)
            except _UNREADABLE as error:
                raise IndexFormatError(f"cannot read {path}: {error}") from error

    def _row_groups(self, first: int, last: int, names: Sequence[str]) -> pa.Table:
        """Read a range of row groups, and no other bytes of the file."""
        blocks = self.segment.blocks[first : last + 1]
        metadata, groups = self._metadata_of(first, last)
        data = self._read_verified(self.segment.entries_path, blocks)
        # Data in memory needs no read-ahead in another thread.
        source = pq.ParquetFile(_Part(blocks[0].offset, data), metadata=metadata, pre_buffer=False)
        table: pa.Table = source.read_row_groups(groups, columns=list(names), use_threads=last - first > _SERIAL_GROUPS)
        return table.select(names)

    def _metadata_of(self, first: int, last: int) -> tuple[pq.FileMetaData, list[int]]:
        """The footer's metadata of a range of row groups, and their numbers in it."""
        offsets = self.segment.group_offsets
        with self._lock:
            if self._footer is None:
                self._footer = self._read_verified(self.segment.entries_path, [self.segment.footer])
            if self._metadata is None and offsets and last - first < _FEW_GROUPS:
                part = select_row_groups(self._footer, offsets, first, last)
                return pq.read_metadata(pa.BufferReader(part)), list(range(last - first + 1))
            if self._metadata is None:
                self._metadata = pq.read_metadata(pa.BufferReader(self._footer))
            return self._metadata, list(range(first, last + 1))

    def _read_verified(self, path: str, blocks: Sequence[Block], *, now: bool = False) -> bytes:
        """Read adjacent blocks at once and verify each against its checksum; now: bypassing the cache."""
        start, size = blocks[0].offset, sum(block.length for block in blocks)
        key = (path, start, size, *(block.crc for block in blocks))
        if now:
            forget_part(self._storage, key)
        data = read_part(self._storage, key, lambda: self._read(path, start, size))
        view = memoryview(data)
        for block in blocks:
            content = view[block.offset - start : block.offset - start + block.length]
            if len(content) != block.length or zlib.crc32(content) != block.crc:
                forget_part(self._storage, key)
                raise ValueError("it is damaged")
        return data

    def _read(self, path: str, start: int, size: int) -> bytes:
        with self._storage.open(path, self._size(path)) as stream:
            prefetch(stream, start, size)
            stream.seek(start)
            parts: list[bytes] = []
            missing = size
            while missing and (part := stream.read(min(missing, _CHUNK))):
                parts.append(part)
                missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _size(self, path: str) -> int:
        """The size of one of the two files, from the manifest."""
        segment = self.segment
        is_entries = path == segment.entries_path
        return segment.footer.offset + segment.footer.length if is_entries else segment.listing.length


class _Part(RangeStream):
    """A file with only some adjacent bytes available."""

    def __init__(self, start: int, data: bytes) -> None:
        super().__init__()
        self._start = start
        self._data = memoryview(data)

    def _length(self) -> int:
        return self._start + len(self._data)

    def read(self, size: int | None = -1) -> bytes:
        offset = self._position - self._start
        if offset < 0:
            raise ValueError("it is not where the manifest says")
        part = bytes(self._data[offset : None if size is None or size < 0 else offset + size])
        self._position += len(part)
        return part

    def _next(self, count: int) -> bytes:
        return self.read(count)


def _or_unknown(column: pa.ChunkedArray) -> Ints:
    values: Ints = (column.fill_null(-1) if column.null_count else column).to_numpy()
    return values


def _values(column: pa.ChunkedArray, form: Form) -> Values:
    values: Values = (column.fill_null(ZEROS[form]) if column.null_count else column).to_numpy()
    return values
