"""What Parquet files have that Spark's own do not: other types, keys of other programs, Bloom filters.

A rewrite keeps what all its files have in common, and says what it loses.
"""

from __future__ import annotations

import base64
import binascii
import inspect
import itertools
import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.index.collect.footers import RawFooter
from zskip.records import Reading

ARROW_SCHEMA = b"ARROW:schema"
_WRITERS_OWN = (b"org.apache.spark.", b"org.apache.hudi.", b"hoodie", b"zskip.", b"iceberg.", b"writer.model.")
"""How keys begin that each writer writes anew, or that are about the rows of one file."""
_NOTABLE = ("dictionary<", "tz=", "duration[", "extension<")
"""In the text of an Arrow schema: what Parquet's own types do not say."""
_NOT_OF_ARROW = ("enum", "bson")
_HAS_BLOOM_FILTERS = "bloom_filter_options" in inspect.signature(pq.ParquetWriter.__init__).parameters


class FileTraits(NamedTuple):
    """What a file has, or what several files have in common."""

    types: tuple[tuple[str, str], ...] = ()
    """The paths of columns whose types Spark does not write, and the types: as Arrow names them, `enum` or `bson`."""
    keys: tuple[tuple[bytes, bytes], ...] = ()
    """Metadata of other programs, without what is about the rows of one file."""
    arrow_schema: tuple[bytes, ...] = ()
    """The columns' types in Arrow, as IPC has a schema; none where the file does not say."""
    bloom_filters: tuple[str, ...] = ()
    """The paths of columns with Bloom filters."""
    nanos: tuple[str, ...] = ()
    """The paths of columns with timestamps in nanoseconds."""

    @property
    def kept_by_spark(self) -> FileTraits:
        """What Spark's own writer keeps."""
        return FileTraits(bloom_filters=self.bloom_filters)

    @property
    def kept_by_arrow(self) -> FileTraits:
        """What zskip's writer keeps."""
        types = tuple((path, kind) for path, kind in self.types if "." not in path and kind not in _NOT_OF_ARROW)
        return self._replace(types=types, bloom_filters=self.bloom_filters if _HAS_BLOOM_FILTERS else ())

    def lost_in(self, kept: FileTraits) -> tuple[str, ...]:
        """What is lost where only a part is kept, a sentence for each."""
        types, keys, arrow_schemas, bloom_filters, _ = (_rest(*pair) for pair in zip(self, kept, strict=True))
        sentences = [
            *(f'column "{path}" is no longer of Parquet\'s type {kind}' for path, kind in types),
            *(f'new files have no key "{key.decode(errors="replace")}"' for key, _ in keys),
            *(f'column "{path}" has no Bloom filter any more' for path in bloom_filters),
            *(f'column "{name}" is no longer of Arrow\'s type {kind}' for name, kind in _notable_types(arrow_schemas)),
        ]
        return tuple(dict.fromkeys(sentences))


NO_TRAITS = FileTraits()


def _rest(whole: Sequence[Any], part: Collection[Any]) -> list[Any]:
    return [item for item in whole if item not in part]


def _notable_types(arrow_schemas: Sequence[bytes]) -> list[tuple[str, str]]:
    """The columns, and their types, of which Parquet alone does not say the type."""
    fields = [(f.name, str(f.type)) for schema in arrow_schemas for f in pa.ipc.read_schema(pa.py_buffer(schema))]
    return [(name, kind) for name, kind in fields if any(sign in kind.replace("tz=UTC", "") for sign in _NOTABLE)]


def common_traits(files: Collection[FileTraits], reading: Reading) -> tuple[FileTraits, tuple[str, ...]]:
    """What new files get of what all files have or the table's settings say, and what is lost, a sentence for each.

    >>> common_traits([FileTraits(keys=((b"k", b"1"),)), FileTraits()], Reading())
    (FileTraits(types=(), keys=(), arrow_schema=(), bloom_filters=(), nanos=()), ('new files have no key "k"',))
    """
    if reading.declared is not None:
        # The table's format says of which types columns are, whatever files say.
        files = [one._replace(types=(), arrow_schema=()) for one in files]
    files = [
        one._replace(bloom_filters=_union([one.bloom_filters, reading.bloom_filters])) for one in files or [NO_TRAITS]
    ]
    of_files = list(zip(*files, strict=True))
    every = [_union(values) for values in of_files]
    common = FileTraits(
        *(
            tuple(x for x in some if all(x in one for one in values))
            for some, values in zip(every, of_files, strict=True)
        )
    )
    ignored = (f"new files do not follow {name}" for name in reading.ignored_settings)
    return common, (*FileTraits(*every).lost_in(common), *ignored)


