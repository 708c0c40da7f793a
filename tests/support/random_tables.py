"""Random tables, what is known of their files, and random predicates over them; quick, and the same for a seed."""

from __future__ import annotations

import decimal
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from calls import ZONES, calls_of
from oracle import NoValue, Row, of_call, value
from states_of_sketches import build_state

from zskip.predicate import (
    And,
    Column,
    Compare,
    CompareTerms,
    Constant,
    Contains,
    EndsWith,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    Term,
    Unknown,
)
from zskip.predicate.patterns import next_prefix
from zskip.records import ALL_NULL, ColumnStats
from zskip.sketch import FileSketches, SketchOn, parse_sketch, read_states
from zskip.types import DataType, Form, decode_decimal, encode_decimal

Draw = Callable[[random.Random], Any]
OPERATORS = ("=", "<", "<=", ">", ">=")
TEXTS = [
    "",
    "a",
    "ab",
    "aba",
    "b",
    "ba",
    "a\x00",
    "'",
    "\\",
    "%",
    "a_",
    "é",
    "é€",
    "€",
    "😀",
    "\U0010ffff",
    "zzzz",
    "\x7f",
]
PATTERNS = ["a%", "%a", "a_", "_%b", "%a%b%", "\\%", "a\\_%", "\\\\%", "%", "_", "", "é%", "%€", "ab", "a%b%"]
FLOATS = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 1.0, 2.0]


def _whole(bits: int) -> Draw:
    edges = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, 1, -1]

    def draw(rng: random.Random) -> int:
        kind = rng.random()
        if kind < 0.2:
            return rng.choice(edges)
        return rng.randint(-9, 9) if kind < 0.8 else rng.randint(*edges[:2])

    return draw


def _decimal(name: str) -> Draw:
    data_type = DataType(name)
    most = 10**data_type.precision - 1

    def draw(rng: random.Random) -> Any:
        kind = rng.random()
        number = rng.choice([-most, most, 0]) if kind < 0.2 else rng.randint(-9, 9)
        return encode_decimal(number if kind < 0.8 else rng.randint(-most, most), data_type)

    return draw


def _days(least: int, most: int) -> Draw:
    return lambda rng: rng.choice([least, most, rng.randint(-9, 9), rng.randint(-9, 9), rng.randint(least, most)])


VALUES: dict[str, Draw] = {
    "byte": _whole(8),
    "short": _whole(16),
    "integer": _whole(32),
    "long": _whole(64),
    "boolean": lambda rng: rng.randint(0, 1),
    "float": lambda rng: rng.choice(FLOATS[:7]),
    "double": lambda rng: rng.choice(FLOATS) if rng.random() < 0.6 else rng.uniform(-9, 9),
    "string": lambda rng: (rng.choice(TEXTS) + rng.choice(TEXTS) * rng.randint(0, 1)).encode(),
    "binary": lambda rng: rng.choice([b"", b"a", b"ab", b"\xff", b"\xff\xff", b"\x00", rng.randbytes(2)]),
    "date": _days(-719_162, 2_932_896),
    "timestamp": _days(-62_135_596_800_000_000, 253_402_300_799_999_999),
    "timestamp_ntz": _days(-62_135_596_800_000_000, 253_402_300_799_999_999),
    **{f"decimal({p},{s})": _decimal(f"decimal({p},{s})") for p, s in ((4, 2), (18, 0), (20, 5), (38, 10))},
}


@dataclass
class Table:
    """Files of rows, and what is known of them."""

    columns: list[Column]
    files: list[list[Row]]
    rows: np.ndarray
    stats: dict[tuple[str, ...], ColumnStats]
    pools: dict[tuple[str, ...], list[Any]]
    """Values that occur, and some that do not."""
    zone: str
    """Of the session."""
    sketches: FileSketches | None = None

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        return self.stats.get(path)


