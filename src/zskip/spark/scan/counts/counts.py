"""Counts and extremes from the index, for files whose rows all match: these files are not read."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zskip.errors import ConflictError
from zskip.index import BoundIndex
from zskip.prune import Tally
from zskip.records import Bools, Ints, LeafReport
from zskip.spark.scan.first_rows.first_rows import column_of, sure_rows
from zskip.spark.scan.listings.choice import Choice
from zskip.spark.scan.listings.masks import pack_mask, unpack_mask
from zskip.types import DataType, Encoded, decode_decimal

KIND = "count"
_MOST_WORK = 20_000_000
"""Files times groups."""
_NO_FORM = DataType("long")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    """Files that are counted, and rows of texts that stand for them."""

    files: Bools
    rows: list[list[str | None]]


def count(stats: BoundIndex, choice: Choice, aggregates_json: str, groups: str | None) -> str | None:
    """Count files by the index, for `Counts.java`, as JSON: a note that drops them from a scan, and rows for them.

    None if no file can be counted. aggregates_json: lists of function, column and type; groups: the group of each file
    as `Groups.java` packs it, None where rows are not grouped.
    """
    if choice.pin is None:
        return None
    aggregates = json.loads(aggregates_json)
    group_of = None if groups is None else np.frombuffer(base64.b64decode(groups), ">i4")
    counted = _count(stats, choice.kept & choice.full, aggregates, group_of)
    if counted is None:
        return None
    text = ", ".join(f"{function}({column or '*'})" for function, column, _ in aggregates) or "groups"
    note = json.dumps({"files": pack_mask(counted.files), "text": text, "of": choice.pin})
    return json.dumps({"note": note, "rows": counted.rows})


def drop_counted(_: BoundIndex, choice: Choice, note_json: str) -> Choice:
    """Drop the counted files from a choice; raises ConflictError where they may be others than were counted."""
    note = json.loads(note_json)
    counted = unpack_mask(note["files"], len(choice.kept))
    if note["of"] != choice.pin or (counted & ~choice.listing.present).any():
        raise ConflictError("the files of the table changed after the query was planned; run it again")
    leaf = LeafReport(sql=note["text"], skipped=int((choice.kept & counted).sum()), kind=KIND)
    return choice.narrow(~counted, leaf)


def _count(
    stats: BoundIndex, files: Bools, aggregates: Sequence[Sequence[Any]], group_of: Ints | None
) -> _Counted | None:
    """Count the files of which the index knows all aggregates; all rows of the given files match.

    group_of: (files,) group of each file, -1 for none.
    """
    rows = sure_rows(stats)
    tallies = []
    files = files & (rows >= 0)
    for aggregate in aggregates:
        tally = _tally(stats, *aggregate)
        if tally is None:
            return None
        tallies.append(tally)
        files = files & tally.known(rows)
    if group_of is not None:
        files = files & (group_of >= 0)
    groups = [None] if group_of is None else np.unique(group_of[files & (rows > 0)]).tolist()
    if not files.any() or len(groups) * len(files) > _MOST_WORK:
        return None
    types = [_NO_FORM if t.stats is None or t.function == "count" else t.stats.type for t in tallies]
    result: list[list[str | None]] = []
    for group in groups:
        members = files & (rows > 0) if group is None else files & (rows > 0) & (group_of == group)
        values = [_text(tally.of(rows, members), data_type) for tally, data_type in zip(tallies, types, strict=True)]
        result.append(values if group is None else [str(group), *values])
    return _Counted(files=files, rows=result)


def _tally(stats: BoundIndex, function: str, column: str | None, type_json: str | None) -> Tally | None:
    if column is None or type_json is None:
        return Tally(function=function)
    column_stats = column_of(stats, column, type_json)
    if column_stats is None:
        return None
    data_type = column_stats.type
    # Bounds of fewer digits are rounded, since files do not tell how many there are.
    if function != "count" and data_type.is_time and data_type.time_unit > 1:
        return None
    return Tally(function=function, stats=column_stats, tight=None if function == "count" else stats.tight((column,)))


def _text(value: Encoded | None, data_type: DataType) -> str | None:
    """A value as `IndexValue.java` reads it."""
    if value is None:
        return None
    if data_type.is_decimal:
        return str(decode_decimal(value, data_type))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return str(value)
