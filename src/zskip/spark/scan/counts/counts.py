"""Counts and extremes from the index, for files whose rows all match: these files are not read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from zskip.errors import ConflictError
from zskip.index import BoundIndex
from zskip.prune import Tally
from zskip.records import Bools, LeafReport
from zskip.spark.scan.bridge.expressions import find_typed_stats
from zskip.spark.scan.first_rows.first_rows import sure_rows
from zskip.spark.scan.listings.choice import Choice
from zskip.spark.scan.listings.masks import pack_mask, unpack_mask
from zskip.types import DataType, Encoded, decode_decimal

KIND = "count"
_NO_FORM = DataType("long")


def count(stats: BoundIndex, choice: Choice, aggregates_json: str) -> str | None:
    """Count files by the index, for `Counts.java`, as JSON: a note that drops them from a scan, and values for them.

    None if no file can be counted. aggregates_json: lists of function, column and type.
    """
    if choice.pin is None:
        return None
    aggregates = json.loads(aggregates_json)
    counted = _count(stats, choice.kept & choice.full, aggregates)
    if counted is None:
        return None
    files, values = counted
    text = ", ".join(f"{function}({column or '*'})" for function, column, _ in aggregates)
    note = json.dumps({"files": pack_mask(files), "text": text, "of": choice.pin})
    return json.dumps({"note": note, "values": values})


def drop_counted(_: BoundIndex, choice: Choice, note_json: str) -> Choice:
    """Drop the counted files from a choice; raises ConflictError where they may be others than were counted."""
    note = json.loads(note_json)
    counted = unpack_mask(note["files"], len(choice.kept))
    if note["of"] != choice.pin or (counted & ~choice.listing.present).any():
        raise ConflictError("the files of the table changed after the query was planned; run it again")
    leaf = LeafReport(sql=note["text"], skipped=int((choice.kept & counted).sum()), kind=KIND)
    return choice.narrow(~counted, leaf)


def _count(
    stats: BoundIndex, files: Bools, aggregates: Sequence[Sequence[Any]]
) -> tuple[Bools, list[str | None]] | None:
    """Select the files of which the index knows all aggregates, and give these as texts; None if there are none.

    files: those whose rows all match.
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
    if not files.any():
        return None
    return files, [_text(tally.of(rows, files & (rows > 0)), _type(tally)) for tally in tallies]


def _type(tally: Tally) -> DataType:
    return _NO_FORM if tally.stats is None or tally.function == "count" else tally.stats.type


def _tally(stats: BoundIndex, function: str, column: str | None, type_json: str | None) -> Tally | None:
    if column is None or type_json is None:
        return Tally(function=function)
    column_stats = find_typed_stats(stats, column, type_json)
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
