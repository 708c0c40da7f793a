"""Columns of Parquet files as Spark reads them, from footers."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import CorruptFileError, UnsupportedError
from zskip.index.store.leaves import read_leaves
from zskip.records import Field, Ints, Snapshot
from zskip.storage import MANY_FILES, FileInfo, FileParser, Storage, Workers
from zskip.types import DataType, read_type

_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
_LIST = re.compile(r"list<\w+: ")
_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_ENTROPY_CODECS = {"zstd", "gzip", "brotli"}
_OFTEN = 4
_THREADS = 8
_BATCH = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Footer:
    """What a rewrite needs to know of a file before it reads it."""

    rows: int
    columns: tuple[tuple[str, str], ...]
    """Name and type of each top-level column, sorted by name."""
    codec: str
    """Compression of the first column chunk, lower case; "" for a file without rows."""


def read_fields(storage: Storage, first: FileInfo) -> tuple[Field, ...]:
    """The columns of a table as Spark infers them without merging: those of its first file in path order.

    Raises CorruptFileError where that file's footer cannot be read.
    """
    metadata = _metadata(storage, first.path, first.size)
    described = (metadata.metadata or {}).get(_SPARK_KEY)
    if described is not None:
        return tuple(
            Field(name=field["name"], type=read_type(field["type"], field.get("metadata")), nullable=True)
            for field in json.loads(described)["fields"]
        )
    return fields_of(metadata.schema)


def fields_from_json(schema_json: str) -> tuple[Field, ...]:
    """The columns of a Spark schema in JSON; a type that has no order counts as nested or by a name we do not know.

    >>> declared_fields('{"fields": [{"name": "a", "type": "long", "nullable": true, "metadata": {}}]}')
    (Field(name='a', type=DataType(name='long'), nullable=True),)
    """
    return tuple(
        Field(name=f["name"], type=read_type(f["type"], f.get("metadata")), nullable=f["nullable"])
        for f in json.loads(schema_json)["fields"]
    )


def fields_of(schema: pq.ParquetSchema) -> tuple[Field, ...]:
    """The top-level columns of a Parquet schema with the types Spark gives them.

    >>> import pyarrow as pa, io
    >>> stream = io.BytesIO()
    >>> pq.write_table(pa.table({"a": [1], "b": [["x"]]}), stream)
    >>> [(field.name, str(field.type)) for field in fields_of(pq.ParquetFile(stream).schema)]
    [('a', 'long'), ('b', 'nested')]
    """
    int96 = {schema.column(i).path for i in range(len(schema.names)) if schema.column(i).physical_type == "INT96"}
    found: dict[str, str] = {}
    for column in read_leaves(schema).columns:
        name = column.path[0]
        if len(column.path) > 1:
            found[name] = "nested"
        else:
            found[name] = column.type or ("timestamp" if name in int96 else "nested")
    return tuple(Field(name=name, type=DataType(kind)) for name, kind in found.items())


def read_footers(
    storage: Storage, files: Sequence[tuple[str, int]], workers: Workers | None = None
) -> Iterator[Footer]:
    """Read the footers of many files in parallel, in their order.

    files: paths, and sizes in bytes; workers: what reads them where they are many. Raises CorruptFileError for the
    first that cannot be read.
    """
    if workers is None or len(files) < MANY_FILES:
        yield from _read_here(storage, [path for path, _ in files])
        return
    todo = iter(files)
    for batch in workers.parse_files("look at", _looker, files):
        asked = [path for path, _ in islice(todo, len(batch))]
        here = _read_here(storage, [path for path, told in zip(asked, batch, strict=True) if told is None])
        for told in batch:
            yield next(here) if told is None else Footer(rows=told[0], columns=told[1], codec=told[2])


def _looker() -> FileParser:
    tell = _Teller()

    def look(stream: BinaryIO, size: int) -> tuple[int, tuple[tuple[str, str], ...], str]:
        return tell(pq.read_metadata(stream))

    return look


def _read_here(storage: Storage, paths: Sequence[str]) -> Iterator[Footer]:
    remaining, tell = iter(paths), _Teller()

    def read(path: str) -> Footer:
        rows, columns, codec = tell(_metadata(storage, path))
        return Footer(rows=rows, columns=columns, codec=codec)

    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(remaining, _BATCH)):
            yield from pool.map(read, batch)


class _Teller:
    """Rows, columns and codec as `Footer` has them; columns are read once of files that say the same of them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes | None], tuple[tuple[str, str], ...]] = {}

    def __call__(self, metadata: pq.FileMetaData) -> tuple[int, tuple[tuple[str, str], ...], str]:
        shown = str(metadata.schema).partition("\n")[2]
        said = shown, (metadata.metadata or {}).get(b"ARROW:schema")
        if said not in self._known:
            self._known[said] = _columns(metadata.schema)
        return metadata.num_rows, self._known[said], _codec(metadata)


def _codec(metadata: pq.FileMetaData) -> str:
    groups = metadata.num_row_groups and metadata.num_columns
    return metadata.row_group(0).column(0).compression.lower() if groups else ""


