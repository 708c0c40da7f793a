"""Columns and codecs of Parquet files, from their footers, as Spark reads them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import CorruptFileError, UnsupportedError
from zskip.formats.compression import codec_from_arrow
from zskip.formats.traits import NO_TRAITS, FileTraits, common_traits, foreign_types, read_traits
from zskip.index.collect.footer_sketches import FOOTER_SKETCHES
from zskip.index.collect.footers import EncryptedFooterError, RawFooter, read_footer
from zskip.index.collect.trust import is_of_zskip
from zskip.index.store.leaves import read_leaves
from zskip.records import Field, Ints, Snapshot
from zskip.storage import MANY_FILES, FileInfo, FileParser, Storage, Workers
from zskip.types import DataType, read_type

_SPARK_KEY = b"org.apache.spark.sql.parquet.row.metadata"
# A text, since the pickling of Spark 3.5 loses the content of dataclasses with slots.
_NESTED = "nested"
_LIST = re.compile(r"list<\w+: ")
_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_ENTROPY_CODECS = {"zstd", "gzip", "brotli"}
_OFTEN = 4
_THREADS = 8
_BATCH = 512
_PROBED_FILES = 64
_Parsed = tuple[int, tuple[tuple[str, str], ...], str, str, tuple[str, ...], tuple[Any, ...]]
"""What `Footer` has, as workers return it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Footer:
    """The facts from a file's footer that a rewrite needs before it reads the file."""

    rows: int
    columns: tuple[tuple[str, str], ...]
    """Name and type of each top-level column, sorted by name."""
    codec: str
    """The codec of the first column chunk, as `Compression` has it; "" for a file without rows."""
    sketches: str = ""
    """Those that zskip has written into it, as `unpack_footer_sketches` reads them."""
    encrypted: tuple[str, ...] = ()
    """The top-level columns that are encrypted, or of which parts are."""
    traits: FileTraits = NO_TRAITS


def read_fields(storage: Storage, first: FileInfo) -> tuple[Field, ...]:
    """The columns of a table as Spark infers them without merging schemas: those of its first file in path order.

    Raises CorruptFileError if that file's footer cannot be read.
    """
    metadata = _read_footer(storage, first.path, first.size).metadata
    schema_json = (metadata.metadata or {}).get(_SPARK_KEY)
    if schema_json is not None:
        # As in Spark, the file's own schema counts where this one is broken; Spark 1.1 wrote none in JSON.
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            return tuple(
                Field(name=field["name"], type=read_type(field["type"], field.get("metadata")), nullable=True)
                for field in json.loads(schema_json)["fields"]
            )
    return fields_from_parquet(metadata.schema)


def fields_from_json(schema_json: str) -> tuple[Field, ...]:
    """The columns of a Spark schema in JSON; a type without an order counts as nested or keeps its unknown name.

    >>> fields_from_json('{"fields": [{"name": "a", "type": "long", "nullable": true, "metadata": {}}]}')
    (Field(name='a', type=DataType(name='long'), nullable=True),)
    """
    return tuple(
        Field(name=f["name"], type=read_type(f["type"], f.get("metadata")), nullable=f["nullable"])
        for f in json.loads(schema_json)["fields"]
    )


def fields_from_parquet(schema: pq.ParquetSchema) -> tuple[Field, ...]:
    """The top-level columns of a Parquet schema with the types Spark gives them.

    >>> import pyarrow as pa, io
    >>> stream = io.BytesIO()
    >>> pq.write_table(pa.table({"a": [1], "b": [["x"]]}), stream)
    >>> [(field.name, str(field.type)) for field in fields_from_parquet(pq.ParquetFile(stream).schema)]
    [('a', 'long'), ('b', 'nested')]
    """
    int96 = {schema.column(i).path for i in range(len(schema.names)) if schema.column(i).physical_type == "INT96"}
    leaves = {
        column.path: DataType(column.type or ("timestamp" if ".".join(column.path) in int96 else _NESTED))
        for column in read_leaves(schema).columns
    }
    return tuple(Field(name=name, type=data_type) for name, data_type in _group_fields(leaves))


def _group_fields(leaves: Mapping[tuple[str, ...], DataType]) -> tuple[tuple[str, DataType], ...]:
    """The outermost columns of some paths, those with others inside as structs."""
    inside: dict[str, dict[tuple[str, ...], DataType]] = {}
    for path, data_type in leaves.items():
        inside.setdefault(path[0], {})[path[1:]] = data_type
    return tuple(
        (name, parts[()] if () in parts else DataType(_NESTED, _group_fields(parts))) for name, parts in inside.items()
    )


