"""Prove on a user's own table that no row is lost: audit the index, and answer queries with and without it.

Without the index, `spark.read.parquet` reads plain Parquet, and a scan of all live files other formats. Both sides run
in a private copy of the session in which Spark does not filter inside files: the bounds of some writers leave NaN out,
and Spark then loses rows by itself.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from zskip.errors import InputError
from zskip.index import BoundIndex, ordered_columns
from zskip.predicate import (
    And,
    Column,
    Compare,
    Contains,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    StartsWith,
    smaller,
    to_sql,
)
from zskip.records import ALL_NULL, Bools, ColumnStats, Ints, Mismatch, Snapshot, Verification
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.predicates import read_where
from zskip.table.read.query import open_frame
from zskip.table.version import file_positions, open_reader
from zskip.types import DataType, Encoded, Form, decode_decimal, encode_decimal, value_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zskip.index import CountedColumn
    from zskip.spark.collect.statistics import FilePositions
    from zskip.spark.formats import Reader

_SAMPLED_ROWS = 2_000
_SAMPLED_COLUMNS = 24
_QUERIES_PER_JOB = 40
_SHRINKINGS = 40
"""Queries to try in search of a smaller one that also fails."""
_REPORTED = 20
_PRIVATE = {"spark.sql.parquet.filterPushdown": "false", "spark.zskip.enabled": "false"}
_CALENDARS = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
"""By default Spark 3.5 refuses ancient days of other writers."""
_OPERATORS = ("=", "<", "<=", ">", ">=")
_UNWRITABLE = "'...'"
"""What `to_sql` writes for a date or a timestamp outside its range."""


def verify(handle: Handle, where: str | None, *, queries: int, seed: int) -> Verification:
    """Audit every statistic of the index, then run the given query or random ones both ways."""
    from zskip.spark.jvm.compat import private_session

    _check_count("queries", queries)
    _check_count("seed", seed)
    if where is not None and not isinstance(where, str):
        raise InputError(f"where={where!r} is not SQL text")
    spark = handle.need_session("verify()")
    refused = {name: "CORRECTED" for name in _CALENDARS if str(spark.conf.get(name)).upper() == "EXCEPTION"}
    private = handle.in_session(private_session(spark, _PRIVATE | refused))
    reader = open_reader(private)
    reader.check()
    snapshot = reader.shown
    if where is not None:
        read_where(private, snapshot, where)
    if not len(snapshot):
        return Verification(path=handle.storage.root, files=0, columns=0, queries=0, mismatches=())
    both = _BothWays(private, reader, snapshot, file_positions(handle, snapshot))
    columns, index_errors = _audit(both, bind_index(private, snapshot, warn=False))
    texts = [where] if where is not None else [to_sql(p) for p in _draw_predicates(both, queries, seed)]
    return Verification(
        path=handle.storage.root,
        files=len(snapshot),
        columns=columns,
        queries=len(texts),
        mismatches=(*index_errors, *both.mismatches(texts)),
    )


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name}={value!r} is not a whole number of at least 0")


@dataclass(frozen=True, slots=True)
class _Answer:
    """A query's answer in short: the number of its rows, and the sum of their hashes."""

    rows: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, checksum {self.checksum}"


