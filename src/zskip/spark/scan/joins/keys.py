"""Join pruning at a scan: what the joins above it say of its columns, held against the index."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.predicate import Column
from zskip.prune.keys import Keys, keys_of, may_contain_keys
from zskip.records import Bools, LeafReport, Values
from zskip.spark.jvm.gateway import JavaObject
from zskip.spark.scan.listings.choice import Choice
from zskip.types import DataType, Form, encode_decimal, read_type

if TYPE_CHECKING:
    from zskip.index import BoundIndex
    from zskip.spark.scan.rule.file_index import PrunedFileIndex

_WORDS = {Form.INT: ">i8", Form.FLOAT: ">f8"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """What `JoinKeys.java` says of one join."""

    column: str
    name: str
    reason: str
    seconds: float
    type: DataType | None
    values: bytes

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Join:
        """Read what came over as JSON."""
        found = described["type"]
        return cls(
            column=described["column"],
            name=described["name"],
            reason=described["reason"],
            seconds=described["seconds"],
            type=None if found is None else read_type(json.loads(found)),
            values=b"" if found is None else base64.b64decode(described["values"]),
        )


def with_partners(index: PrunedFileIndex, choice: Choice, note: JavaObject) -> Choice:
    """Of a choice of files those that might hold rows with a partner in each join."""
    stats = index.pruning.stats
    for join in map(Join.read, index.jvm.read(note)):
        started = time.perf_counter()
        kept, leaf = (None, _why_not(join)) if stats is None else _narrowed(stats, join)
        seconds = time.perf_counter() - started
        choice = replace(
            choice,
            kept=choice.kept if kept is None else choice.kept & kept,
            full=choice.full if kept is None else choice.full & kept,
            leaves=(*choice.leaves, replace(leaf, seconds=join.seconds + seconds)),
            seconds=choice.seconds + seconds,
        )
    return choice


def why_not(joins: Sequence[Mapping[str, Any]]) -> list[LeafReport]:
    """Why joins left out no file, of those whose keys nobody asked for."""
    return [replace(_why_not(join), seconds=join.seconds) for join in map(Join.read, joins)]


def _why_not(join: Join, reason: str = "no index") -> LeafReport:
    return LeafReport(sql=f"join with {join.name}", skipped=0, kind="join", reason=join.reason or reason)


def _narrowed(stats: BoundIndex, join: Join) -> tuple[Bools | None, LeafReport]:
    """Which files a join leaves, None for all, and what it did."""
    if join.type is None:
        return None, _why_not(join)
    of_column = stats.column((join.column,))
    if of_column is None:
        return None, _why_not(join, f"no statistics of {join.column}")
    values, nan = unpacked(join.values, join.type)
    keys = keys_of(values, join.type, of_column.type, nan=nan)
    if keys is None:
        return None, _why_not(join, f"keys of type {join.type} are not known to compare with {of_column.type}")
    kept = may_contain_keys(keys, of_column, stats.rows)
    kept = _by_sketches(stats, keys, Column((join.column,), of_column.type), kept)
    if stats.snapshot.altered is not None:
        kept = kept | stats.snapshot.altered
    skipped = int(np.count_nonzero(~kept))
    count = len(values) + nan
    return kept, LeafReport(
        sql=f"join with {join.name}: {count:,} key{'' if count == 1 else 's'}",
        skipped=skipped,
        kind="join",
        reason="" if skipped else "every file's range holds a key",
    )


def _by_sketches(stats: BoundIndex, keys: Keys, column: Column, kept: Bools) -> Bools:
    predicate = None if stats.sketches is None else keys.predicate(column)
    return kept if predicate is None else kept & stats.prune(predicate).kept


def unpacked(data: bytes, held: DataType) -> tuple[Values, bool]:
    """The values that `KeyValues.java` packed, without NaN, and whether there was one.

    >>> unpacked(bytes(8), DataType("date"))
    (array([0]), False)
    """
    form = held.form
    if form is Form.BYTES:
        return _texts(data, held), False
    assert form is not None, "what has no form is not packed"
    words = np.frombuffer(data, _WORDS[form])
    if form is Form.INT:
        return words.astype(np.int64), False
    nan = np.isnan(words)
    return words[~nan].astype(np.float64), bool(nan.any())


def _texts(data: bytes, held: DataType) -> Values:
    found, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "big")
        text = data[at + 4 : end]
        found.append(encode_decimal(int.from_bytes(text, "big", signed=True), held) if held.is_decimal else text)
        at = end
    made = np.empty(len(found), np.object_)
    made[:] = found
    return made
