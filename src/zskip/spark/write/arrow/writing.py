"""Rows of one file, in their order, become a Parquet file as Spark would write it."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.errors import ZskipError
from zskip.formats.base import STAGED
from zskip.formats.compression import arrow_codec
from zskip.index.collect.footers import NAN_STATISTICS
from zskip.layout.cells import Keys
from zskip.layout.pages import PageOrder
from zskip.records import Ints
from zskip.spark.write.arrow.access import Access, Reach
from zskip.spark.write.arrow.columns import has_nan, plain, without_unused
from zskip.spark.write.arrow.schema import NotArrow, first_line, leaves_of, schema_of_ddl, stored_bytes
from zskip.spark.write.arrow.sorting import stable_order
from zskip.spark.write.key_bounds import MakeBounds

WRITTEN = "file integer, name string, rows long, bytes long, read long, runs binary"
"""The columns that a task reports for each new file, and of `Origins`."""
_WRITTEN = schema_of_ddl(WRITTEN)
SUFFIXES = {
    "zstd": ".zstd",
    "snappy": ".snappy",
    "gzip": ".gz",
    "lz4_raw": ".lz4raw",
    "brotli": ".br",
    "uncompressed": "",
}
"""Spark's suffixes of file names, by codec."""
_LEVELS = {"zstd": 3, "gzip": 6}
"""The defaults of parquet-mr."""
_PAGE_BYTES = 1 << 20
_PART, _PART_ROWS = 8, 1_000
"""Every n-th row of a page, as a sample that shows whether its values repeat."""
_ROW_GROUP_BYTES = 128 << 20
PENDING_BYTES = 192 << 20
"""Larger files go through an Arrow file on disk."""
_TEXT_BYTES = 1 << 30
"""Of texts in one array."""
_FALSE_POSITIVES = 0.01
"""Of Bloom filters, as in parquet-mr."""
_ARROW, _ZSKIP = b"parquet-cpp-arrow version ", b"parquet-cpp-zskip version "
"""The writer of a file: bounds of our own writer allow more conclusions (see `index.collect.trust`)."""


class FileOptions:
    """The options of new files, and their directory."""

    def __init__(
        self,
        *,
        reach: Reach,
        directory: str,
        schema: pa.Schema,
        codec: str,
        level: int | None,
        page_rows: int,
        row_bytes: float,
        metadata: Mapping[str, str],
        page_order: PageOrder | None = None,
        make_bounds: MakeBounds | None = None,
        types: Mapping[str, pa.DataType] | None = None,
        keys: Mapping[bytes, bytes] | None = None,
        bloom_filters: Collection[str] = (),
    ) -> None:
        """directory: relative to the table; row_bytes: of a row in the files as they are; metadata: of the footers;
        page_order: of rows with keys, which lie by key without; make_bounds: where footers have the bounds of keys;
        types: of columns that are stored otherwise than in `schema`; keys: further metadata; bloom_filters: the paths
        of columns that get one."""
        self.reach = reach
        self.directory = directory
        self.schema = schema
        self.codec = codec
        self.level = _LEVELS.get(codec) if level is None else level
        self.page_rows = page_rows
        # Whole pages, so that those of a second row group begin where the page order has them begin.
        rows = max(1, int(_ROW_GROUP_BYTES / max(row_bytes, 1e-9)))
        self.group_rows = rows - rows % page_rows or rows
        self.metadata = {**(keys or {}), **{key.encode(): value.encode() for key, value in metadata.items()}}
        self.types = types or {}
        self.bloom_filters = bloom_filters
        self.page_order = page_order
        self.make_bounds = make_bounds

    def sort(self, keys: Keys) -> Ints:
        """Sort the rows of a file by their keys; returns positions."""
        return stable_order(keys) if self.page_order is None else self.page_order.sort(keys, self.page_rows)


class Origins(NamedTuple):
    """Where the rows of a task's files come from."""

    read: int
    """Rows that have been read: each task that places rows tells one of those that write."""
    runs: Ints
    """The tasks that have placed the rows, in the high halves, each with the mark of its run in the low half."""