class _BothWays:
    """One table, read with zskip and without."""

    def __init__(self, handle: Handle, reader: Reader, snapshot: Snapshot, positions: FilePositions) -> None:
        self.handle = handle
        self.snapshot = snapshot
        self.positions = positions
        self.filters_itself = reader.filters_itself
        self.plain: DataFrame = reader.whole()
        self._hash = _hash_sql(self.plain)

    def mismatches(self, texts: Sequence[str]) -> Iterator[Mismatch]:
        """Run predicates both ways, and report the smallest part of each that differs."""
        for start in range(0, len(texts), _QUERIES_PER_JOB):
            batch = texts[start : start + _QUERIES_PER_JOB]
            for text, expected in zip(batch, self._answer_plainly(batch), strict=True):
                answer = self._answer_pruned(text)
                if answer != expected:
                    yield self._report(text, expected, answer)

    def _answer_plainly(self, texts: Sequence[str]) -> list[_Answer]:
        """Answer with plain Spark, all in one pass without filters; with them where the reader loses NaN by them."""
        if self.filters_itself:
            return [self._answer(self.plain.where(text)) for text in texts]
        # A newline follows each text, since it may end with a comment.
        sums = [f"count_if({text}\n)" for text in texts]
        sums += [f"sum(CASE WHEN {text}\n THEN {self._hash} END)" for text in texts]
        row = self._collect(self.plain, sums, f"answer {len(texts)} queries in full")
        return [_answer(row[i], row[len(texts) + i]) for i in range(len(texts))]

    def _answer_pruned(self, text: str) -> _Answer:
        if self.handle.connected is not None:
            from zskip.table.read.spark_connect import open_kept

            return self._answer(open_kept(self.handle, text)[0])
        return self._answer(self._pruned.where(text))

    @cached_property
    def _pruned(self) -> DataFrame:
        return open_frame(self.handle)

    def _answer(self, rows: DataFrame) -> _Answer:
        sums = ["count(1)", f"sum({self._hash})"]
        row = self._collect(rows, sums, "answer a query on its own")
        return _answer(row[0], row[1])

    def _collect(self, frame: DataFrame, sums: Sequence[str], text: str) -> Any:
        from pyspark.sql import functions as F

        from zskip.spark.jobs import describe_jobs

        with describe_jobs(self.handle.need_session("verify()"), text):
            return frame.agg(*(F.expr(sql).alias(f"a{i}") for i, sql in enumerate(sums))).collect()[0]

    def _report(self, text: str, expected: _Answer, answer: _Answer) -> Mismatch:
        def differs(predicate: Predicate) -> bool:
            sql = to_sql(predicate)
            return self._answer_plainly([sql]) != [self._answer_pruned(sql)]

        smallest = _find_smallest(read_where(self.handle, self.snapshot, text), differs)
        if smallest is not None:
            text = to_sql(smallest)
            expected, answer = self._answer_plainly([text])[0], self._answer_pruned(text)
        return Mismatch(what=text, file=self._find_lost_file(text), expected=str(expected), found=str(answer))

    def _find_lost_file(self, text: str) -> str | None:
        """Find a file with matching rows that is skipped all the same."""
        from zskip.spark.collect.statistics import aggregate_by_file

        files, table = aggregate_by_file(
            self.plain, {"n": f"count_if({text}\n)"}, self.positions, "find the file that is lost"
        )
        predicate = read_where(self.handle, self.snapshot, text)
        kept = bind_index(self.handle, self.snapshot, warn=False).prune(predicate).kept
        lost = [i for i, n in zip(files.tolist(), table["n"].to_pylist(), strict=True) if n and not kept[i]]
        return self.snapshot.paths[min(lost)] if lost else None


def _answer(rows: Any, checksum: Any) -> _Answer:
    return _Answer(int(rows), int(checksum or 0))


