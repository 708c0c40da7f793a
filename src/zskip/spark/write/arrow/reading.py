"""The live rows of data files as batches of Arrow, of a bounded size."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.errors import ZskipError
from zskip.index.store.leaves import FIELD_ID
from zskip.records import EXACT_NAMES, Deletes, Ints, Matching
from zskip.spark.write.arrow.access import Access
from zskip.spark.write.arrow.columns import as_type
from zskip.spark.write.arrow.schema import NotReadable, check_file, first_line, int96_columns

_MOST_ROWS = 65_536
_PROBED_ROWS = 64
"""Rows read first to learn how many bytes a row takes."""
_BATCH_BYTES = 16 << 20
_STREAMED = 256 << 20
"""Of row groups of more bytes columns are read piece by piece."""
_BUFFER = 1 << 20
_YEAR_1, _YEAR_10000 = -62_135_596_800, 253_402_300_800
"""Seconds since 1970, the range of Spark's type."""
_DICTIONARY_BYTES, _ROWS_A_BYTE = 8 << 10, 16
"""A text column keeps its dictionaries if their pages take fewer bytes, also for each row: a writer that gives up a
dictionary in the middle of a file has written a larger one."""
_PATH, _POSITION = "file_path", "pos"
"""The columns of files with position deletes."""
_MAGIC = b"\xd1\xd3\x39\x64"
"""Delta and Iceberg keep a deletion vector as the 64-bit Roaring bitmap that its specification calls portable, behind
these bytes; in a file, its length comes before and a checksum after it (the Delta protocol, "Deletion Vector Format";
the Puffin specification, "deletion-vector-v1")."""


class Source(NamedTuple):
    """A data file, or those of its row groups that begin in one of some equal parts of it."""

    path: str
    size: int
    partition: int
    """The place of its Hive partition in the snapshot."""
    part: int = 0
    parts: int = 1
    location: str = ""
    """What delete files call it."""
    deletes: Sequence[Sequence[Any]] = ()
    """As `deleted_rows` takes them."""
    hidden: Sequence[Sequence[Any]] = ()
    """As `HiddenColumn`; the last columns of the schema."""


def describe_tasks(tasks: Sequence[Sequence[Source]]) -> list[str]:
    """The rows that `read_tasks` reads; a row is a task, so that no task gets the names of all files."""
    return [json.dumps([number, sources]) for number, sources in enumerate(tasks)]


def read_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[Source]]]:
    """The number of each task, and what it reads."""
    for batch in batches:
        for text in batch.column(0).to_pylist():
            number, sources = json.loads(text)
            yield number, [Source(*source) for source in sources]


class Reader:
    """Reads the live rows of files in the columns, and the types, of a schema; texts may be in dictionaries."""

    def __init__(
        self,
        access: Access,
        schema: pa.Schema,
        *,
        corrected: bool,
        matching: Matching = EXACT_NAMES,
        few: int | None = None,
    ) -> None:
        """corrected: as `check_file` takes it; few: the rows of a batch where only the first of a file are wanted."""
        self._access = access
        self._schema = schema
        self._corrected = corrected
        self._matching = matching
        self._few = few
        self._row_bytes = 0.0
        """The most bytes that a row of a batch took."""

    def batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        """The live rows of a file in order. Raises NotReadable for a file that pyarrow reads otherwise than Spark."""
        try:
            with self._access.open(source.path, source.size) as stream:
                yield from self._batches(stream, source)
        except (pa.ArrowException, OSError, ZskipError) as error:
            # Spark reads more, and says in its own words what it cannot read.
            raise NotReadable(f'pyarrow cannot read "{source.path}": {first_line(error)}') from error

    def _batches(self, stream: Any, source: Source) -> Iterator[pa.RecordBatch]:
        options: dict[str, Any] = {"coerce_int96_timestamp_unit": "us", "pre_buffer": False}
        file = pq.ParquetFile(stream, **options)
        metadata = file.metadata
        fields = find_columns(metadata, self._schema, self._matching, source, corrected=self._corrected)
        stored = pa.schema([field for field in fields if field is not None])
        groups = _row_groups(metadata, source)
        _check_int96(stream, metadata, groups)
        dictionaries = _with_dictionaries(stored, metadata, groups)
        is_large = self._few is not None or any(metadata.row_group(i).total_byte_size > _STREAMED for i in groups)
        if dictionaries or is_large:
            options |= {"read_dictionary": dictionaries, "buffer_size": _BUFFER if is_large else 0}
            file = pq.ParquetFile(stream, metadata=metadata, **options)
        columns = _names_to_read(stored, file.schema_arrow)
        live = _LiveRows(self._schema, fields, source, deleted_rows(self._access, source.location, source.deletes))
        first_rows = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))]).tolist()
        for group in groups:
            row = first_rows[group]
            if not self._row_bytes:
                for probe in file.iter_batches(_PROBED_ROWS, row_groups=[group], columns=columns, use_threads=False):
                    self._row_bytes = max(probe.nbytes / max(probe.num_rows, 1), 1.0)
                    break
            rows = min(max(int(_BATCH_BYTES / max(self._row_bytes, 1.0)), 1), self._few or _MOST_ROWS)
            for batch in file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
                if batch.num_rows:
                    self._row_bytes = max(self._row_bytes, batch.nbytes / batch.num_rows)
                    yield from live.take(batch, row)
                    row += batch.num_rows