def _union(parts: Collection[Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(itertools.chain.from_iterable(parts)))


def schema_traits(schema: pq.ParquetSchema, arrow_schema: bytes | None) -> FileTraits:
    """What a schema alone says of its files; arrow_schema: Arrow's own, as a footer has it."""
    types = foreign_types(schema)
    return FileTraits(
        types=tuple((path, kind) for path, kind in types if kind != "nanoseconds"),
        arrow_schema=_read_arrow_schema(arrow_schema),
        nanos=tuple(path for path, kind in types if kind == "nanoseconds"),
    )


def read_traits(footer: RawFooter, of_schema: FileTraits) -> FileTraits:
    """Read what a file has; of_schema: what its schema says, as `schema_traits` reads it."""
    texts = footer.metadata.metadata or {}
    keys = tuple(
        (key, _without_rows(key, value))
        for key, value in sorted(texts.items())
        if key != ARROW_SCHEMA and not key.startswith(_WRITERS_OWN)
    )
    return of_schema._replace(keys=keys, bloom_filters=_bloom_filters(footer))


def _bloom_filters(footer: RawFooter) -> tuple[str, ...]:
    """The columns with Bloom filters in the first row group."""
    metadata = footer.metadata
    if not metadata.num_row_groups or footer.encrypted:
        return ()
    group = metadata.row_group(0)
    columns = (group.column(i) for i in range(group.num_columns))
    return tuple(c.path_in_schema for c in columns if getattr(c, "bloom_filter_offset", None) is not None)


def foreign_types(schema: pq.ParquetSchema) -> tuple[tuple[str, str], ...]:
    """The paths and types of columns that Spark reads as another type than it would write.

    >>> import io
    >>> stream = io.BytesIO()
    >>> pq.write_table(pa.table({"a": pa.array([1], pa.uint8()), "b": [1]}), stream)
    >>> foreign_types(pq.ParquetFile(stream).schema)
    (('a', 'uint8'),)
    """
    leaves = [schema.column(i) for i in range(len(schema.names))]
    return tuple((leaf.path, kind) for leaf in leaves if (kind := _foreign_type(leaf)) is not None)


def _foreign_type(leaf: Any) -> str | None:
    logical = json.loads(leaf.logical_type.to_json())
    kind = logical["Type"]
    if kind == "Int" and not logical["isSigned"]:
        return f"uint{logical['bitWidth']}"
    if kind in ("Enum", "JSON", "BSON"):
        return str(kind).lower()
    if kind == "Timestamp" and logical["timeUnit"] == "milliseconds":
        return "timestamp[ms, tz=UTC]" if logical["isAdjustedToUTC"] else "timestamp[ms]"
    if kind == "Timestamp" and logical["timeUnit"] == "nanoseconds":
        return "nanoseconds"
    return f"fixed_size_binary[{leaf.length}]" if kind == "None" and leaf.physical_type.startswith("FIXED") else None


def _read_arrow_schema(text: bytes | None) -> tuple[bytes, ...]:
    """The columns of a footer's Arrow schema without metadata, as IPC has them; none where it cannot be read."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text or b"")))
        return (bytes(schema.remove_metadata().serialize()),)
    except (pa.ArrowException, OSError, binascii.Error):
        return ()


def _without_rows(key: bytes, value: bytes) -> bytes:
    """A key's value without what is about the rows of its file: pandas' index of row numbers, the box of geometries."""
    if key not in (b"pandas", b"geo"):
        return value
    try:
        content = json.loads(value)
        if key == b"pandas":
            content["index_columns"] = [name for name in content["index_columns"] if isinstance(name, str)]
        else:
            for column in content["columns"].values():
                column.pop("bbox", None)
        return json.dumps(content).encode()
    except (ValueError, KeyError, TypeError, AttributeError):
        return value
