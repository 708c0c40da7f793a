"""Prove on a user's own table that nothing is lost: audit the index, and answer queries with it and without.

The side without is `spark.read.parquet`, which knows nothing of zskip, or for another format all of its live files.
Both sides run in a private copy of the session in which Spark does not filter inside files: it takes bounds from some
writers that leave NaN out, and then loses rows by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import InputError
from zskip.index import BoundIndex, ordered_columns
from zskip.predicate import Column, Predicate, smaller, to_sql
from zskip.records import ALL_NULL, Bools, ColumnStats, Ints, Mismatch, Snapshot, Verification
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.predicates import read_where
from zskip.table.read.query import open_frame
from zskip.table.read.random_predicates import Probe, draw
from zskip.table.read.whole_table import read_all_rows
from zskip.table.snapshot import check_files_are_rows, file_positions, read_snapshot
from zskip.types import DataType, Encoded, Form

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from zskip.index import CountedColumn
    from zskip.spark.collect.statistics import FilePositions

_SAMPLED_ROWS = 2_000
_SAMPLED_COLUMNS = 24
_QUERIES_PER_JOB = 40
_SHRINKINGS = 40
"""Queries that are tried to find a smaller one that fails, too."""
_REPORTED = 20
_PRIVATE = {"spark.sql.parquet.filterPushdown": "false"}
_CALENDARS = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
"""Of Spark 3.5, whose default is to refuse ancient days of other writers."""


def verify(handle: Handle, where: str | None, *, queries: int, seed: int) -> Verification:
    """Audit every statistic of the index, then run one given or some random queries both ways."""
    from zskip.spark.jvm.compat import private_session

    _check_count("queries", queries)
    _check_count("seed", seed)
    if where is not None and not isinstance(where, str):
        raise InputError(f"where={where!r} is not SQL text")
    spark = handle.need_spark("verify()")
    refused = {name: "CORRECTED" for name in _CALENDARS if str(spark.conf.get(name)).upper() == "EXCEPTION"}
    private = dataclasses.replace(handle, spark=private_session(spark, _PRIVATE | refused))
    snapshot = read_snapshot(private)
    check_files_are_rows(snapshot)
    if where is not None:
        read_where(private, snapshot, where)
    if not len(snapshot):
        return Verification(path=handle.storage.root, files=0, columns=0, queries=0, mismatches=())
    places = file_positions(handle, snapshot)
    both = _BothWays(private, snapshot, places)
    columns, wrong = _audit(both, bind_index(private, snapshot, warn=False))
    texts = [where] if where is not None else [to_sql(p) for p in _drawn(both, queries, seed)]
    return Verification(
        path=handle.storage.root,
        files=len(snapshot),
        columns=columns,
        queries=len(texts),
        mismatches=(*wrong, *both.mismatches(texts)),
    )


def _check_count(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{name}={value!r} is not a whole number of 0 or more")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is compared of a query's rows: how many, and the sum of their hashes."""

    rows: int
    checksum: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, checksum {self.checksum}"


class _BothWays:
    """One table, read through zskip and without it."""

    def __init__(self, handle: Handle, snapshot: Snapshot, places: FilePositions) -> None:
        self.handle = handle
        self.snapshot = snapshot
        self.places = places
        self.plain: DataFrame = read_all_rows(handle)
        self.pruned = open_frame(handle, lambda _: None)
        self._hash = _hash_sql(self.plain)

    def mismatches(self, texts: Sequence[str]) -> Iterator[Mismatch]:
        """Run predicates both ways; of those that differ, the smallest part that does."""
        for start in range(0, len(texts), _QUERIES_PER_JOB):
            batch = texts[start : start + _QUERIES_PER_JOB]
            for text, expected in zip(batch, self._without(batch), strict=True):
                found = self._through(text)
                if found != expected:
                    yield self._reported(text, expected, found)

    def _without(self, texts: Sequence[str]) -> list[_Answer]:
        """Answers of plain Spark, all from one pass in which nothing is filtered."""
        # A line's end after each text, since it may end with a comment.
        sums = [f"count_if({text}\n)" for text in texts]
        sums += [f"sum(CASE WHEN {text}\n THEN {self._hash} END)" for text in texts]
        row = self._collected(self.plain, sums, f"answer {len(texts)} queries in full")
        return [_answer(row[i], row[len(texts) + i]) for i in range(len(texts))]

    def _through(self, text: str) -> _Answer:
        row = self._collected(
            self.pruned.where(text), ["count(1)", f"sum({self._hash})"], "answer a query through the index"
        )
        return _answer(row[0], row[1])

    def _collected(self, frame: DataFrame, sums: Sequence[str], text: str) -> Any:
        from pyspark.sql import functions as F

        from zskip.spark.jobs import describe_jobs

        with describe_jobs(self.handle.need_spark("verify()"), text):
            return frame.agg(*(F.expr(sql).alias(f"a{i}") for i, sql in enumerate(sums))).collect()[0]

    def _reported(self, text: str, expected: _Answer, found: _Answer) -> Mismatch:
        def differs(predicate: Predicate) -> bool:
            sql = to_sql(predicate)
            return self._without([sql]) != [self._through(sql)]

        smallest = _smallest(read_where(self.handle, self.snapshot, text), differs)
        if smallest is not None:
            text = to_sql(smallest)
            expected, found = self._without([text])[0], self._through(text)
        return Mismatch(what=text, file=self._blamed(text), expected=str(expected), found=str(found))

    def _blamed(self, text: str) -> str | None:
        """A file that holds matching rows and is skipped all the same."""
        from zskip.spark.collect.statistics import aggregate_by_file

        at, table = aggregate_by_file(
            self.plain, {"n": f"count_if({text}\n)"}, self.places, "find the file that is lost"
        )
        predicate = read_where(self.handle, self.snapshot, text)
        kept = bind_index(self.handle, self.snapshot, warn=False).prune(predicate).kept
        lost = [i for i, n in zip(at.tolist(), table["n"].to_pylist(), strict=True) if n and not kept[i]]
        return self.snapshot.paths[min(lost)] if lost else None


