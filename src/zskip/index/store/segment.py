"""Segments: the part of an index that one refresh adds, never changed once written.

A segment is two Parquet files. `<name>-files.parquet` lists the data files it describes; its row number
is the file's number within the segment. `<name>-entries.parquet` holds one row for each (column, file),
sorted by column then file, so that a query reads the row groups of its own columns only. Whatever is
read back is held against a checksum from the manifest first: a damaged segment is never believed.
Other segments describe the row groups of data files, each as if it were a file.
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
from zskip.index.store.cache import CACHE
from zskip.index.store.leaves import Column, ColumnList
from zskip.index.store.listing import FILES_SCHEMA, ROW_GROUPS_SCHEMA, Listing
from zskip.index.store.thrift import row_group_places, select_row_groups
from zskip.records import Bools, Ints, Values
from zskip.storage import Storage, prefetch
from zskip.storage.stream import RangeStream
from zskip.types import DataType, Form

INDEX_DIR = "_zskip/index"
MAX_ENTRIES = 4_000_000
"""Entries after which a segment is closed: what bounds the memory of a refresh."""

BLOCK_ROWS = 1 << 14
"""Rows of one row group of the entries."""

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
"""Encodings that Spark, DuckDB and Polars read, too."""

_NUMBERS = "DELTA_BINARY_PACKED"
_ENTRIES_ENCODING = dict.fromkeys(("column", "file", "nulls", "nans", "int_min", "int_max"), _NUMBERS)

_CHUNK = 1 << 26
"""Most bytes read at once, so that a length that cannot be asks for no more memory than there are bytes."""

_FEW_GROUPS = 16
"""Row groups of which the descriptions are parsed alone, and not the whole footer."""

_SERIAL_GROUPS = 64
"""Row groups that are read by one thread: more take longer than threads take to start."""

_UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, StorageError)


def new_name() -> str:
    """Give a segment a name that no other has."""
    return f"segment-{uuid.uuid4().hex}"


class Block(NamedTuple):
    """A range of bytes and its CRC-32."""

    offset: int
    length: int
    crc: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """All that the manifest says of a segment."""

    name: str
    files: int
    entries: int
    columns: ColumnList
    """The columns of its files; a column's number within the segment is its place here."""
    schemas: tuple[tuple[int, ...], ...]
    """The distinct sets of columns that its files have, as numbers of columns."""
    defaults: tuple[str, ...]
    """Top-level columns that are not null in files without them."""
    starts: tuple[int, ...]
    """Row of the entries at which each column begins, and the end."""
    blocks: tuple[Block, ...]
    """The row groups of the entries."""
    footer: Block
    """The Parquet footer of the entries, to their end."""
    listing: Block
    """The whole list of files."""
    filled: bool = False
    """Whether what footers do not tell was counted from the rows, as far as it can be."""
    places: tuple[int, ...] = ()
    """Where in the footer each row group's description begins, and the last one ends; none where that is not told."""
    of_row_groups: bool = False
    """Whether what it describes are row groups of data files, not whole ones."""

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return self.listing.length + self.footer.offset + self.footer.length

    @property
    def files_path(self) -> str:
        """Where its list of files lies."""
        return f"{INDEX_DIR}/{self.name}-files.parquet"

    @property
    def entries_path(self) -> str:
        """Where its entries lie."""
        return f"{INDEX_DIR}/{self.name}-entries.parquet"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Entries:
    """What a segment holds of one column; arrays of (entries,)."""

    files: npt.NDArray[np.int32]
    nulls: Ints
    """-1 where unknown."""
    nans: Ints
    """-1 where unknown."""
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
    """Rows of `ENTRIES_SCHEMA` of one column of a segment; counts of -1 are unknown, and so are bounds of None.

    unbounded: (entries,) where bounds are unknown, in place of None.
    """
    low, high = f"{form.value}_min", f"{form.value}_max"
    null_counts, nan_counts = np.asarray(nulls, np.int64), np.asarray(nans, np.int64)
    given = {
        "column": pa.repeat(pa.scalar(number, pa.int32()), len(files)),
        "file": pa.array(files, pa.int32()),
        "nulls": pa.array(null_counts, mask=null_counts < 0),
        "nans": pa.array(nan_counts, mask=nan_counts < 0),
        low: pa.array(lower, ENTRIES_SCHEMA.field(low).type, mask=unbounded),
        high: pa.array(upper, ENTRIES_SCHEMA.field(high).type, mask=unbounded),
    }
    arrays = [given[f.name] if f.name in given else pa.nulls(len(files), f.type) for f in ENTRIES_SCHEMA]
    return pa.table(arrays, schema=ENTRIES_SCHEMA)


