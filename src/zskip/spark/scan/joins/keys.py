"""Join pruning at a scan: the keys of the joins above it, tested against the index."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zskip.index import BoundIndex
from zskip.predicate import Predicate, term_sql
from zskip.prune.keys import keys_of, may_contain_keys
from zskip.records import Bools, LeafReport, Values
from zskip.spark.scan.bridge.expressions import find_term
from zskip.spark.scan.listings.choice import Choice
from zskip.types import DataType, Encoded, Form, encode_decimal, read_type

_WORDS = {Form.INT: ">i8", Form.FLOAT: ">f8"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Join:
    """One join, as `JoinKeys.java` describes it."""

    column: str
    name: str
    reason: str
    seconds: float
    type: DataType | None
    values: bytes

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> Join:
        """Read what came over as JSON."""
        type_json = described["type"]
        return cls(
            column=described["column"],
            name=described["name"],
            reason=described["reason"],
            seconds=described["seconds"],
            type=None if type_json is None else read_type(json.loads(type_json)),
            values=b"" if type_json is None else base64.b64decode(described["values"]),
        )


def keep_partners(stats: BoundIndex, choice: Choice, note: Sequence[Mapping[str, Any]]) -> Choice:
    """Keep the files that might hold rows with a partner in each join.

    note: as `JoinKeys.java` describes each join.
    """
    for join in map(Join.read, note):
        started = time.perf_counter()
        kept, keys, leaf = _narrow(stats, join)
        leaf = replace(leaf, seconds=join.seconds + time.perf_counter() - started)
        choice = choice.narrow(choice.kept if kept is None else kept, leaf)
        if keys is not None:
            choice = replace(choice, keys=(*choice.keys, keys))
    return choice


def why_not(joins: Sequence[Mapping[str, Any]]) -> list[LeafReport]:
    """Why joins skipped no file, for joins without a key query."""
    return [replace(_unused(join), seconds=join.seconds) for join in map(Join.read, joins)]


def _unused(join: Join, reason: str = "") -> LeafReport:
    return LeafReport(sql=f"join with {join.name}", skipped=0, kind="join", reason=join.reason or reason)


def _narrow(index: BoundIndex, join: Join) -> tuple[Bools | None, Predicate | None, LeafReport]:
    """The files that a join leaves, None for all, some of its keys, and the report."""
    if join.type is None:
        return None, None, _unused(join)
    term = find_term(index, join.column)
    stats = None if term is None else index.expression(term)
    if term is None or stats is None:
        return None, None, _unused(join, f"no statistics of {join.column if term is None else term_sql(term)}")
    values, has_nan = unpack_keys(join.values, join.type)
    keys = keys_of(values, join.type, stats.type, nan=has_nan)
    if keys is None:
        return None, None, _unused(join, f"keys of type {join.type} are not known to compare with {stats.type}")
    kept = may_contain_keys(keys, stats, index.rows)
    predicate = None if index.sketches is None else keys.predicate(term)
    if predicate is not None:
        kept = kept & index.prune(predicate).kept
    kept = index.snapshot.reading.add_changed(kept)
    skipped = int(np.count_nonzero(~kept))
    count = len(values) + has_nan
    report = LeafReport(
        sql=f"join with {join.name}: {count:,} key{'' if count == 1 else 's'}",
        skipped=skipped,
        kind="join",
        reason="" if skipped else "every file's range holds a key",
    )
    return kept, keys.sampled(term), report


def unpack_keys(data: bytes, data_type: DataType) -> tuple[Values, bool]:
    """The values that `KeyValues.java` packed, without NaN, and whether there was one.

    >>> unpack_keys(bytes(8), DataType("date"))
    (array([0]), False)
    """
    form = data_type.form
    if form is Form.BYTES:
        return _unpack_texts(data, data_type), False
    assert form is not None, "what has no form is not packed"
    words = np.frombuffer(data, _WORDS[form])
    if data_type.is_time:
        # Spark counts nanoseconds; files hold none.
        return (words[words % 1000 == 0] // 1000).astype(np.int64), False
    if form is Form.INT:
        return words.astype(np.int64), False
    nan = np.isnan(words)
    return words[~nan].astype(np.float64), bool(nan.any())


def _unpack_texts(data: bytes, data_type: DataType) -> Values:
    texts: list[Encoded] = []
    offset = 0
    while offset < len(data):
        end = offset + 4 + int.from_bytes(data[offset : offset + 4], "big")
        text = data[offset + 4 : end]
        if data_type.is_decimal:
            texts.append(encode_decimal(int.from_bytes(text, "big", signed=True), data_type))
        else:
            texts.append(text)
        offset = end
    values = np.empty(len(texts), np.object_)
    values[:] = texts
    return values