def find_columns(
    metadata: pq.FileMetaData, schema: pa.Schema, matching: Matching, source: Source, *, corrected: bool
) -> list[pa.Field | None]:
    """The columns of a schema under their names in a file; None for those that it lacks and need not have.

    corrected: as `check_file` takes it; raises NotReadable.
    """
    stored = metadata.schema.to_arrow_schema()
    names = set(stored.names)
    by_id = {_id_of(field): field for field in stored} if matching.by_id else {}
    may_lack = matching.may_lack | {name for name, _, _ in source.hidden}
    # Spark may take a column of another case for one that is missing, and Iceberg one without an id for any.
    doubtful = {field.name.lower() for field in stored if not matching.by_id or _id_of(field) is None}
    fields: list[pa.Field | None] = []
    for field in schema:
        field_id = _id_of(field) if matching.by_id else None
        same = by_id.get(field_id) if field_id is not None else field if field.name in names else None
        if same is not None and not _has_ids_of(same.type, field.type):
            raise NotReadable(f'parts of the column "{field.name}" have other ids in some files')
        is_doubtful = bool(doubtful) if matching.by_id else field.name.lower() in doubtful
        if same is None and (field.name not in may_lack or is_doubtful):
            raise NotReadable(f'some files have no column "{field.name}"')
        fields.append(None if same is None else field.with_name(same.name))
    if not any(fields):
        raise NotReadable("some files have none of the columns")
    check_file(metadata, pa.schema([field for field in fields if field is not None]), corrected=corrected)
    return fields


class _LiveRows:
    """The live rows of one file, in the columns of a schema."""

    def __init__(self, schema: pa.Schema, fields: Sequence[pa.Field | None], source: Source, deleted: Ints) -> None:
        """fields: as `find_columns` gives it; deleted: the numbers of deleted rows, ascending."""
        self._schema = schema
        self._fields = fields
        self._hidden = {name: (first, counts) for name, first, counts in source.hidden}
        self._deleted = deleted

    def take(self, batch: pa.RecordBatch, row: int) -> Iterator[pa.RecordBatch]:
        """Those of a batch whose first row has a number in the file."""
        columns = []
        for field, stored in zip(self._schema, self._fields, strict=True):
            given = None if stored is None else as_type(_column(batch, stored.name), field.type)
            columns.append(self._complete(field, given, row, batch.num_rows))
        live = pa.RecordBatch.from_arrays(columns, self._schema.names)
        first, last = np.searchsorted(self._deleted, [row, row + batch.num_rows]).tolist()
        if first < last:
            kept = np.ones(batch.num_rows, np.bool_)
            kept[self._deleted[first:last] - row] = False
            live = live.filter(pa.array(kept))
        if live.num_rows:
            yield live

    def _complete(self, field: pa.Field, given: pa.Array | None, row: int, rows: int) -> pa.Array:
        """What the file says, else null; of hidden columns the row's number added to the first, or the same for all."""
        first, counts = self._hidden.get(field.name, (None, False))
        if given is not None and first is None:
            return given
        numbers = np.arange(row, row + rows) if counts else np.zeros(rows, np.int64)
        value = pa.nulls(rows, field.type) if first is None else pa.array(numbers + first)
        return value if given is None else pc.coalesce(given, value)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _id_of(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(FIELD_ID)


def _has_ids_of(stored: pa.DataType, target: pa.DataType) -> bool:
    """Whether the parts of a column have the ids that the parts of another have."""
    parts = [_parts_of(kind) for kind in (stored, target)]
    return len(parts[0]) == len(parts[1]) and all(
        _id_of(other) in (None, _id_of(one)) and _has_ids_of(one.type, other.type)
        for one, other in zip(*parts, strict=True)
    )


def _parts_of(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.value_field]
    return list(kind) if pa.types.is_struct(kind) else []


def _names_to_read(schema: pa.Schema, stored: pa.Schema) -> list[str] | None:
    """The columns to read; None for all, also where a name could mean a part of a column."""
    names = schema.names
    return None if set(names) == set(stored.names) or any("." in name for name in names) else names


def _with_dictionaries(schema: pa.Schema, metadata: pq.FileMetaData, groups: Sequence[int]) -> list[int]:
    """Find the text columns with few values, by the size of their dictionaries."""
    texts = {f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)}
    # A path with a dot may also be one of a nested column.
    paths = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    numbers = [i for i, path in enumerate(paths) if path in texts and "." not in path]
    return [i for i in numbers if all(_has_small_dictionary(metadata.row_group(g).column(i)) for g in groups)]