def _answer(rows: Any, checksum: Any) -> _Answer:
    return _Answer(int(rows), int(checksum or 0))


def _hash_sql(frame: DataFrame) -> str:
    """A hash of a row's columns as a decimal, so that a sum of hashes does not overflow; maps go by their text."""
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


def _smallest(predicate: Predicate, differs: Callable[[Predicate], bool]) -> Predicate | None:
    """The smallest part of a predicate that still differs; None where only the whole does."""
    found, tries = None, _SHRINKINGS
    todo = list(smaller(predicate))
    while todo and tries:
        part, tries = todo.pop(0), tries - 1
        if differs(part):
            found, todo = part, list(smaller(part))
    return found


def _audit(both: _BothWays, index: BoundIndex) -> tuple[int, list[Mismatch]]:
    """Hold every statistic against the content of its file; the number of columns, and what is wrong."""
    from zskip.spark.collect.statistics import count_values

    columns = [Column(*column) for column in ordered_columns(both.snapshot.fields)]
    known = {c: s for c in columns if (s := index.column(c.path)) and s.type == c.type}
    rows, counted = count_values(both.plain, [(c.path, c.type) for c in known], both.places, "audit the index")
    wrong = list(_wrong_rows(both.snapshot, index.rows, rows))
    for column, stats in known.items():
        wrong += _wrong_statistics(both.snapshot, column, stats, counted[column.path], index.rows)
    return len(known), wrong[:_REPORTED]


def _wrong_rows(snapshot: Snapshot, said: Ints, rows: Ints) -> Iterator[Mismatch]:
    for i in np.flatnonzero((said >= 0) & (said != rows)).tolist():
        yield Mismatch(what="rows", file=snapshot.paths[i], expected=f"{rows[i]:,}", found=f"{said[i]:,}")


def _wrong_statistics(
    snapshot: Snapshot, column: Column, said: ColumnStats, held: CountedColumn, rows: Ints
) -> Iterator[Mismatch]:
    indexed = rows >= 0
    all_null = said.nulls == ALL_NULL
    values = held.bounded & said.bounded
    checks: tuple[tuple[str, Any, Any, Any], ...] = (
        ("nulls", indexed & (said.nulls >= 0) & ~all_null & (said.nulls != held.nulls), held.nulls, said.nulls),
        ("nulls", indexed & all_null & (held.bounded | (held.nans > 0)), held.nulls, said.nulls),
        ("NaN", indexed & ~said.may_nan & (held.nans > 0), held.nans, np.zeros_like(held.nans)),
        ("lower bound", indexed & values & _mask(held.lower < said.lower), held.lower, said.lower),
        ("upper bound", indexed & values & _mask(held.upper > said.upper), held.upper, said.upper),
    )
    for what, wrong, expected, found in checks:
        for i in np.flatnonzero(wrong).tolist():
            yield Mismatch(
                what=f"{what} of {'.'.join(column.path)}",
                file=snapshot.paths[i],
                expected=_shown(expected[i], column.type, what),
                found=_shown(found[i], column.type, what),
            )


def _mask(found: Any) -> Bools:
    return np.asarray(found, np.bool_)


def _shown(value: Any, data_type: DataType, what: str) -> str:
    from zskip.predicate.text import literal_sql

    return literal_sql(value, data_type) if what.endswith("bound") else f"{int(value):,}"


def _drawn(both: _BothWays, count: int, seed: int) -> list[Predicate]:
    """Random predicates over values from a sample of the rows."""
    from pyspark.sql import functions as F

    from zskip.spark.collect.statistics import exact_sql
    from zskip.spark.forms import quote_identifier
    from zskip.spark.jobs import describe_jobs
    from zskip.spark.jvm.compat import collect_arrow

    fields = (*both.snapshot.fields, *both.snapshot.partition_fields)
    columns = [Column(*column) for column in ordered_columns(fields)]
    if not columns or count <= 0:
        return []
    picks = np.random.default_rng(seed).permutation(len(columns))[:_SAMPLED_COLUMNS].tolist()
    columns = [columns[i] for i in sorted(picks)]
    values = [
        F.expr(exact_sql(".".join(map(quote_identifier, c.path)), c.type)).alias(f"c{i}") for i, c in enumerate(columns)
    ]
    with describe_jobs(both.handle.need_spark("verify()"), "draw values for random queries"):
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
