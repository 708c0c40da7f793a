"""Sketches of certain columns or expressions: `bloom(0.01):comment`, `values(100):lower(email)`, `geo(64):lat,lon`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import TokenType

from zskip.errors import InputError
from zskip.predicate import Column, Columns, Opaque, Predicate, Term, columns_under, opaque, parse_term, term_sql
from zskip.predicate.sql_text import tokens_of
from zskip.sketch.base import Answer, LeftOut, Sketch
from zskip.sketch.guard import Read, ask
from zskip.sketch.registry import parse_sketch
from zskip.types import NESTED, DataType

_OPEN, _CLOSED = (TokenType.L_PAREN, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.R_BRACKET)


@dataclass(frozen=True)
class SketchOn:
    """A sketch and what it is on. A predicate can use it where it speaks of the same terms."""

    sketch: Sketch
    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.sketch}:{', '.join(map(term_sql, self.terms))}"

    @property
    def type(self) -> DataType:
        """Of the values: of the term, or a struct of all."""
        if len(self.terms) == 1:
            return self.terms[0].type
        return DataType(NESTED.name, tuple((f"v{i}", term.type) for i, term in enumerate(self.terms)))

    @property
    def columns(self) -> list[Column]:
        """What has to be read of the files to build it."""
        return list(dict.fromkeys(column for term in self.terms for column in columns_under(term)))

    def values(self, column: Callable[[Column], pa.Array]) -> pa.Array | None:
        """The values of some rows, by those of columns; None where only Spark can compute them, by the terms' SQL."""
        found = [values_of(term, column) for term in self.terms]
        known = [array for array in found if array is not None]
        if len(known) < len(found):
            return None
        if len(known) == 1:
            return known[0]
        return pa.StructArray.from_arrays(known, [name for name, _ in self.type.fields])

    def ask(self, parts: Sequence[Predicate], found: Read, files: int) -> Answer | None:
        """See `zskip.sketch.ask`."""
        return ask(self.sketch, parts, self.terms, found, files)


@dataclass(frozen=True, slots=True)
class Sketched:
    """The sketches of the files of one snapshot, all in its order."""

    files: int
    held: tuple[tuple[SketchOn, Read], ...]

    def answers(self, part: Predicate) -> list[Answer]:
        """What each sketch says of where a leaf, its negation or an AND may be true; none that says nothing."""
        found = (on.ask([part], states, self.files) for on, states in self.held)
        return [answer for answer in found if answer is not None]


def parse_sketch_on(text: str, columns: Columns, *, timezone: str = "UTC") -> SketchOn:
    """Read a sketch and what it is on; timezone: in which expressions of timestamps are meant.

    Raises InputError, ColumnError or PredicateError, each with the way out.

    >>> from zskip.records import Field
    >>> columns = Columns([Field(name=name, type=DataType("double")) for name in ("lat", "lon")])
    >>> str(parse_sketch_on("GEO: Lat, Lon", columns))
    'geo(64):lat, lon'
    """
    spec, colon, rest = text.partition(":")
    if not colon or not rest.strip():
        raise InputError(f'"{text}" names no column; write a sketch, a colon and a column: bloom(0.01):l_comment')
    return sketch_on(parse_sketch(spec), _parts(rest), columns, timezone=timezone)


def sketch_on(sketch: Sketch, expressions: Sequence[str], columns: Columns, *, timezone: str = "UTC") -> SketchOn:
    """A sketch on columns or expressions; raises as `parse_sketch_on` does."""
    if len(expressions) != sketch.arity:
        wanted = "one column or expression" if sketch.arity == 1 else f"{sketch.arity} of them"
        raise InputError(f"{sketch} on {', '.join(expressions)}: give {wanted}")
    found = SketchOn(sketch, tuple(parse_term(sql, columns, timezone=timezone) for sql in expressions))
    refusal = sketch.refusal(found.type)
    if refusal is not None:
        raise InputError(f"{found}: {refusal}; leave it out, or take another sketch")
    return found


def values_of(term: Term, column: Callable[[Column], pa.Array]) -> pa.Array | None:
    """The values of a term: a column, or a user's function of terms; None where only Spark can compute them."""
    if isinstance(term, Column):
        return column(term)
    evaluate = opaque.evaluator(term.function) if isinstance(term, Opaque) else None
    if not isinstance(term, Opaque) or evaluate is None:
        return None
    arguments = []
    for part in term.arguments:
        found = opaque.literal_value(part) if isinstance(part, str) else values_of(part, column)
        if found is None:
            return None
        arguments.append(found)
    result = evaluate(*arguments)
    rows = next(len(found) for found in arguments if isinstance(found, pa.Array | pa.ChunkedArray))
    if len(result) != rows:
        raise LeftOut(f"{term.function} gave {len(result)} values for {rows} rows")
    return result


def _parts(text: str) -> list[str]:
    """The expressions of a list, cut at the commas outside of parentheses."""
    found, start, depth = [], 0, 0
    for token in tokens_of(text):
        depth += (token.token_type in _OPEN) - (token.token_type in _CLOSED)
        if token.token_type is TokenType.COMMA and depth == 0:
            found.append(text[start : token.start].strip())
            start = token.end + 1
    return [*found, text[start:].strip()]