def table(rng: random.Random) -> Table:
    """One to three columns, of which some share a type; one to six files of none to six rows."""
    first = rng.choice(list(VALUES))
    names = [first, *(rng.choice([first, rng.choice(list(VALUES))]) for _ in range(rng.randint(0, 2)))]
    columns = [Column((f"c{i} {name}",), DataType(name)) for i, name in enumerate(names)]
    count = rng.randint(1, 6)
    pools = {column.path: _pool(rng, VALUES[column.type.name]) for column in columns}
    files = [[{} for _ in range(rng.choice([0, 1, 1, 2, 3, 6]))] for _ in range(count)]
    for column in columns:
        pool = pools[column.path]
        for i, file in enumerate(files):
            values = _window(rng, pool, i, count)
            for row in file:
                row[column.path] = rng.choice(values)
    rows = np.array([len(file) if rng.random() < 0.9 else -1 for file in files], np.int64)
    stats = {
        column.path: _statistics(rng, column.type, [[row[column.path] for row in file] for file in files])
        for column in columns
        if rng.random() < 0.97
    }
    sketches = _sketches(rng, columns, files) if rng.random() < 0.3 else None
    return Table(columns, files, rows, stats, pools, rng.choice(["UTC", *ZONES]), sketches)


SKETCHES = ("ranges(1)", "ranges(3)", "bloom(0.1)", "values(4)", "prefix(1)", "ngram(2)")


def _sketches(rng: random.Random, columns: list[Column], files: list[list[Row]]) -> FileSketches:
    """Sketches of some columns, and of functions of them; some files have none."""
    sketches = []
    for _ in range(rng.randint(1, 3)):
        term: Term = rng.choice(columns)
        if term.type.name == "string" and rng.random() < 0.5:
            term = opaque(rng, term)
        sketch = parse_sketch(rng.choice(SKETCHES))
        if sketch.refusal(term.type) is not None:
            continue
        states = [
            build_state(sketch, [arrow_array([value(term, row) for row in file], term.type)], term.type)
            for file in files
        ]
        blobs = [None if rng.random() < 0.1 else state.data for state in states]
        sketches.append((SketchOn(sketch, (term,)), read_states(sketch, blobs)))
    return FileSketches(len(files), tuple(sketches))


