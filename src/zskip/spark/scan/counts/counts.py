"""Counts and extremes of files all of whose rows match: from the index, so that the files are not read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zskip.errors import ConflictError
from zskip.index import BoundIndex
from zskip.prune import Tally
from zskip.records import Bools, Ints, LeafReport, Snapshot
from zskip.spark.scan.filters.catalyst import Handed
from zskip.spark.scan.first_rows.first_rows import column_of, sure_rows
from zskip.spark.scan.listings.choice import Choice, packed, unpacked
from zskip.types import DataType, Encoded, Form, decode_decimal

if TYPE_CHECKING:
    from zskip.spark.scan.rule.file_index import PrunedFileIndex

KIND = "count"
_MOST_WORK = 20_000_000
"""Files times groups."""
_NO_FORM = DataType("long")


_Group: TypeAlias = tuple[list[str | None], Bools]
"""By what rows are grouped, as text, and the files of the group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    """Files that are counted, and rows of texts that stand for them."""

    files: Bools
    rows: list[list[str | None]]


def count(index: PrunedFileIndex, partition_filters: Handed, data_filters: Handed, wanted: str, by: str) -> str | None:
    """What the index tells of files, for `Counts.java`, as JSON: a note that takes them from a scan, and rows.

    None where it tells of no file. wanted: lists of function, column and type, as JSON; by: lists of column and type,
    by which rows are grouped, or the files of each group.
    """
    stats = index.pruning.stats
    if stats is None or index.pin is None:
        return None
    aggregates, grouped = json.loads(wanted), json.loads(by)
    choice = index.choose(partition_filters, data_filters)
    files = choice.kept & choice.full
    if isinstance(grouped, list):
        groups = _groups(stats.snapshot, files, grouped)
    else:
        masks = (unpacked(bits, len(files)) for bits in grouped["directories"])
        groups = [([str(number)], files & mask) for number, mask in enumerate(masks)]
    found = None if groups is None else _counted(stats, files, aggregates, groups)
    if found is None:
        return None
    text = ", ".join(f"{function}({column or '*'})" for function, column, _ in aggregates) or "groups"
    note = json.dumps({"files": packed(found.files), "text": text, "of": index.pin})
    return json.dumps({"note": note, "rows": found.rows})


def without_counted(index: PrunedFileIndex, choice: Choice, note: str) -> Choice:
    """Take the counted files from a choice; raises ConflictError where they may be others than were counted."""
    said = json.loads(note)
    counted = unpacked(said["files"], len(choice.kept))
    if said["of"] != index.pin or (counted & ~index.present).any():
        raise ConflictError("the files of the table changed after the query was planned; run it again")
    leaf = LeafReport(sql=said["text"], skipped=int((choice.kept & counted).sum()), kind=KIND)
    return replace(choice, kept=choice.kept & ~counted, leaves=(*choice.leaves, leaf))


def _counted(
    stats: BoundIndex, files: Bools, aggregates: Sequence[Sequence[Any]], groups: Sequence[_Group]
) -> _Counted | None:
    """Take of some files, all of whose rows match, those of which the index knows all aggregates."""
    rows = sure_rows(stats)
    tallies = [_tally(stats, *aggregate) for aggregate in aggregates]
    files = files & (rows >= 0)
    for tally in tallies:
        if tally is None:
            return None
        files = files & tally.known(rows)
    if not files.any() or len(groups) * len(files) > _MOST_WORK:
        return None
    known = [tally for tally in tallies if tally is not None]
    types = [_NO_FORM if t.stats is None or t.function == "count" else t.stats.type for t in known]
    found: list[list[str | None]] = []
    for key, held in groups:
        members = held & files & (rows > 0)
        if key and not members.any():
            continue
        values = [tally.of(rows, members) for tally in known]
        found.append(key + [_text(value, data_type) for value, data_type in zip(values, types, strict=True)])
    return _Counted(files=files, rows=found)


def _tally(stats: BoundIndex, function: str, column: str | None, type_json: str | None) -> Tally | None:
    if column is None or type_json is None:
        return Tally(function=function)
    found = column_of(stats, column, type_json)
    if found is None or found.type.is_interval:
        return None
    return Tally(function=function, stats=found, tight=None if function == "count" else stats.tight((column,)))


def _partition_column(snapshot: Snapshot, name: str, type_json: str) -> int | None:
    """The place of a partition column whose values group as they compare; None where it is none."""
    for place, field in enumerate(snapshot.partition_fields):
        if field.name == name and f'"{field.type}"' == type_json and field.type.form in (Form.INT, Form.BYTES):
            return None if field.type.is_char or field.type.is_interval else place
    return None


def _groups(snapshot: Snapshot, files: Bools, columns: Sequence[Sequence[str]]) -> list[_Group] | None:
    """The groups of files by values of partition columns; None where they are grouped by something else."""
    if not columns:
        return [([], files)]
    places = [place for column in columns if (place := _partition_column(snapshot, *column)) is not None]
    if len(places) < len(columns):
        return None
    by_key: dict[tuple[str | None, ...], list[int]] = {}
    types = [snapshot.partition_fields[place].type for place in places]
    present: Ints = np.unique(snapshot.partition_of[files]).astype(np.int64)
    for number in present.tolist():
        values = [snapshot.partitions[number].values[place] for place in places]
        key = tuple(_text(value, data_type) for value, data_type in zip(values, types, strict=True))
        by_key.setdefault(key, []).append(number)
    return [(list(key), files & np.isin(snapshot.partition_of, numbers)) for key, numbers in by_key.items()]


def _text(value: Encoded | None, data_type: DataType) -> str | None:
    """A value as `Internal.java` reads it."""
    if value is None:
        return None
    if data_type.is_decimal:
        return str(decode_decimal(value, data_type))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return str(value)
