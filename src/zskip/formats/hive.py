"""Hive partition directories: which names are hidden, and the values of a directory and their types.

The rules are Spark's own (`HadoopFSUtils.shouldFilterOutPathName`, `PartitioningUtils`). Where Spark's inference
depends on the session (time zone) or on mixed types, the column gets no orderable type and is not used for pruning.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote_to_bytes

from zskip.errors import UnsupportedError
from zskip.records import Field, Partition
from zskip.types import DataType, Encoded, encode

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
UNSURE = DataType("unsure")
"""The type of a partition column that only a session can infer."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?\s*")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ODD = re.compile(r"\s*[+-]?(NaN|Infinity|0[xX].*|[0-9]{1,7}-.*|[0-9:]+:.*|T.*)\s*")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_LATIN_ESCAPE = re.compile("%[89A-Fa-f][0-9A-Fa-f]")
_ESCAPED = re.compile("[\x00-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")


def is_hidden(name: str) -> bool:
    """Whether Spark ignores a file or directory of this name.

    >>> [is_hidden(n) for n in ("_zskip", ".part.crc", "_a=1", "part-0.parquet", "x._COPYING_")]
    [True, True, False, False, True]
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _unescape(text: str) -> str:
    """Undo escapes as DuckDB, Polars and pyarrow do: each is a byte of UTF-8.

    >>> _unescape("%C3%A9"), _unescape_as_spark("%C3%A9")
    ('é', 'Ã©')
    """
    return unquote_to_bytes(text).decode(errors="replace") if "%" in text else text


def _unescape_as_spark(text: str) -> str:
    """Undo escapes as Spark does: each is a character."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def parse_directory(directory: str, unescape: Callable[[str], str] = _unescape) -> tuple[tuple[str, str], ...]:
    """The names and unescaped texts of the partition columns in a directory's path.

    unescape: undoes the escapes of texts. Raises UnsupportedError for plain directories above and below partition
    directories.

    >>> parse_directory("region=a%3Db/y=2024")
    (('region', 'a=b'), ('y', '2024'))
    """
    if not directory:
        return ()
    values = []
    for part in directory.split("/"):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise UnsupportedError(
                f'"{directory}" is not a partition directory ("{part}" is not name=value); '
                "open the directory that holds the data files instead"
            )
        values.append((_unescape(name), unescape(value)))
    return tuple(values)


def directory_of(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """The Hive directory of a partition, escaped as Spark does.

    >>> directory_of(["r", "n"], ["a=b/c", None])
    'r=a%3Db%2Fc/n=__HIVE_DEFAULT_PARTITION__'
    """
    pairs = zip(names, texts, strict=True)
    return "/".join(f"{_escape(n)}={DEFAULT_PARTITION if t is None else _escape(t)}" for n, t in pairs)


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def infer_partitions(directories: Sequence[str]) -> tuple[tuple[Field, ...], tuple[Partition, ...]]:
    """Infer the partition columns, and each directory's values in the forms of their types.

    Directories whose escapes Spark reads differently than other engines have the values of both. Raises
    UnsupportedError if the directories name different columns.
    """
    parsed = [parse_directory(d) for d in directories]
    names = tuple(name for name, _ in parsed[0]) if parsed else ()
    for directory, values in zip(directories, parsed, strict=True):
        if tuple(name for name, _ in values) != names:
            raise UnsupportedError(
                f'the directories "{directories[0]}" and "{directory}" have different partition columns; '
                "move one of them out of the table"
            )
    read_by_spark = {
        i: parse_directory(directory, _unescape_as_spark)
        for i, directory in enumerate(directories)
        if _LATIN_ESCAPE.search(directory)
    }
    types = [_common_type([values[i][1] for values in (*parsed, *read_by_spark.values())]) for i in range(len(names))]
    fields = tuple(Field(name=name, type=t) for name, t in zip(names, types, strict=True))

    def encode_all(values: Sequence[tuple[str, str]]) -> tuple[Encoded | None, ...]:
        return tuple(_encode(text, t) for (_, text), t in zip(values, types, strict=True))

    others = {i: encode_all(values) for i, values in read_by_spark.items()}
    return fields, tuple(
        Partition(directory=directory, values=encode_all(values), other_values=others.get(i, ()))
        for i, (directory, values) in enumerate(zip(directories, parsed, strict=True))
    )


def _common_type(texts: Sequence[str]) -> DataType:
    kinds = {_kind(text) for text in set(texts) if text != DEFAULT_PARTITION}
    if kinds <= {"integer", "long"}:
        return DataType("long" if "long" in kinds else "integer" if kinds else "string")
    return DataType(kinds.pop()) if len(kinds) == 1 else UNSURE


def _kind(text: str) -> str:
    if _INTEGER.fullmatch(text):
        value = int(text)
        if -(2**31) <= value < 2**31:
            return "integer"
        return "long" if -(2**63) <= value < 2**63 else UNSURE.name
    if _DOUBLE.fullmatch(text):
        return "double"
    if _DATE.fullmatch(text):
        try:
            dt.date.fromisoformat(text)
        except ValueError:
            return UNSURE.name
        return "date"
    return UNSURE.name if _ODD.fullmatch(text) else "string"


def _encode(text: str, data_type: DataType) -> Encoded | None:
    if text == DEFAULT_PARTITION:
        return None
    if data_type.name == "double":
        return float(text.strip().rstrip("dDfF"))
    if data_type.name == "date":
        return encode(dt.date.fromisoformat(text), data_type)
    if data_type.form is not None and data_type.is_integer:
        return int(decimal.Decimal(text))
    return text.encode()