def arrow_array(values: list[Any], data_type: DataType) -> pa.Array:
    """Values in their form as Arrow has them."""
    if data_type.is_decimal:
        wide = decimal.Context(prec=60)
        numbers = [None if v is None else decimal.Decimal(decode_decimal(v, data_type)) for v in values]
        scaled = [None if number is None else number.scaleb(-data_type.scale, wide) for number in numbers]
        return pa.array(scaled, pa.decimal128(data_type.precision, data_type.scale))
    if data_type.form is Form.BYTES:
        return pa.array(values, pa.binary())
    if data_type.form is Form.FLOAT:
        return pa.array(values, pa.float64())
    kinds = {"boolean": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC")}
    kinds["timestamp_ntz"] = pa.timestamp("us")
    whole = pa.array(values, pa.int32() if data_type.name == "date" else pa.int64())
    return whole.cast(kinds.get(data_type.name, pa.int64()))


def _pool(rng: random.Random, draw: Draw) -> list[Any]:
    """Values in Spark's order."""
    found = [draw(rng) for _ in range(rng.randint(1, 12))]
    numbers = sorted(value for value in found if value == value)
    return numbers + [value for value in found if value != value]


def _window(rng: random.Random, pool: list[Any], i: int, count: int) -> list[Any]:
    """The values of one file: a part of the pool, as in a clustered table, or all; at times null, too, or alone."""
    kind = rng.random()
    if kind < 0.1:
        return [None]
    low = len(pool) * i // count
    part = pool if kind < 0.25 else pool[low : max(len(pool) * (i + 1) // count, low + 1)]
    if kind < 0.4:
        part = [rng.choice(part)]
    return [*part, None] if rng.random() < 0.25 else part


def _statistics(rng: random.Random, data_type: DataType, files: list[list[Any]]) -> ColumnStats:
    form = data_type.form
    dtype: Any = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}[form]
    blank: Any = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}[form]
    lower, upper = np.full(len(files), blank, dtype), np.full(len(files), blank, dtype)
    bounded, may_nan = np.zeros(len(files), np.bool_), np.zeros(len(files), np.bool_)
    nulls = np.full(len(files), -1, np.int64)
    for i, values in enumerate(files):
        present = [value for value in values if value is not None and value == value]
        bounded[i] = bool(present) and rng.random() < 0.95
        if bounded[i]:
            lower[i], upper[i] = _bounds(rng, data_type.name, min(present), max(present))
        has_nan = any(value is not None and value != value for value in values)
        may_nan[i] = has_nan or (form is Form.FLOAT and rng.random() < 0.2)
        if has_nan and not present and rng.random() < 0.5:
            lower[i], upper[i], bounded[i] = math.inf, -math.inf, True
        count = sum(value is None for value in values)
        nulls[i] = rng.choice([count] * 8 + [-1] + [ALL_NULL] * (count == len(values)))
    return ColumnStats(type=data_type, lower=lower, upper=upper, bounded=bounded, nulls=nulls, may_nan=may_nan)


def _bounds(rng: random.Random, name: str, low: Any, high: Any) -> tuple[Any, Any]:
    """The least and greatest value, or bounds as loose as footers may have them."""
    if rng.random() < 0.6:
        return low, high
    if name in ("string", "binary"):
        length = rng.randint(0, 3)
        after = next_prefix(high[:length]) if len(high) > length else high
        return low[:length], high if after is None else after
    if name in ("float", "double"):
        return rng.choice([low, -math.inf]), rng.choice([high, math.inf])
    return low, high


def predicate(rng: random.Random, table: Table, depth: int = 3) -> Predicate:
    """A random tree of every kind of node, over values that are in the table or next to those."""
    kind = rng.random()
    if depth and kind < 0.4:
        children = tuple(predicate(rng, table, depth - 1) for _ in range(rng.randint(1, 3)))
        return And(children) if kind < 0.22 else Or(children)
    if depth and kind < 0.52:
        return Not(predicate(rng, table, depth - 1))
    if kind > 0.95:
        guarded = leaf(rng, table)
        return guarded if isinstance(guarded, CompareTerms) else And((Not(IsNull(guarded.term)), guarded))
    if kind > 0.92:
        return rng.choice([Constant(True), Constant(False), Constant(None), Unknown("f(x)")])
    return leaf(rng, table)


def leaf(rng: random.Random, table: Table) -> Leaf:
    """A random leaf over one of the columns."""
    term = random_term(rng, table)
    kind = rng.random()
    if kind < 0.08:
        return IsNull(term)
    if kind < 0.25:
        listed = {literal(rng, table, term) for _ in range(rng.choice([0, 1, 2, 3, 20]))}
        return In(term, tuple(sorted(value for value in listed if value == value)))
    if kind < 0.35:
        others: list[Term] = [term, *(c for c in table.columns if c.type == term.type)]
        return CompareTerms(rng.choice(OPERATORS), term, rng.choice(others))
    if term.type.name == "string" and kind < 0.7:
        form: Any = rng.choice([StartsWith, EndsWith, Contains, Like])
        if form is Like:
            return Like(term, rng.choice(PATTERNS))
        return form(term, literal(rng, table, term).decode()[: rng.randint(0, 3)].encode())
    return Compare(rng.choice(OPERATORS), term, literal(rng, table, term))


def random_term(rng: random.Random, table: Table) -> Term:
    """One of the columns, or a function of one, or a function of that."""
    term: Term = rng.choice(table.columns)
    while rng.random() < 0.3:
        calls = _calls(term.type.name, table.zone)
        if not calls:
            break
        term = replace(rng.choice(calls), term=term)
    return opaque(rng, term) if term.type.name == "string" and rng.random() < 0.1 else term


def opaque(rng: random.Random, term: Term) -> Term:
    """An opaque function of a string."""
    found = rng.choice([("lower", (term,)), ("length", (term,)), ("concat", (term, "'b'")), ("concat", (term, term))])
    return Opaque(*found, DataType("integer" if found[0] == "length" else "string"))


_calls = lru_cache(maxsize=1_000)(calls_of)


def literal(rng: random.Random, table: Table, term: Term) -> Any:
    """A value of the term, or of its type."""
    if isinstance(term, Column):
        return rng.choice(table.pools[term.path]) if rng.random() < 0.6 else VALUES[term.type.name](rng)
    if isinstance(term, Opaque):
        return rng.randint(0, 5) if term.function == "length" else VALUES["string"](rng)
    try:
        return of_call(term, literal(rng, table, term.term))
    except NoValue:
        return 0.0 if term.type.form is Form.FLOAT else encode_decimal(0, term.type) if term.type.is_decimal else 0
