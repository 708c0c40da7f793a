"""Data skipping by Delta's statistics, and the bounds of long strings."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from question import File, Known, Question, fields

from zskip.predicate import Columns
from zskip.types import DataType, Form, encode

DATA = Path(__file__).parents[1] / "data" / "conformance"
_NAMES = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
}
_MILLI = 999
"""Delta cuts timestamps to milliseconds: a value may lie so many microseconds above its bound."""
_LONGEST = 32
"""Characters that Delta keeps of a string's lower bound."""
_TOKEN = re.compile(r"`(?:[^`]|``)*`|\w+(?:\(\d+(?:,\s*\d+)?\))?|[<>:,]")

Path_ = tuple[str, ...]


def questions() -> Iterator[Question]:
    """One for each predicate of each case."""
    for case in json.loads((DATA / "delta_skipping.json").read_text(encoding="utf-8"))["cases"]:
        types = leaves(case["schema"])
        partitions = tuple(case["partitionBy"])
        files = [_file(file, types, partitions) for file in case["files"]]
        indexed = {path for file in files for path in file.columns}
        columns = Columns(fields(types))
        for sql, peer, matching in _asked(case, len(files)):
            yield Question(
                suite="Delta Kernel" if case["engine"] == "delta-kernel" else "Delta",
                name=f"{case['id']}: {sql[:80]}",
                sql=sql.replace("==", "="),
                columns=columns,
                types={path: data_type for path, data_type in types.items() if path in indexed},
                files=files,
                peer=peer,
                matching=matching,
            )


def _asked(case: dict[str, Any], files: int) -> Iterator[tuple[str, int | None, int | None]]:
    """Each predicate, how many files Delta keeps, and how many rows match, where these are known.

    A hit keeps at least one file, a miss keeps none.
    """
    if case["kind"] == "file_counts":
        for expected in case["expect"]:
            yield expected["predicate"], expected["files"], expected.get("matchingRows")
        return
    for kind, peer in (("hits", 1 if files == 1 else None), ("misses", 0)):
        counts = case.get(f"{kind}MatchingRows") or [None] * len(case[kind])
        for sql, matching in zip(case[kind], counts, strict=True):
            yield sql, peer, matching


def _file(file: dict[str, Any], types: Mapping[Path_, DataType], partitions: Sequence[str]) -> File:
    rows = file.get("rows")
    known_rows = rows is not None and not any(kind.name.startswith("timestamp") for kind in types.values())
    content = [_row(row, types) for row in rows] if known_rows else None  # Timestamps are shown in milliseconds.
    stats = file.get("stats", ...)
    known = {}
    if stats is not None:
        known = _of_rows(content, types) if stats is ... else _of_stats(stats, types)
    for name in partitions:
        text = file["partitionValues"][name]
        value = None if text is None else _encoded(text, types[name,])
        known[name,] = Known(value, value, 0 if text is not None else len(rows))
    count = -1 if stats is None else len(rows) if stats is ... else stats["numRecords"]
    return File(count, known, content)


def _of_stats(stats: dict[str, Any], types: Mapping[Path_, DataType]) -> dict[Path_, Known]:
    found = {}
    for path, data_type in types.items():
        nulls = _at(stats["nullCount"], path)
        lower, upper = (_at(stats.get(end, {}), path) for end in ("minValues", "maxValues"))
        if nulls is not None or lower is not None:
            low, high = (None if x is None else _encoded(x, data_type) for x in (lower, upper))
            if high is not None and data_type.name.startswith("timestamp"):
                high = min(high + _MILLI, np.iinfo(np.int64).max)
            # Delta's maximum is Spark's, which is NaN where there is one.
            nans = 0 if data_type.form is Form.FLOAT and high is not None and high == high else -1
            found[path] = Known(low, high, -1 if nulls is None else nulls, nans)
    return found


def _of_rows(content: Sequence[Mapping[Path_, Any]] | None, types: Mapping[Path_, DataType]) -> dict[Path_, Known]:
    """What Delta writes for rows whose statistics the vector leaves out."""
    assert content is not None
    found = {}
    for path, data_type in types.items():
        values = [row[path] for row in content if row.get(path) is not None]
        if data_type.form is None:
            continue
        low, high = min(values, default=None), max(values, default=None)
        if data_type.name == "string" and values:
            low, high = low[:_LONGEST], high if len(high) <= _LONGEST else high[:_LONGEST] + b"\x7f"
        found[path] = Known(low, high, len(content) - len(values))
    return found


def _row(row: dict[str, Any], types: Mapping[Path_, DataType]) -> dict[Path_, Any]:
    if list(row) == ["value"] and list(types) == [("id",)]:
        row = {"id": row["value"]}
    found = {path: _at(row, path) for path in types}
    return {
        path: value if types[path].form is None else _encoded(value, types[path])
        for path, value in found.items()
        if value is not None
    }


def _at(tree: Any, path: Path_) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _encoded(value: Any, data_type: DataType) -> Any:
    if data_type.form is Form.INT and isinstance(value, str):
        if data_type.name == "date":
            return encode(dt.date.fromisoformat(value[:10]), data_type)
        if data_type.name.startswith("timestamp"):
            return int(np.datetime64(re.sub(r"^\+|Z$", "", value), "us").astype(np.int64))
        if data_type.is_integer:
            return int(value)
    return encode(value.encode() if data_type.name == "binary" else value, data_type)


@lru_cache
def leaves(schema: str) -> dict[Path_, DataType]:
    """The columns and the fields of structs that a schema in SQL declares, with their types."""
    found: dict[Path_, DataType] = {}
    _read_fields(_TOKEN.findall(schema), (), found)
    return found


def _read_fields(tokens: list[str], path: Path_, found: dict[Path_, DataType]) -> None:
    while tokens:
        name = tokens.pop(0)
        here = (*path, name[1:-1].replace("``", "`") if name.startswith("`") else name)
        kind = tokens.pop(0)
        if kind == ":":
            kind = tokens.pop(0)
        kind = kind.lower()
        if kind == "struct":
            assert tokens.pop(0) == "<"
            _read_fields(tokens, here, found)
        elif kind in ("array", "map"):
            depth = 0
            while True:
                depth += {"<": 1, ">": -1}.get(tokens.pop(0), 0)
                if not depth:
                    break
            found[here] = DataType(kind)
        else:
            found[here] = DataType(_NAMES.get(kind, kind))
        separator = tokens.pop(0) if tokens else ">"
        if separator == ">":
            return


def truncations() -> Iterator[tuple[str, str, int, str | None]]:
    """`min` or `max`, a string, how many characters are kept, and Delta's bound."""
    vectors = json.loads((DATA / "delta_string_truncation.json").read_text(encoding="utf-8"))
    for end in ("min", "max"):
        for case in vectors[f"truncate{end.title()}"]:
            yield end, case["input"], case["prefixLen"], case["expected"]
