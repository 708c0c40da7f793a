"""One predicate asked of files of which certain statistics are known, and what another system answers.

What must be kept is never taken from zskip: it follows from the rows of a vector, or from *witnesses*, rows that the
statistics allow and for which the slow oracle finds the predicate true.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from oracle import NoValue, Row, truth

from zskip.predicate import Column, Columns, Predicate, Unknown, columns_of, nodes, parse
from zskip.prune import prune
from zskip.records import ALL_NULL, ColumnStats, Field, PruneResult
from zskip.types import NESTED, DataType, Form

_DTYPES: dict[Form | None, tuple[Any, Any]] = {
    Form.INT: (np.int64, 0),
    Form.FLOAT: (np.float64, 0.0),
    Form.BYTES: (object, b""),
}
_WHOLE = np.iinfo(np.int64)
_MOST_WITNESSES = 20_000


@dataclass(frozen=True)
class Known:
    """What is known of a column in one file; bounds in the form of its type."""

    lower: Any = None
    upper: Any = None
    nulls: int = -1
    nans: int = -1
    values: int = -1
    """Rows of the column, -1 where only the file's are known; a field has none where its struct is null."""


@dataclass(frozen=True)
class File:
    """One file."""

    rows: int
    columns: Mapping[tuple[str, ...], Known]
    content: Sequence[Row] | None = None
    """Its rows where the vector tells them; paths that a row leaves out are null."""


@dataclass(frozen=True)
class Question:
    """One case and what the peer does with it."""

    suite: str
    name: str
    sql: str
    columns: Columns
    types: Mapping[tuple[str, ...], DataType]
    files: Sequence[File]
    peer: Sequence[bool] | int | None
    """The files that the peer keeps, or how many; None where it says nothing but that some are."""
    must_keep: frozenset[int] = frozenset()
    """Files that the vector itself says must be kept."""
    matching: int | None = None
    """Rows that match, as Spark counted them."""
    strict: bool = False
    """Asks where all rows match: then `peer` is where the peer is sure of that."""
    timezone: str = "UTC"
    free: frozenset[int] = frozenset()
    """Files whose statistics contradict themselves, so that any answer is right."""

    def __str__(self) -> str:
        return self.name

    @property
    def predicate(self) -> Predicate:
        """As zskip reads it."""
        return parse(self.sql, self.columns, timezone=self.timezone)

    def result(self) -> PruneResult:
        """What zskip does."""
        return prune(self.predicate, Source(self.files, self.types))


@dataclass
class Source:
    """What is known of the files of a question, as the pruner asks for it."""

    files: Sequence[File]
    types: Mapping[tuple[str, ...], DataType]
    rows: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.rows = np.array([max(file.rows, -1) for file in self.files], np.int64)

    def column(self, path: tuple[str, ...]) -> ColumnStats | None:
        data_type = self.types.get(path)
        if data_type is None or data_type.form is None:
            return None
        dtype, blank = _DTYPES[data_type.form]
        count = len(self.files)
        lower, upper = np.full(count, blank, dtype), np.full(count, blank, dtype)
        bounded, may_nan = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        nulls = np.full(count, -1, np.int64)
        for i, file in enumerate(self.files):
            known = file.columns.get(path, Known())
            nulls[i] = ALL_NULL if known.nulls == known.values >= 0 else known.nulls
            may_nan[i] = data_type.form is Form.FLOAT and known.nans != 0
            found = bounds(known, data_type, file.rows)
            if found is not None:
                lower[i], upper[i] = found
                bounded[i] = True
        return ColumnStats(type=data_type, lower=lower, upper=upper, bounded=bounded, nulls=nulls, may_nan=may_nan)


def bounds(known: Known, data_type: DataType, rows: int) -> tuple[Any, Any] | None:
    """Bounds of the values that are neither null nor NaN; None where there are none.

    A bound that is missing, or NaN, is replaced by the least or greatest value that there is. Where all values are
    NaN the range is empty.
    """
    values = known.values if known.values >= 0 else rows
    if known.nans > 0 and known.nans == values - max(known.nulls, 0):
        return math.inf, -math.inf
    lower, upper = (None if x is None or x != x else x for x in (known.lower, known.upper))
    if lower is None and upper is None:
        return None
    ends: dict[Form | None, tuple[Any, Any]] = {
        Form.INT: (_WHOLE.min, _WHOLE.max),
        Form.FLOAT: (-math.inf, math.inf),
        Form.BYTES: (b"", None),
    }
    least, greatest = ends[data_type.form]
    lower, upper = least if lower is None else lower, greatest if upper is None else upper
    return None if upper is None or lower > upper else (lower, upper)


def needed(question: Question) -> set[int]:
    """The files that must be kept: those that hold, or may hold, a row for which the predicate is true."""
    found = set(question.must_keep)
    for i, file in enumerate(question.files):
        if i not in question.free and any(value is True for value in truths(question, file)):
            found.add(i)
    return found


def doubtful(question: Question) -> set[int]:
    """The files that may hold a row for which the predicate is not true."""
    return {i for i, file in enumerate(question.files) if any(value is not True for value in truths(question, file))}