def _hash_sql(frame: DataFrame) -> str:
    """A hash of a row's columns as a decimal, whose sum does not overflow; maps are hashed as text."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    from zskip.spark.forms import quote_identifier

    def hashable(data_type: Any) -> bool:
        if isinstance(data_type, StructType):
            return all(hashable(field.dataType) for field in data_type)
        if isinstance(data_type, ArrayType):
            return hashable(data_type.elementType)
        return not isinstance(data_type, MapType) and data_type.typeName() != "variant"

    parts = []
    for field in frame.schema:
        name = quote_identifier(field.name)
        parts.append(name if hashable(field.dataType) else f"to_json(struct({name}))")
    return f"CAST(xxhash64({', '.join(parts)}) AS DECIMAL(20, 0))"


def _find_smallest(predicate: Predicate, differs: Callable[[Predicate], bool]) -> Predicate | None:
    """Find the smallest part of a predicate that still differs; None where only the whole does."""
    smallest, tries_left = None, _SHRINKINGS
    candidates = list(smaller(predicate))
    while candidates and tries_left:
        part, tries_left = candidates.pop(0), tries_left - 1
        if differs(part):
            smallest, candidates = part, list(smaller(part))
    return smallest


def _audit(both: _BothWays, index: BoundIndex) -> tuple[int, list[Mismatch]]:
    """Compare every statistic with its file; returns the number of columns, and the mismatches."""
    from zskip.spark.collect.statistics import count_values

    columns = [Column(*column) for column in ordered_columns(both.snapshot.fields)]
    described = both.snapshot.reading.drop_inexact(np.ones(len(both.snapshot), np.bool_))
    stats_by_column = {c: s for c in columns if (s := index.column(c.path)) and s.type == c.type}
    rows, counted = count_values(
        both.plain, [(c.path, c.type) for c in stats_by_column], both.positions, "audit the index"
    )
    indexed_rows = np.where(described, index.rows, -1)
    mismatches = list(_compare_rows(both.snapshot, indexed_rows, rows))
    for column, stats in stats_by_column.items():
        bounds = dataclasses.replace(stats, bounded=stats.bounded & described)
        mismatches += _compare_statistics(both.snapshot, column, bounds, counted[column.path], indexed_rows)
    return len(stats_by_column), mismatches[:_REPORTED]


def _compare_rows(snapshot: Snapshot, indexed: Ints, rows: Ints) -> Iterator[Mismatch]:
    for i in np.flatnonzero((indexed >= 0) & (indexed != rows)).tolist():
        yield Mismatch(what="rows", file=snapshot.paths[i], expected=f"{rows[i]:,}", found=f"{indexed[i]:,}")


def _compare_statistics(
    snapshot: Snapshot, column: Column, stats: ColumnStats, counted: CountedColumn, rows: Ints
) -> Iterator[Mismatch]:
    indexed = rows >= 0
    all_null = stats.nulls == ALL_NULL
    values = counted.bounded & stats.bounded
    checks: tuple[tuple[str, Any, Any, Any], ...] = (
        (
            "nulls",
            indexed & (stats.nulls >= 0) & ~all_null & (stats.nulls != counted.nulls),
            counted.nulls,
            stats.nulls,
        ),
        ("nulls", indexed & all_null & (counted.bounded | (counted.nans > 0)), counted.nulls, stats.nulls),
        ("NaN", indexed & ~stats.may_nan & (counted.nans > 0), counted.nans, np.zeros_like(counted.nans)),
        ("lower bound", indexed & values & _mask(counted.lower < stats.lower), counted.lower, stats.lower),
        ("upper bound", indexed & values & _mask(counted.upper > stats.upper), counted.upper, stats.upper),
    )
    for what, is_wrong, expected, indexed_value in checks:
        for i in np.flatnonzero(is_wrong).tolist():
            yield Mismatch(
                what=f"{what} of {'.'.join(column.path)}",
                file=snapshot.paths[i],
                expected=_to_text(expected[i], column.type, what),
                found=_to_text(indexed_value[i], column.type, what),
            )


def _mask(values: Any) -> Bools:
    return np.asarray(values, np.bool_)


def _to_text(value: Any, data_type: DataType, what: str) -> str:
    from zskip.predicate.text import literal_sql

    return literal_sql(value, data_type) if what.endswith("bound") else f"{int(value):,}"


def _draw_predicates(both: _BothWays, count: int, seed: int) -> list[Predicate]:
    """Draw random predicates over values from a sample of the rows."""
    from pyspark.sql import functions as F

    from zskip.spark.collect.statistics import exact_sql
    from zskip.spark.forms import quote_identifier
    from zskip.spark.jobs import describe_jobs
    from zskip.spark.jvm.compat import collect_arrow

    fields = (*both.snapshot.fields, *both.snapshot.partition_fields)
    columns = [Column(*column) for column in ordered_columns(fields)]
    if not columns or count <= 0:
        return []
    numbers = np.random.default_rng(seed).permutation(len(columns))[:_SAMPLED_COLUMNS].tolist()
    columns = [columns[i] for i in sorted(numbers)]
    values = [
        F.expr(exact_sql(".".join(map(quote_identifier, c.path)), c.type)).alias(f"c{i}") for i, c in enumerate(columns)
    ]
    with describe_jobs(both.handle.need_session("verify()"), "draw values for random queries"):
        rows = max(both.plain.count(), 1)
        narrow = both.plain.sample(False, min(1.0, _SAMPLED_ROWS / rows), seed).select(*values)
        table = collect_arrow(narrow)
    probes = [
        Probe(column=c, values=[_encoded(v, c.type) for v in table[f"c{i}"].to_pylist() if v is not None])
        if table.num_rows
        else Probe(column=c, values=[])
        for i, c in enumerate(columns)
    ]
    return draw(probes, count, seed)


def _encoded(value: Any, data_type: DataType) -> Encoded:
    from zskip.types import encode

    if data_type.form is Form.BYTES and not data_type.is_decimal:
        return bytes(value) if data_type.name == "binary" else bytes(value).decode(errors="ignore").encode()
    return encode(value, data_type) if data_type.is_decimal and data_type.precision > 18 else value


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """A column and some of its values."""

    column: Column
    values: Sequence[Encoded]
    """In the form of the column's type; neither null nor NaN."""