def write_parquet(
    options: FileOptions,
    access: Access,
    file: int,
    table: pa.Table,
    origins: Origins,
    metadata: Mapping[bytes, bytes] | None = None,
) -> pa.RecordBatch:
    """Write rows as one Parquet file, complete and published, or not at all; returns the one row of `WRITTEN`.

    metadata: of this footer besides that of all. Columns with NaN get no bounds, since Spark does not know that bounds
    leave out NaN.
    """
    name = f"part-{file:05d}-{uuid.uuid4()}-c000{SUFFIXES[options.codec]}.parquet{STAGED}"
    path = f"{options.directory}/{name}"
    scratch = access.scratch(path)
    try:
        with pa.OSFile(scratch, "wb") as sink:
            _encode(sink, table, options, metadata or {})
        _sign(scratch)
        size = os.path.getsize(scratch)
        access.publish(scratch, path)
    except pa.ArrowException as error:
        raise NotArrow(f"pyarrow cannot write it: {first_line(error)}") from error
    except ZskipError as error:
        raise NotArrow(f"executors cannot write to its storage: {error}") from error
    finally:
        with suppress(OSError):
            os.remove(scratch)
    values = [[file], [name], [table.num_rows], [size], [origins.read], [origins.runs.tobytes()]]
    return pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(values, _WRITTEN, strict=True)], schema=_WRITTEN
    )


def encoded_bytes(table: pa.Table, options: FileOptions) -> int:
    """The bytes of the columns of some rows in a file of their own."""
    sink = pa.BufferOutputStream()
    _encode(sink, table, options, {})
    return column_bytes(pq.read_metadata(pa.BufferReader(sink.getvalue())))


def column_bytes(metadata: pq.FileMetaData) -> int:
    """The bytes of all columns of a file."""
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    return sum(group.column(i).total_compressed_size for group in groups for i in range(group.num_columns))


def _encode(sink: pa.NativeFile, rows: pa.Table, options: FileOptions, metadata: Mapping[bytes, bytes]) -> None:
    nans = _columns_with_nan(rows)
    table, has_dictionary = _prepare(rows, options)
    leaves = [
        (leaf, has_dictionary[i], i in nans and pa.types.is_floating(kind))
        for i, field in enumerate(options.schema)
        for leaf, kind in leaves_of(field.type, field.name)
    ]
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression=arrow_codec(options.codec),
        compression_level=options.level,
        use_dictionary=[leaf for leaf, repeats, _ in leaves if repeats],
        write_statistics=[leaf for leaf, _, has_nan in leaves if not has_nan] if nans else True,
        write_page_index=True,
        data_page_size=_PAGE_BYTES,
        max_rows_per_page=options.page_rows,
        **_bloom_filters(rows, [leaf for leaf, _, _ in leaves], options),
        store_schema=False,
        store_decimal_as_integer=True,
    ) as stream:
        stream.write_table(table, row_group_size=options.group_rows)
        nan_statistics = _nan_statistics(table, nans, options.group_rows)
        stream.add_key_value_metadata({**options.metadata, **nan_statistics, **metadata})


def _prepare(table: pa.Table, options: FileOptions) -> tuple[pa.Table, list[bool]]:
    """Prepare columns for Parquet: returns them with their fields, and which of them have a dictionary there."""
    has_dictionary = [_repeats(column, options.page_rows) for column in table.columns]
    columns = [
        _final_dictionary(column.chunk(0), repeats) if pa.types.is_dictionary(column.type) else column
        for column, repeats in zip(table.columns, has_dictionary, strict=True)
    ]
    for name, data_type in options.types.items():
        i = table.schema.get_field_index(name)
        columns[i] = _stored_as(columns[i], data_type)
    # Not the types of other columns: their parts may have the ids of old files.
    fields = [
        field.with_type(column.type) if pa.types.is_dictionary(column.type) or field.name in options.types else field
        for field, column in zip(options.schema, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)), has_dictionary


def _final_dictionary(column: pa.DictionaryArray, repeats: bool) -> pa.Array | pa.ChunkedArray:
    # Beside nulls pyarrow takes a value that is missing for one that is there, and bounds for wider ones.
    return without_unused(column) if repeats and not column.null_count else _decoded(column)


