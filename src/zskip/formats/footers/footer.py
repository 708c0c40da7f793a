"""Columns and codecs of Parquet files, from their footers, as Spark reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import CorruptFileError, UnsupportedError
from zskip.formats.compression import codec_from_arrow
from zskip.formats.footers.columns import SPARK_SCHEMA, Path, struct_fields
from zskip.formats.footers.traits import NO_TRAITS, FileTraits, read_traits, schema_traits
from zskip.formats.schema import fields_from_parquet, first_line
from zskip.index.collect.footer_sketches import FOOTER_SKETCHES
from zskip.index.collect.footers import EncryptedFooterError, RawFooter, read_footer
from zskip.index.collect.trust import is_of_zskip
from zskip.index.store.leaves import read_leaves
from zskip.records import Field
from zskip.storage import MANY_FILES, FileInfo, FileParser, Storage, Workers
from zskip.types import read_type

_SPARK_KEY = SPARK_SCHEMA.encode()
_LIST = re.compile(r"list<\w+: ")
_THREADS = 8
_BATCH = 512
_Parsed = tuple[Any, ...]
"""A `Footer` as workers return it, in plain values: they may not have zskip."""
_OfSchema = tuple[tuple[tuple[str, str], ...], tuple[Path, ...], FileTraits]
"""The columns, fields of structs and traits of one schema."""


class Footer(NamedTuple):
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
    struct_fields: tuple[Path, ...] = ()
    """The paths of the fields of all structs, through `element` of lists and `key` and `value` of maps."""
    traits: FileTraits = NO_TRAITS


def read_fields(storage: Storage, first: FileInfo) -> tuple[Field, ...]:
    """The columns of a table as Spark infers them without merging schemas: those of its first file in path order.

    Raises CorruptFileError if that file's footer cannot be read.
    """
    metadata = read_raw_footer(storage, first.path, first.size).metadata
    schema_json = (metadata.metadata or {}).get(_SPARK_KEY)
    if schema_json is not None:
        # As in Spark, the file's own schema counts where this one is broken; Spark 1.1 wrote none in JSON.
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            return tuple(
                Field(name=field["name"], type=read_type(field["type"], field.get("metadata")), nullable=True)
                for field in json.loads(schema_json)["fields"]
            )
    return fields_from_parquet(metadata.schema)


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
    return Footer._make((*parsed[:-1], FileTraits(*parsed[-1])))


def _make_parser() -> FileParser:
    parse_footer = _FooterParser()

    def parse(stream: BinaryIO, size: int) -> _Parsed:
        return parse_footer(read_footer(stream, size))

    return parse


def _read_locally(storage: Storage, paths: Sequence[str]) -> Iterator[Footer]:
    remaining, parse_footer = iter(paths), _FooterParser()

    def read(path: str) -> Footer:
        return _footer(parse_footer(read_raw_footer(storage, path)))

    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(remaining, _BATCH)):
            yield from pool.map(read, batch)


class _FooterParser:
    """Extracts what `Footer` has; parses columns once for files with equal schemas."""

    def __init__(self) -> None:
        self._of_schemas: dict[tuple[str, bytes | None, bool], _OfSchema] = {}

    def __call__(self, footer: RawFooter) -> _Parsed:
        metadata = footer.metadata
        schema_text = str(metadata.schema).partition("\n")[2]
        texts = metadata.metadata or {}
        key = schema_text, texts.get(b"ARROW:schema"), b'"variant"' in texts.get(_SPARK_KEY, b"")
        if key not in self._of_schemas:
            kinds = metadata.schema.to_arrow_schema()
            inside = tuple(path for field in kinds for path in struct_fields(field.type, (field.name,)))
            columns = _columns(metadata.schema, has_variants=key[2])
            self._of_schemas[key] = columns, inside, schema_traits(metadata.schema, key[1])
        columns, inside, traits = self._of_schemas[key]
        # Other writers may copy the keys of a file, but not its rows.
        sketches = texts.get(FOOTER_SKETCHES, b"") if is_of_zskip(metadata.created_by) else b""
        encrypted = _names_of(metadata.schema, footer.encrypted) if footer.encrypted else ()
        text = sketches.decode(errors="replace")
        return metadata.num_rows, columns, codec_of(footer), text, encrypted, inside, tuple(read_traits(footer, traits))


def _names_of(schema: pq.ParquetSchema, leaves: Collection[int]) -> tuple[str, ...]:
    """The top-level columns of some leaves."""
    columns, column_of = read_leaves(schema).columns, read_leaves(schema).column_of
    return tuple(dict.fromkeys(columns[column_of[leaf]].path[0] for leaf in sorted(leaves)))


def codec_of(footer: RawFooter) -> str:
    """The codec of the first column chunk; "" where there is none, or where it is encrypted."""
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


def read_raw_footer(storage: Storage, path: str, size: int | None = None) -> RawFooter:
    """Read one footer; raises CorruptFileError where it is unreadable, UnsupportedError where it is encrypted."""
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