def draw(probes: Sequence[Probe], count: int, seed: int) -> list[Predicate]:
    """Draw predicates of one to about four leaves over existing values and their neighbors."""
    rng = random.Random(seed)
    predicates: list[Predicate] = []
    while probes and len(predicates) < count:
        predicate = _tree(rng, probes, 2)
        if _UNWRITABLE not in to_sql(predicate):
            predicates.append(predicate)
    return predicates


def _tree(rng: random.Random, probes: Sequence[Probe], depth: int) -> Predicate:
    kind = rng.random()
    if depth and kind < 0.5:
        children = tuple(_tree(rng, probes, depth - 1) for _ in range(2))
        return And(children) if kind < 0.3 else Or(children)
    if depth and kind < 0.6:
        return Not(_tree(rng, probes, depth - 1))
    return _leaf(rng, rng.choice(probes))


def _leaf(rng: random.Random, probe: Probe) -> Predicate:
    column, kind = probe.column, rng.random()
    if not probe.values or kind < 0.1:
        return IsNull(column)
    if column.type.form is Form.FLOAT and kind < 0.2:
        return Compare(rng.choice(_OPERATORS), column, math.nan)
    value = rng.choice(probe.values)
    if kind < 0.3:
        return In(column, tuple(sorted({_near(rng, rng.choice(probe.values), column.type) for _ in range(4)})))
    if kind < 0.45:
        low, high = sorted([value, rng.choice(probe.values)])
        return And((Compare(">=", column, low), Compare("<=", column, high)))
    if column.type.name == "string" and kind < 0.7:
        return _text_leaf(rng, column, cast(bytes, value).decode())
    return Compare(rng.choice(_OPERATORS), column, _near(rng, value, column.type))


def _text_leaf(rng: random.Random, column: Column, text: str) -> Predicate:
    part = text[: rng.randint(1, 4)]
    kind = rng.randrange(3)
    if kind == 0:
        return StartsWith(column, part.encode())
    if kind == 1:
        return Contains(column, part.encode())
    return Like(column, "".join(f"\\{c}" if c in "\\%_" else c for c in part) + "_%")


def _near(rng: random.Random, value: Encoded, data_type: DataType) -> Encoded:
    """The value or a direct neighbor."""
    step = rng.choice([-1, 0, 0, 0, 1])
    if not step or data_type.name == "boolean":
        return value
    if data_type.is_decimal:
        unscaled = decode_decimal(value, data_type) + step
        least, most = value_range(data_type)
        return encode_decimal(unscaled, data_type) if least <= unscaled <= most else value
    if data_type.form is Form.FLOAT:
        width: Any = np.float32 if data_type.name == "float" else np.float64
        return float(np.nextafter(width(value), width(math.copysign(math.inf, step))))
    if isinstance(value, bytes):
        return value + b"\x01" if step > 0 else value.decode(errors="ignore")[:-1].encode()
    least, most = value_range(data_type)
    return value + step if least <= value + step <= most else value