def _decoded(column: pa.DictionaryArray) -> pa.ChunkedArray:
    """Replace a dictionary by its texts, in chunks that Arrow's offsets of 32 bits reach."""
    longest = pc.max(pc.binary_length(column.dictionary)).as_py() or 1
    rows = max(_TEXT_BYTES // longest, 1)
    chunks = [plain(column.slice(start, rows)) for start in range(0, len(column), rows)]
    return pa.chunked_array(chunks, column.type.value_type)


def _stored_as(column: pa.Array | pa.ChunkedArray, data_type: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Convert a column to a type that Spark does not write; raises ArrowInvalid for values outside of it."""
    if pa.types.is_dictionary(column.type):
        column = plain(column)
    if not isinstance(data_type, pa.BaseExtensionType):
        return column.cast(data_type)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    stored = [pa.ExtensionArray.from_storage(data_type, chunk.cast(data_type.storage_type)) for chunk in chunks]
    return pa.chunked_array(stored, data_type)


def _bloom_filters(table: pa.Table, leaves: Collection[str], options: FileOptions) -> dict[str, Any]:
    """The argument of pyarrow's writer that has columns get Bloom filters, of the size that their values need."""
    columns = {
        leaf: {
            "ndv": max(_count_values(table.column(leaf)) if leaf in table.schema.names else table.num_rows, 1),
            "fpp": _FALSE_POSITIVES,
        }
        for leaf in leaves
        if leaf in options.bloom_filters
    }
    return {"bloom_filter_options": columns} if columns else {}


def _count_values(column: pa.ChunkedArray) -> int:
    if pa.types.is_dictionary(column.type):
        return len(column.chunk(0).dictionary)
    return int(pc.count_distinct(column).as_py())


def _columns_with_nan(table: pa.Table) -> list[int]:
    """Find the numbers of the columns that hold NaN, maybe nested."""
    floats = [
        i
        for i, field in enumerate(table.schema)
        if any(pa.types.is_floating(leaf) for _, leaf in leaves_of(field.type))
    ]
    return [i for i in floats if any(has_nan(chunk) for chunk in table.column(i).chunks)]


def _nan_statistics(table: pa.Table, nans: Collection[int], group_rows: int) -> dict[bytes, bytes]:
    """Record what columns with NaN hold beside it, for the index and for the logs of table formats."""
    starts = range(0, table.num_rows, group_rows)
    columns = [i for i in nans if pa.types.is_floating(table.column(i).type)]
    statistics = {
        table.field(i).name: [_count_nan(table.column(i).slice(start, group_rows)) for start in starts] for i in columns
    }
    return {NAN_STATISTICS: json.dumps(statistics).encode()} if columns else {}


def _count_nan(column: pa.ChunkedArray) -> tuple[int, int, float | None, float | None]:
    """The nulls, the NaN, and the bounds of the other values."""
    values = column.filter(pc.invert(pc.is_nan(column)))
    ends = pc.min_max(values).as_py()
    return column.null_count, len(column) - column.null_count - len(values), ends["min"], ends["max"]


def _repeats(column: pa.ChunkedArray, page_rows: int) -> bool:
    """Check if a dictionary shrinks a column, by its first page as in parquet-mr; always true for nested columns."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    kind = column.type
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind) or not len(column):
        return True
    page = column.slice(0, page_rows).drop_null()
    if not len(page):
        return True
    if pa.types.is_dictionary(kind):
        return _is_smaller(len(page), *_count_used(page))
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    width = 4 + pc.sum(pc.binary_length(page)).as_py() / len(page) if is_text else float(stored_bytes(kind))
    # Where a part of the rows hardly repeats, all of them do not enough: pairs grow with the square of rows.
    part = page.take(pa.array(np.arange(0, len(page), _PART)))
    repeats = _PART * (1 - pc.count_distinct(part).as_py() / len(part))
    if len(part) >= _PART_ROWS and not _is_smaller(len(page), int(len(page) * (1 - repeats)), width):
        return False
    return _is_smaller(len(page), pc.count_distinct(page).as_py(), width)


def _count_used(page: pa.ChunkedArray) -> tuple[int, float]:
    """How many texts of its dictionary a page uses, and the mean bytes of its values."""
    column = page.combine_chunks()
    uses = np.bincount(column.indices.to_numpy(), minlength=len(column.dictionary))
    lengths = pc.binary_length(column.dictionary).to_numpy()
    return int(np.count_nonzero(uses)), 4 + float(uses @ lengths) / len(page)


def _is_smaller(rows: int, values: int, width: float) -> bool:
    """Whether rows take fewer bytes as a dictionary of so many values and its indices; width: bytes of a value."""
    return values * width + rows * max(values - 1, 1).bit_length() / 8 < rows * width


def _sign(path: str) -> None:
    """Record the writer in a file's footer."""
    with open(path, "r+b") as stream:
        stream.seek(-8, os.SEEK_END)
        footer_bytes = int.from_bytes(stream.read(4), "little")
        stream.seek(-8 - footer_bytes, os.SEEK_END)
        footer = stream.read(footer_bytes)
        # The field comes after all others that hold text.
        offset = footer.rfind(_ARROW)
        if offset >= 0:
            stream.seek(-8 - footer_bytes + offset, os.SEEK_END)
            stream.write(_ZSKIP)