def _check_int96(stream: Any, metadata: pq.FileMetaData, groups: Sequence[int]) -> None:
    """Raise NotReadable for timestamps of 96 bits that pyarrow takes for others.

    It reads days before 4713 BC as days far in the future, and wraps around those whose microseconds take more than 64
    bits. Seconds never do.
    """
    columns = int96_columns(metadata)
    if not columns:
        return
    file = pq.ParquetFile(stream, metadata=metadata, pre_buffer=False, coerce_int96_timestamp_unit="s")
    for batch in file.iter_batches(_MOST_ROWS, row_groups=groups, columns=columns, use_threads=False):
        for column in batch.columns:
            ends = pc.min_max(column.cast(pa.int64()))
            if ends["min"].is_valid and not _YEAR_1 <= ends["min"].as_py() <= ends["max"].as_py() < _YEAR_10000:
                raise NotReadable("it holds timestamps of 96 bits outside the years 1 to 9999")


def _has_small_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    start = chunk.dictionary_page_offset
    most = min(_DICTIONARY_BYTES, chunk.num_values // _ROWS_A_BYTE)
    return start is not None and 0 < chunk.data_page_offset - start <= most


def _row_groups(metadata: pq.FileMetaData, source: Source) -> list[int]:
    """The row groups that begin in the source's part of the file."""
    if source.parts == 1:
        return list(range(metadata.num_row_groups))
    groups, start = [], 4
    for i in range(metadata.num_row_groups):
        if min(start * source.parts // max(source.size, 1), source.parts - 1) == source.part:
            groups.append(i)
        group = metadata.row_group(i)
        start += sum(group.column(j).total_compressed_size for j in range(group.num_columns))
    return groups


def read_vector(content: bytes) -> Ints:
    """The numbers of the rows in a deletion vector, ascending; raises NotReadable for what is none.

    >>> import pyroaring
    >>> read_vector(_MAGIC + pyroaring.BitMap64([3, 1 << 33]).serialize()).tolist()
    [3, 8589934592]
    """
    try:
        import pyroaring
    except ImportError as error:
        raise NotReadable("executors have no pyroaring, which reads deletion vectors") from error
    if not content.startswith(_MAGIC):
        raise NotReadable("a deletion vector does not begin as one")
    try:
        rows = pyroaring.BitMap64.deserialize(content[len(_MAGIC) :])
    except (ValueError, IndexError) as error:
        raise NotReadable(f"a deletion vector cannot be read: {error}") from error
    return np.fromiter(rows, np.int64, len(rows))


def describe_deletes(deletes: Sequence[Deletes]) -> list[tuple[str | None, int | None, int | None, str | None]]:
    """Deletion vectors and position deletes, as they travel to tasks."""
    inline = [None if one.inline is None else base64.b64encode(one.inline).decode() for one in deletes]
    return [(one.path, one.offset, one.size, text) for one, text in zip(deletes, inline, strict=True)]


def deleted_rows(access: Access, location: str, deletes: Sequence[Sequence[Any]]) -> Ints:
    """The numbers of a data file's deleted rows, ascending.

    location: what delete files call it; deletes: from `describe_deletes`.
    """
    rows = [
        read_vector(base64.b64decode(inline))
        if inline is not None
        else _stored_vector(access, path, offset, size)
        if offset is not None
        else _positions(access, path, size, location)
        for path, offset, size, inline in deletes
    ]
    return np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def _stored_vector(access: Access, path: str, offset: int, size: int | None) -> Ints:
    with access.open(path, size) as stream:
        stream.seek(offset)
        content = stream.read(int.from_bytes(stream.read(4), "big"))
        if int.from_bytes(stream.read(4), "big") != zlib.crc32(content):
            raise NotReadable(f'the deletion vector at {offset} in "{path}" has another checksum')
    return read_vector(content)


def _positions(access: Access, path: str, size: int | None, location: str) -> Ints:
    with access.open(path, size) as stream:
        # Rows lie by file, so that the statistics of few row groups fit.
        rows = pq.read_table(stream, columns=[_POSITION], filters=pc.field(_PATH) == location, use_threads=False)
    return cast(Ints, rows[_POSITION].to_numpy().astype(np.int64))