def write_segment(
    storage: Storage,
    name: str,
    listing: pa.Table,
    columns: Sequence[Column],
    schemas: Sequence[tuple[int, ...]],
    defaults: Iterable[str],
    entries: Iterable[pa.Table],
    *,
    filled: bool = False,
) -> Segment:
    """Write a segment, of files or of row groups as its listing says; it counts from the moment a manifest names it.

    entries: for each column in order its rows of `ENTRIES_SCHEMA`, sorted by file; filled: as `Segment.filled`.
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
                whole = pa.concat_tables(pending)
                full = rows - rows % BLOCK_ROWS
                writer.write_table(whole.slice(0, full), row_group_size=BLOCK_ROWS)
                pending, rows = [whole.slice(full)], rows - full
        if rows:
            writer.write_table(pa.concat_tables(pending), row_group_size=BLOCK_ROWS)
    data = sink.getvalue()
    blocks, footer = _blocks(data)
    places = row_group_places(data[footer.offset :])
    files = io.BytesIO()
    encoding = {name: _NUMBERS for name in listing.column_names if name != "path"}
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
        places=places,
        listing=Block(0, files.tell(), zlib.crc32(files.getvalue())),
        filled=filled,
        of_row_groups="row_group" in listing.column_names,
    )
    storage.write(segment.entries_path, data)
    storage.write(segment.files_path, files.getvalue())
    return segment


def _blocks(data: bytes) -> tuple[tuple[Block, ...], Block]:
    """Cut a Parquet file into its row groups and the footer."""
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    ends = [min(g.column(j).data_page_offset for j in range(g.num_columns)) for g in groups]
    ends.append(len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    view = memoryview(data)
    blocks = [Block(a, b - a, zlib.crc32(view[a:b])) for a, b in itertools.pairwise(ends)]
    return tuple(blocks), Block(ends[-1], len(data) - ends[-1], zlib.crc32(view[ends[-1] :]))


class SegmentReader:
    """Reads a segment, as little of it as is asked for; safe to share between threads.

    Its methods raise IndexFormatError where the segment is missing or damaged.
    """

    def __init__(self, storage: Storage, segment: Segment) -> None:
        self.segment = segment
        self._storage = storage
        self._lock = threading.Lock()
        self._footer: bytes | None = None
        self._metadata: pq.FileMetaData | None = None

    def listing(self, *, whole: bool = False) -> Listing:
        """Read the list of files; whole: with the versions of the table, too."""
        segment = self.segment
        expected = ROW_GROUPS_SCHEMA if segment.of_row_groups else FILES_SCHEMA
        try:
            source = pq.ParquetFile(pa.BufferReader(self._verified(segment.files_path, [segment.listing])))
            names = [name for name in expected.names if whole or name != "table_version"]
            table = source.read(names, use_threads=False)
            if source.schema_arrow.remove_metadata() != expected or table.num_rows != segment.files:
                raise ValueError("it is not the list the manifest tells of")
            if any(column.null_count for column in table.columns):
                raise ValueError("it has gaps")
            found = Listing.of(table)
            if table.num_rows and not 0 <= found.schema.min() <= found.schema.max() < len(segment.schemas):
                raise ValueError("its schemas are not those the manifest tells of")
            return found
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
        whole = not lower.null_count and not upper.null_count
        bounded = np.ones(len(table), np.bool_) if whole else np.asarray(pc.and_(lower.is_valid(), upper.is_valid()))
        return Entries(
            files=table["file"].to_numpy(),
            nulls=_or_unknown(table["nulls"]),
            nans=_or_unknown(table["nans"]),
            lower=_values(lower, form),
            upper=_values(upper, form),
            bounded=bounded,
        )

    def table(self, column: int, names: Sequence[str] = ENTRIES_SCHEMA.names) -> pa.Table:
        """Read the rows of one column as they are; names: what of them."""
        return self.rows(self.segment.starts[column], self.segment.starts[column + 1], names)

    def rows(self, start: int, end: int, names: Sequence[str] = ENTRIES_SCHEMA.names) -> pa.Table:
        """Read a run of rows as they are; names: what of them, `file` always."""
        segment = self.segment
        if start == end:
            return ENTRIES_SCHEMA.empty_table().select(names)
        first, last = start // BLOCK_ROWS, (end - 1) // BLOCK_ROWS
        try:
            table = self._row_groups(first, last, names).slice(start - first * BLOCK_ROWS, end - start)
            expected = pa.schema([ENTRIES_SCHEMA.field(name) for name in names])
            if table.schema.remove_metadata() != expected or table.num_rows != end - start:
                raise ValueError("its rows are not those the manifest tells of")
            files = pc.min_max(table["file"]).as_py()
            if table["file"].null_count or not 0 <= files["min"] <= files["max"] < segment.files:
                raise ValueError("its rows are not those the manifest tells of")
            return table
        except _UNREADABLE as error:
            raise IndexFormatError(f"cannot read {segment.entries_path}: {error}") from error

    def check(self) -> None:
        """Hold all of the segment against its checksums, as it lies in its place now."""
        segment = self.segment
        parts = [(segment.files_path, segment.listing)]
        parts += [(segment.entries_path, block) for block in (*segment.blocks, segment.footer)]
        for path, block in parts:
            try:
                self._verified(path, [block], now=True)
            except _UNREADABLE as error:
                raise IndexFormatError(f"cannot read {path}: {error}") from error

    def _row_groups(self, first: int, last: int, names: Sequence[str]) -> pa.Table:
        """Read a run of row groups, and nothing of the file but their bytes."""
        wanted = self.segment.blocks[first : last + 1]
        metadata, groups = self._described(first, last)
        data = self._verified(self.segment.entries_path, wanted)
        # What is in memory needs no other thread to read it ahead.
        source = pq.ParquetFile(_Part(wanted[0].offset, data), metadata=metadata, pre_buffer=False)
        table: pa.Table = source.read_row_groups(groups, columns=list(names), use_threads=last - first > _SERIAL_GROUPS)
        return table.select(names)

    def _described(self, first: int, last: int) -> tuple[pq.FileMetaData, list[int]]:
        """What the footer says of a run of row groups, and their numbers in that."""
        places = self.segment.places
        with self._lock:
            if self._footer is None:
                self._footer = self._verified(self.segment.entries_path, [self.segment.footer])
            if self._metadata is None and places and last - first < _FEW_GROUPS:
                part = select_row_groups(self._footer, places, first, last)
                return pq.read_metadata(pa.BufferReader(part)), list(range(last - first + 1))
            if self._metadata is None:
                self._metadata = pq.read_metadata(pa.BufferReader(self._footer))
            return self._metadata, list(range(first, last + 1))

    def _verified(self, path: str, blocks: Sequence[Block], *, now: bool = False) -> bytes:
        """Read neighboring blocks in one go and hold each against its checksum; now: whatever was read before."""
        start, size = blocks[0].offset, sum(block.length for block in blocks)
        key = (path, start, size, *(block.crc for block in blocks))
        if now:
            CACHE.forget(self._storage, key)
        data = CACHE.get(self._storage, key, lambda: self._read(path, start, size))
        view = memoryview(data)
        for block in blocks:
            held = view[block.offset - start : block.offset - start + block.length]
            if len(held) != block.length or zlib.crc32(held) != block.crc:
                CACHE.forget(self._storage, key)
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
        """Bytes of one of the two files, as the manifest says."""
        segment = self.segment
        of_entries = path == segment.entries_path
        return segment.footer.offset + segment.footer.length if of_entries else segment.listing.length


class _Part(RangeStream):
    """A file of which only some neighboring bytes are there."""

    def __init__(self, start: int, data: bytes) -> None:
        super().__init__()
        self._start = start
        self._data = memoryview(data)

    def _length(self) -> int:
        return self._start + len(self._data)

    def read(self, size: int | None = -1) -> bytes:
        at = self._position - self._start
        if at < 0:
            raise ValueError("it is not where the manifest says")
        part = bytes(self._data[at : None if size is None or size < 0 else at + size])
        self._position += len(part)
        return part

    def _next(self, count: int) -> bytes:
        return self.read(count)


def _or_unknown(column: pa.ChunkedArray) -> Ints:
    values: Ints = (column.fill_null(-1) if column.null_count else column).to_numpy()
    return values


def _values(column: pa.ChunkedArray, form: Form) -> Values:
    empty: Any = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}[form]
    values: Values = (column.fill_null(empty) if column.null_count else column).to_numpy()
    return values