def read_footers(
    storage: Storage, files: Sequence[tuple[str, int]], workers: Workers | None = None
) -> Iterator[Footer]:
    """Read the footers of many files in parallel, in their order.

    files: paths, and sizes in bytes; workers: read them if there are many. Raises CorruptFileError for the first that
    cannot be read.
    """
    if workers is None or len(files) < MANY_FILES:
        yield from _read_locally(storage, [path for path, _ in files])
        return
    remaining = iter(files)
    for batch in workers.parse_files("look at", _make_parser, files):
        paths = [path for path, _ in islice(remaining, len(batch))]
        own = _read_locally(storage, [path for path, parsed in zip(paths, batch, strict=True) if parsed is None])
        for parsed in batch:
            yield next(own) if parsed is None else _footer(parsed)


def _footer(parsed: _Parsed) -> Footer:
    rows, columns, codec, sketches, encrypted, traits = parsed
    return Footer(
        rows=rows, columns=columns, codec=codec, sketches=sketches, encrypted=encrypted, traits=FileTraits(*traits)
    )


def _make_parser() -> FileParser:
    parse_footer = _FooterParser()

    def parse(stream: BinaryIO, size: int) -> _Parsed:
        return parse_footer(read_footer(stream, size))

    return parse


def _read_locally(storage: Storage, paths: Sequence[str]) -> Iterator[Footer]:
    remaining, parse_footer = iter(paths), _FooterParser()

    def read(path: str) -> Footer:
        return _footer(parse_footer(_read_footer(storage, path)))

    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(remaining, _BATCH)):
            yield from pool.map(read, batch)


class _FooterParser:
    """Extracts what `Footer` has; parses columns once for files with equal schemas."""

    def __init__(self) -> None:
        self._columns_of: dict[tuple[str, bytes | None, bool], tuple[tuple[str, str], ...]] = {}
        self._foreign_types: dict[str, tuple[tuple[str, str], ...]] = {}

    def __call__(self, footer: RawFooter) -> _Parsed:
        metadata = footer.metadata
        schema_text = str(metadata.schema).partition("\n")[2]
        texts = metadata.metadata or {}
        key = schema_text, texts.get(b"ARROW:schema"), b'"variant"' in texts.get(_SPARK_KEY, b"")
        if key not in self._columns_of:
            self._columns_of[key] = _columns(metadata.schema, has_variants=key[2])
            self._foreign_types[schema_text] = foreign_types(metadata.schema)
        # Other writers may copy the keys of a file, but not its rows.
        sketches = texts.get(FOOTER_SKETCHES, b"") if is_of_zskip(metadata.created_by) else b""
        encrypted = _names_of(metadata.schema, footer.encrypted) if footer.encrypted else ()
        # Plain values: workers may not have zskip.
        traits = tuple(read_traits(footer, self._foreign_types[schema_text]))
        text = sketches.decode(errors="replace")
        return metadata.num_rows, self._columns_of[key], _codec(footer), text, encrypted, traits


def _names_of(schema: pq.ParquetSchema, leaves: Collection[int]) -> tuple[str, ...]:
    """The top-level columns of some leaves."""
    columns, column_of = read_leaves(schema).columns, read_leaves(schema).column_of
    return tuple(dict.fromkeys(columns[column_of[leaf]].path[0] for leaf in sorted(leaves)))


def _codec(footer: RawFooter) -> str:
    metadata = footer.metadata
    is_known = metadata.num_row_groups and metadata.num_columns and not footer.encrypted
    return codec_from_arrow(metadata.row_group(0).column(0).compression) if is_known else ""


def _columns(schema: pq.ParquetSchema, *, has_variants: bool = False) -> tuple[tuple[str, str], ...]:
    """The name and type of each top-level column as Spark reads it, INT96 as a timestamp."""
    kinds = {f.name: _without_shredding(f.type) if has_variants else f.type for f in schema.to_arrow_schema()}
    # What is inside may be null for Spark, whatever a file says.
    nested = {name: _LIST.sub("list<", str(kind)).replace(" not null", "") for name, kind in kinds.items()}
    columns = ((f.name, nested[f.name] if f.type.form is None else f.type.name) for f in fields_from_parquet(schema))
    return tuple(sorted((name, kind.replace("timestamp[ns]", "timestamp[us, tz=UTC]")) for name, kind in columns))