def truths(question: Question, file: File) -> Iterator[bool | None]:
    """Truth values that rows of a file have, or may have; none where parts of the predicate are not understood."""
    predicate = question.predicate
    if any(isinstance(node, Unknown) for node in nodes(predicate)):
        return
    columns = columns_of(predicate)
    for row in file.content if file.content is not None else witnesses(question, file, columns, predicate):
        try:
            yield truth(predicate, {column.path: row.get(column.path) for column in columns})
        except NoValue:
            continue


def witnesses(question: Question, file: File, columns: Sequence[Column], predicate: Predicate) -> Iterator[Row]:
    """Rows that the statistics of a file allow, of values that the predicate names and their neighbors."""
    if file.rows == 0:
        return
    literals = list(_literals(predicate))
    choices = [_values(column, file.columns.get(column.path, Known()), file.rows, literals) for column in columns]
    rows = itertools.product(*choices)
    for values in itertools.islice(rows, _MOST_WITNESSES):
        yield dict(zip((column.path for column in columns), values, strict=True))


def _literals(predicate: Predicate) -> Iterator[Any]:
    for node in nodes(predicate):
        for name in ("value", "prefix", "suffix", "part"):
            if hasattr(node, name):
                yield getattr(node, name)
        yield from getattr(node, "values", ())
        if hasattr(node, "pattern"):
            yield node.pattern.replace("%", "").replace("_", "").encode()


def _values(column: Column, known: Known, rows: int, literals: Sequence[Any]) -> list[Any]:
    """Values that a column of the file may hold."""
    total = known.values if known.values >= 0 else rows
    null = [None] if known.nulls != 0 else []
    if known.nulls >= 0 and known.nulls == total:
        return null
    form = column.type.form
    nan = [math.nan] if form is Form.FLOAT and known.nans != 0 else []
    if known.nans > 0 and known.nans == total - max(known.nulls, 0):
        return null + nan
    near = {value for literal in literals for value in _near(literal, form)}
    near |= {value for bound in (known.lower, known.upper) if bound is not None for value in _near(bound, form)}
    if form is Form.INT and known.lower is not None and known.upper is not None and known.upper - known.lower < 100:
        near |= set(range(known.lower, known.upper + 1))
    found = bounds(known, column.type, rows)
    return null + nan + [value for value in near if found is None or found[0] <= value <= found[1]]


def _near(value: Any, form: Form | None) -> list[Any]:
    if form is Form.BYTES:
        return [value, value + b"\x00", value + b"~", value[:-1], b""] if isinstance(value, bytes) else [b"", b"m"]
    if isinstance(value, bytes) or value != value:
        return []
    if form is Form.FLOAT:
        return [float(value), math.nextafter(value, math.inf), math.nextafter(value, -math.inf)]
    if math.isinf(value):
        return []
    whole = math.floor(value)
    return [x for x in (whole - 1, whole, whole + 1) if _WHOLE.min <= x <= _WHOLE.max]


@dataclass(frozen=True)
class Answer:
    """What became of a question."""

    lost: bool
    """zskip skips what must be kept (or is sure of all rows where some need not match)."""
    skipped: int
    peer_skipped: int | None
    behind: bool
    """The peer skips a file that zskip keeps, and does so rightly."""
    ahead: bool
    peer_loses: bool
    """The peer skips what must be kept."""


def ask(question: Question) -> Answer:
    """Compare zskip with the truth and with the peer."""
    result = question.result()
    if question.strict:
        return _ask_strict(question, result)
    kept, must = result.kept.tolist(), needed(question)
    skipped = kept.count(False)
    lost = any(not kept[i] for i in must)
    if question.peer is None:
        return Answer(lost, skipped, None, False, skipped > 0, False)
    if isinstance(question.peer, int):
        peer_skipped = len(kept) - question.peer
        loses = question.peer < len(must)
        return Answer(lost, skipped, peer_skipped, skipped < peer_skipped and not loses, skipped > peer_skipped, loses)
    peer = list(question.peer)
    behind = any(k and not p and i not in must for i, (k, p) in enumerate(zip(kept, peer, strict=True)))
    ahead = any(p and not k for k, p in zip(kept, peer, strict=True))
    return Answer(lost, skipped, peer.count(False), behind, ahead, any(not peer[i] for i in must))


def _ask_strict(question: Question, result: PruneResult) -> Answer:
    sure, wrong = result.full.tolist(), doubtful(question)
    assert isinstance(question.peer, list)
    peer = list(question.peer)
    behind = any(p and not s and i not in wrong for i, (s, p) in enumerate(zip(sure, peer, strict=True)))
    ahead = any(s and not p for s, p in zip(sure, peer, strict=True))
    lost = any(sure[i] for i in wrong)
    return Answer(lost, sure.count(True), peer.count(True), behind, ahead, any(peer[i] for i in wrong))


def fields(types: Mapping[tuple[str, ...], DataType]) -> list[Field]:
    """The top-level columns of a table, structs with their fields."""
    return [Field(name=name, type=data_type) for name, data_type in _inside(types)]


def _inside(types: Mapping[tuple[str, ...], DataType]) -> list[tuple[str, DataType]]:
    """The first names of paths, and the types of what they stand for."""
    below: dict[str, dict[tuple[str, ...], DataType]] = {}
    for path, data_type in types.items():
        below.setdefault(path[0], {})[path[1:]] = data_type
    found = []
    for name, rest in below.items():
        whole = rest.pop((), NESTED)
        found.append((name, DataType(whole.name, tuple(_inside(rest))) if rest else whole))
    return found
