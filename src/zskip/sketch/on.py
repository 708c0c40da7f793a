"""Sketches of certain columns or expressions: `bloom(0.01):comment`, `values(100):lower(email)`, `geo(64):lat,lon`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zskip.errors import InputError
from zskip.predicate import Column, Columns, Predicate, Term, columns_under, parse_term, term_sql
from zskip.predicate.sql.tokens import elements, tokens_of
from zskip.sketch.base import Answer, Sketch
from zskip.sketch.guard import Read, ask
from zskip.sketch.recipe import Recipe, Struct, recipe_of
from zskip.sketch.registry import parse_sketch
from zskip.types import NESTED, DataType


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

    def recipe(self, column: Callable[[Term], str]) -> Recipe:
        """How its values are computed; column: as `recipe_of` takes it."""
        values = [recipe_of(term, column) for term in self.terms]
        return values[0] if len(values) == 1 else Struct([name for name, _ in self.type.fields], values)

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
    found.recipe(lambda term: "")  # Fails where it cannot be computed.
    return found


def _parts(text: str) -> list[str]:
    """The expressions of a list, cut at the commas outside of parentheses."""
    return [text[part[0].start : part[-1].end + 1] if part else "" for part in elements(tokens_of(text))]