def _without_shredding(kind: pa.DataType) -> pa.DataType:
    """The same type with variants as two binaries, since Spark chooses for each file what it stores beside those."""
    if pa.types.is_struct(kind):
        fields = {field.name: field for field in kind}
        is_variant = {"metadata", "value"} <= fields.keys() <= {"metadata", "value", "typed_value"}
        if is_variant and fields["metadata"].type == pa.binary() and not fields["metadata"].nullable:
            return pa.struct([(name, pa.binary()) for name in ("metadata", "value")])
        return pa.struct([field.with_type(_without_shredding(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_shredding(kind.value_type)))
    return pa.map_(kind.key_type, _without_shredding(kind.item_type)) if pa.types.is_map(kind) else kind


def count_dictionary_values(
    storage: Storage, snapshot: Snapshot, *, without: Sequence[str], codec: str | None = None
) -> list[tuple[float, int]]:
    """Columns of fixed width whose dictionaries the table keeps: the number of values, and the bytes of each.

    Decided by the table's first and last row group. Excluded are the columns `without`, and columns with few values
    only because of the order of rows: their two groups share no values, or hardly any value occurs four times. No
    column needs its dictionary if `codec`, or the table's own codec, writes frequent values in fewer bits anyway.
    Raises CorruptFileError if a file cannot be read.
    """
    if not len(snapshot):
        return []
    footers = [_read_footer(storage, snapshot.paths[i], int(snapshot.sizes[i])) for i in (0, -1)]
    ends = [footer.metadata for footer in footers]
    if not all(end.num_row_groups and end.num_columns for end in ends) or any(f.encrypted for f in footers):
        return []
    if (codec or _codec(footers[0])) in _ENTROPY_CODECS:
        return []
    groups = ends[0].row_group(0), ends[1].row_group(ends[1].num_row_groups - 1)
    dictionaries = []
    for i in range(min(group.num_columns for group in groups)):
        first, last = (group.column(i) for group in groups)
        width = _WIDTHS.get(first.physical_type)
        has_dictionary = any(encoding.endswith("_DICTIONARY") for encoding in first.encodings)
        is_sound = all(
            part.physical_type == end.schema.column(i).physical_type
            for part, end in zip((first, last), ends, strict=True)
        )
        if (
            width is None
            or not is_sound
            or not has_dictionary
            or first.path_in_schema in without
            or _are_disjoint(first, last)
        ):
            continue
        values = _solve_distinct(first.total_uncompressed_size, first.num_values, width)
        if _OFTEN * values <= first.num_values:
            dictionaries.append((values, width))
    return dictionaries


def _are_disjoint(one: pq.ColumnChunkMetaData, other: pq.ColumnChunkMetaData) -> bool:
    """Whether the bounds of two chunks do not overlap, as far as they are known."""
    has_bounds = all(part.statistics is not None and part.statistics.has_min_max for part in (one, other))
    if not has_bounds or (one.path_in_schema, one.physical_type) != (other.path_in_schema, other.physical_type):
        return False
    a, b = one.statistics, other.statistics
    # Raw values: Python cannot hold a date before year 1, or nanoseconds.
    return bool(a.max_raw < b.min_raw or b.max_raw < a.min_raw)


def _solve_distinct(size: int, count: int, width: int) -> float:
    """The number of values in a dictionary, from the bytes of the dictionary and of the rows' references to it."""
    low, high = 1.0, float(max(count, 1))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if width * middle + count * math.log2(middle) / 8 < size else (low, middle)
    return high


def _read_footer(storage: Storage, path: str, size: int | None = None) -> RawFooter:
    try:
        with storage.open(path, size) as stream:
            return read_footer(stream, size)
    except FileNotFoundError as error:
        raise CorruptFileError(
            f'"{storage.uri(path)}" is gone; if another writer has replaced it meanwhile, call again, else restore it'
        ) from error
    except EncryptedFooterError as error:
        raise UnsupportedError(
            f'the footer of "{storage.uri(path)}" is encrypted, and zskip has no keys; leave the table to Spark, or '
            "write it with parquet.encryption.plaintext.footer=true, so that zskip can skip its files"
        ) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(
            f'"{storage.uri(path)}" is not a readable Parquet file ({first_line(error)}); '
            "restore it or move it out of the table"
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inspection:
    """Facts from the footers of a snapshot's files."""

    rows: Ints
    """(files,)."""
    codec: str
    """The codec of most rows; "" if there are none."""
    traits: FileTraits
    """Those that all files with rows have."""
    lost_traits: tuple[str, ...]
    """What new files cannot have since only some of the files have it, a sentence for each."""


def inspect_footers(
    storage: Storage, snapshot: Snapshot, *, merge: bool = False, workers: Workers | None = None
) -> Inspection:
    """Read all footers of a snapshot before a rewrite.

    merge: whether the session unifies differing schemas (then Spark decides which match); workers: read footers if
    there are many. Raises CorruptFileError for an unreadable file, and UnsupportedError for encrypted columns, which a
    rewrite would write in the clear, for nanoseconds, which it would turn into numbers, and if files have different
    columns, since a rewrite under the first file's schema would lose those of the others.
    """
    rows = np.zeros(len(snapshot), np.int64)
    codecs: Counter[str] = Counter()
    traits: dict[FileTraits, None] = {}
    first: Footer | None = None
    files = list(zip(snapshot.paths, snapshot.sizes.tolist(), strict=True))
    for i, footer in enumerate(read_footers(storage, files, workers)):
        _check_not_encrypted(storage, snapshot.paths[i], footer)
        _check_no_nanos(storage, snapshot.paths[i], footer)
        rows[i] = footer.rows
        traits |= {footer.traits: None} if footer.rows else {}
        codecs[footer.codec] += footer.rows
        if first is None:
            first = footer
        elif footer.columns != first.columns and not merge:
            _refuse_mixed(storage, snapshot.paths[0], first, snapshot.paths[i], footer)
    del codecs[""]
    common, lost = common_traits(traits, snapshot.reading)
    codec = max(codecs, key=lambda codec: codecs[codec], default="")
    return Inspection(rows=rows, codec=codec, traits=common, lost_traits=lost)


def read_clear_footers(
    storage: Storage, snapshot: Snapshot, most: int, workers: Workers | None = None
) -> tuple[Snapshot, list[Footer]]:
    """Read the footers of at most so many files, evenly spaced, to which rows are appended; returns the files, too.

    Raises UnsupportedError for files that new ones would not match: with encrypted columns, or nanoseconds.
    """
    numbers = np.linspace(0, len(snapshot) - 1, min(len(snapshot), most)).astype(np.int64)
    some = snapshot.take(numbers)
    footers = list(read_footers(storage, list(zip(some.paths, some.sizes.tolist(), strict=True)), workers))
    for path, footer in zip(some.paths, footers, strict=True):
        _check_not_encrypted(storage, path, footer)
        _check_no_nanos(storage, path, footer)
    return some, footers


def check_not_encrypted(storage: Storage, snapshot: Snapshot) -> None:
    """Raise UnsupportedError if one of some files, evenly spaced, has encrypted columns; others may be damaged."""
    with suppress(CorruptFileError):
        read_clear_footers(storage, snapshot, _PROBED_FILES)


def _check_not_encrypted(storage: Storage, path: str, footer: Footer) -> None:
    if footer.encrypted:
        raise UnsupportedError(
            f'column "{footer.encrypted[0]}" is encrypted in "{storage.uri(path)}", and zskip would write it in the '
            "clear; leave rewrites, writes and sketches of this table to Spark, which has its keys"
        )


def _check_no_nanos(storage: Storage, path: str, footer: Footer) -> None:
    if footer.traits.nanos:
        raise UnsupportedError(
            f'column "{footer.traits.nanos[0]}" holds nanoseconds in "{storage.uri(path)}", which Spark reads as '
            "numbers (spark.sql.legacy.parquet.nanosAsLong), and would write as numbers for everybody; bring the files "
            "to microseconds first"
        )


def _refuse_mixed(storage: Storage, path: str, one: Footer, other_path: str, other: Footer) -> None:
    left, right = dict(one.columns), dict(other.columns)
    name = next(n for n in sorted({*left, *right}) if left.get(n) != right.get(n))
    raise UnsupportedError(
        f'column "{name}" is {left.get(name, "absent")} in "{storage.uri(path)}" and {right.get(name, "absent")} in '
        f'"{storage.uri(other_path)}": a rewrite could lose columns. Set spark.sql.parquet.mergeSchema=true to have '
        "Spark unify them, or bring the files to one schema first"
    )