def _columns(schema: pq.ParquetSchema) -> tuple[tuple[str, str], ...]:
    """Name and type of each top-level column as Spark reads it: INT96 is a timestamp like any other."""
    nested = {field.name: _LIST.sub("list<", str(field.type)) for field in schema.to_arrow_schema()}
    read = ((f.name, nested[f.name] if f.type.form is None else f.type.name) for f in fields_of(schema))
    return tuple(sorted((name, kind.replace("timestamp[ns]", "timestamp[us, tz=UTC]")) for name, kind in read))


def count_dictionary_values(
    storage: Storage, snapshot: Snapshot, *, without: Sequence[str], codec: str | None = None
) -> list[tuple[float, int]]:
    """Columns of fixed width that need the dictionaries a table keeps of them: how many values, and the bytes of each.

    Told by its first and its last row group. Left out are the names `without`, and columns that have few values only
    where rows are: those of other values in each group, and those of which hardly a value comes four times. None needs
    its dictionary where `codec`, or the table's own, writes frequent values in fewer bits by itself. Raises
    CorruptFileError where a file cannot be read.
    """
    if not len(snapshot):
        return []
    ends = [_metadata(storage, snapshot.paths[i], int(snapshot.sizes[i])) for i in (0, -1)]
    if not all(end.num_row_groups and end.num_columns for end in ends):
        return []
    if (codec or _codec(ends[0])) in _ENTROPY_CODECS:
        return []
    groups = ends[0].row_group(0), ends[1].row_group(ends[1].num_row_groups - 1)
    found = []
    for i in range(min(group.num_columns for group in groups)):
        first, last = (group.column(i) for group in groups)
        width = _WIDTHS.get(first.physical_type)
        kept = any(encoding.endswith("_DICTIONARY") for encoding in first.encodings)
        if width is None or not kept or first.path_in_schema in without or _apart(first, last):
            continue
        values = _distinct(first.total_uncompressed_size, first.num_values, width)
        if _OFTEN * values <= first.num_values:
            found.append((values, width))
    return found


def _apart(one: pq.ColumnChunkMetaData, other: pq.ColumnChunkMetaData) -> bool:
    """Whether no value lies within the bounds of both, as far as they are known."""
    known = all(part.statistics is not None and part.statistics.has_min_max for part in (one, other))
    if not known or one.path_in_schema != other.path_in_schema:
        return False
    a, b = one.statistics, other.statistics
    # As they are stored: a date before year 1 or nanoseconds are no values of Python.
    return bool(a.max_raw < b.min_raw or b.max_raw < a.min_raw)


def _distinct(size: int, count: int, width: int) -> float:
    """How many values a dictionary has, given the bytes of it and of the places in it that the rows hold."""
    low, high = 1.0, float(max(count, 1))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if width * middle + count * math.log2(middle) / 8 < size else (low, middle)
    return high


def _metadata(storage: Storage, path: str, size: int | None = None) -> pq.FileMetaData:
    try:
        with storage.open(path, size) as stream:
            return pq.read_metadata(stream)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(
            f'"{storage.uri(path)}" is no readable Parquet file ({first_line(error)}); '
            "restore it or move it out of the table"
        ) from error


def first_line(error: BaseException) -> str:
    """What an error says first, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inspection:
    """What the footers of a snapshot say."""

    rows: Ints
    """(files,)."""
    codec: str
    """The codec most rows are in; "" where there is none."""


def inspect_footers(
    storage: Storage, snapshot: Snapshot, *, merge: bool = False, workers: Workers | None = None
) -> Inspection:
    """Read all footers of a snapshot before a rewrite.

    merge: whether the session unifies differing schemas (then Spark decides what goes together); workers: what reads
    footers that are many. Raises CorruptFileError for an unreadable file and UnsupportedError where files have
    different columns, since a rewrite under the schema of the first would lose those of the others.
    """
    rows = np.zeros(len(snapshot), np.int64)
    codecs: Counter[str] = Counter()
    first: Footer | None = None
    files = list(zip(snapshot.paths, snapshot.sizes.tolist(), strict=True))
    for i, footer in enumerate(read_footers(storage, files, workers)):
        rows[i] = footer.rows
        codecs[footer.codec] += footer.rows
        if first is None:
            first = footer
        elif footer.columns != first.columns and not merge:
            _refuse_mixed(storage, snapshot.paths[0], first, snapshot.paths[i], footer)
    del codecs[""]
    return Inspection(rows=rows, codec=max(codecs, key=lambda codec: codecs[codec], default=""))


def _refuse_mixed(storage: Storage, path: str, one: Footer, other_path: str, other: Footer) -> None:
    left, right = dict(one.columns), dict(other.columns)
    name = next(n for n in sorted({*left, *right}) if left.get(n) != right.get(n))
    raise UnsupportedError(
        f'column "{name}" is {left.get(name, "absent")} in "{storage.uri(path)}" and {right.get(name, "absent")} in '
        f'"{storage.uri(other_path)}": a rewrite could lose columns. Set spark.sql.parquet.mergeSchema=true to have '
        "Spark unify them, or bring the files to one schema first"
    )
