"""Which statistics of a Parquet footer can be trusted, depending on the writer.

Each rule covers a bug or a convention that would otherwise make a query lose rows:

- byte arrays, unsigned integers and decimals in byte arrays are ordered only if the footer declares
  `column_orders`; older footers hold bounds of signed bytes (PARQUET-686, PARQUET-251);
- even so, several writers ordered decimals in byte arrays wrongly (parquet-cpp before Arrow 4, Polars,
  ClickHouse): only writers known to be right are trusted, and none if the arrays differ in length (arrow-rs);
- parquet-cpp before Arrow 3 corrupted the bounds of floats that met a NaN (PARQUET-1225);
- bounds of floats say nothing about NaN, which most writers leave out of them: only for Spark on parquet-mr 1.10
  to 1.17, which orders NaN above all values, does a numeric upper bound mean that there is none, and for zskip's own
  writer, which leaves out both bounds of a column with NaN;
- days and timestamps before 1900 may be in the hybrid Julian calendar, which Spark rebases as it reads, unless
  the footer says that Spark 3 or later wrote them unchanged;
- Parquet.Net shifts the bounds of timestamps by the writer's time zone, or ignores their unit;
- timestamps of 96 bits have no bounds; Spark shifts those of writers other than parquet-mr by a time zone if
  `spark.sql.parquet.int96TimestampConversion` is set, so that not even their type is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from zskip.index.store.thrift import varint

_VERSION = re.compile(r"(.*?)\s*version\s+v?(\d+)(?:\.(\d+))?")
_SPARK_VERSION = b"org.apache.spark.version"
_COPIED = b"original.created.by"
"""Marks row groups that were copied from another writer's files."""
_SPARK_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_COLLATIONS = "__COLLATIONS"
_DEFAULT = "EXISTS_DEFAULT"

_ZSKIP = "parquet-cpp-zskip"
"""The name that the rewrite through Arrow writes into footers, with the version of Arrow."""
_RIGHT_DECIMALS = {"parquet-mr": (1, 10), "parquet-cpp-arrow": (4, 0), _ZSKIP: (4, 0), "DuckDB": (0, 0)}
"""Writers with correct bounds of decimals in fixed byte arrays, and their first correct version."""

_WRONG_TIMES = ("parquet.net", "parquet-dotnet")
"""Writers with wrong bounds of dates and times in any version, in lower case."""

_NAN_IS_GREATEST = ((1, 10), (1, 17))
"""The first and last version of parquet-mr that includes NaN in an upper bound."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """What can be trusted in one file's statistics."""

    ordered: bool
    """The footer declares the order of its bounds, so those of bytes and unsigned integers count."""
    decimal_bytes: bool
    """Bounds of decimals in fixed byte arrays are correct."""
    floats: bool
    """Bounds of floats hold for the values that are not NaN."""
    times: bool
    """Bounds of dates, times and timestamps are correct."""
    nan_in_bounds: bool = False
    """If there is a NaN, the upper bound is NaN or there is none."""
    proleptic: bool
    """Days and timestamps before 1900 are in the calendar Spark uses."""
    utc_int96: bool = False
    """Timestamps of 96 bits are in UTC."""


def judge(footer: bytes, columns: int, created_by: str, metadata: Mapping[bytes, bytes] | None) -> Trust:
    """Decide what can be trusted in a file's statistics.

    footer: the bytes of the Thrift `FileMetaData`, as in the file; columns: its number of leaf columns.
    """
    writer, version = _writer(created_by)
    keys = metadata or {}
    writers = (created_by or "", keys.get(_COPIED, b"").decode(errors="replace"))
    ordered = footer.endswith(column_orders(columns))
    return Trust(
        ordered=ordered,
        decimal_bytes=ordered and writer in _RIGHT_DECIMALS and version >= _RIGHT_DECIMALS[writer],
        floats=writer != "parquet-cpp",
        times=not any(text.lower().startswith(_WRONG_TIMES) for text in writers),
        nan_in_bounds=_SPARK_VERSION in keys
        and _COPIED not in keys
        and (writer == _ZSKIP or (writer == "parquet-mr" and _NAN_IS_GREATEST[0] <= version <= _NAN_IS_GREATEST[1])),
        proleptic=_is_proleptic(keys),
        utc_int96=(created_by or "").startswith("parquet-mr"),
    )


def is_of_zskip(created_by: str) -> bool:
    """Whether the rewrite through Arrow wrote a file."""
    return _writer(created_by)[0] == _ZSKIP


def column_orders(columns: int) -> bytes:
    """The final bytes of a footer that declares the standard order for all its columns.

    It is field 7, the last one of an unencrypted file, in Thrift's compact protocol: pyarrow does not
    expose it, and without it reads deprecated bounds, which must be distinguished from sound ones.

    >>> column_orders(1).hex()
    '191c1c000000'
    """
    size = bytes([columns << 4 | 0xC]) if columns < 15 else b"\xfc" + varint(columns)
    return b"\x19" + size + b"\x1c\x00\x00" * columns + b"\x00"


def find_special_columns(metadata: Mapping[bytes, bytes] | None) -> tuple[frozenset[str], frozenset[str]]:
    """Find the top-level columns that Spark's own schema in a footer marks as special.

    Returns columns with a collation, which are not ordered by their bytes, and columns with a default, which files
    without the column hold instead of nulls.
    """
    text = (metadata or {}).get(_SPARK_SCHEMA, b"").decode(errors="replace")
    if _COLLATIONS not in text and _DEFAULT not in text:
        return frozenset(), frozenset()
    try:
        fields = [(str(f.get("name")), json.dumps(f)) for f in json.loads(text)["fields"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return frozenset(), frozenset()  # Spark reads such a file by its own schema.
    collated = frozenset(name for name, content in fields if _COLLATIONS in content)
    return collated, frozenset(name for name, content in fields if _DEFAULT in content)


def _writer(created_by: str) -> tuple[str, tuple[int, int]]:
    match = _VERSION.match(created_by or "")
    if match is None:
        return "", (0, 0)
    return match[1], (int(match[2]), int(match[3] or 0))


def _is_proleptic(metadata: Mapping[bytes, bytes]) -> bool:
    version = metadata.get(_SPARK_VERSION, b"").split(b".")[0]
    return version.isdigit() and int(version) >= 3 and not any(key in metadata for key in _SPARK_LEGACY)
