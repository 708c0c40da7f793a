"""Sketches on columns or expressions: `bloom(0.01):comment`, `values(100):lower(email)`, `geo(64):lat,lon`."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from zskip.errors import InputError
from zskip.predicate import (
    Column,
    Columns,
    Leaf,
    Opaque,
    Or,
    Predicate,
    Term,
    columns_under,
    conjuncts,
    from_filters,
    nodes,
    opaque,
    parse_condition,
    parse_term,
    parse_value,
    term_sql,
    terms_of,
)
from zskip.predicate.elements import EXPLODE, element_of
from zskip.predicate.sql.tokens import elements, shorten, tokens_of
from zskip.records import Bools, LeafReport
from zskip.sketch.base import Answer, Sketch
from zskip.sketch.guard import ask
from zskip.sketch.implication import goal_subjects, implies, is_exact, normal
from zskip.sketch.kinds.matches import Matches
from zskip.sketch.kinds.ranges import Ranges
from zskip.sketch.recipe import Recipe, recipe_of, struct_of
from zskip.sketch.registry import parse_sketch
from zskip.types import NESTED, DataType


@dataclass(frozen=True)
class SketchOn:
    """A sketch and its terms. A predicate can use it if it contains the same terms."""

    sketch: Sketch
    terms: tuple[Term, ...]
    condition: Predicate | None = None
    """That of `matches`, as zskip understands it (`normal`); None where it cannot be told from others."""
    described: str = field(default="", compare=False)
    """What Spark made of the condition, as `FilterText.java` describes it; empty where no session did."""

    def __str__(self) -> str:
        return f"{self.sketch}:{', '.join(map(term_sql, self.terms))}"

    @property
    def type(self) -> DataType:
        """The type of the values: that of the term, or a struct of several."""
        if len(self.terms) == 1:
            return self.terms[0].type
        return DataType(NESTED.name, tuple((f"v{i}", term.type) for i, term in enumerate(self.terms)))

    @property
    def columns(self) -> list[Column]:
        """The columns that have to be read to build it."""
        return list(dict.fromkeys(column for term in self.terms for column in columns_under(term)))

    @cached_property
    def subjects(self) -> frozenset[Hashable]:
        """What a filter is about that implies the condition, at least in some part."""
        return frozenset() if self.condition is None else goal_subjects(self.condition)

    @property
    def known_terms(self) -> list[Term]:
        """All terms, those that zskip understands of a condition too."""
        parts = () if self.condition is None else nodes(self.condition)
        return [*self.terms, *(term for part in parts if isinstance(part, Leaf) for term in terms_of(part))]

    def recipe(self, column: Callable[[Term], str]) -> Recipe:
        """Return how its values are computed; column: as for `recipe_of`."""
        values = [recipe_of(term, column) for term in self.terms]
        names = (name for name, _ in self.type.fields)
        return values[0] if len(values) == 1 else struct_of(dict(zip(names, values, strict=True)))


@dataclass(frozen=True, slots=True)
class FileSketches:
    """The sketches of the files of one snapshot, in its order."""

    files: int
    sketches: tuple[tuple[SketchOn, Any], ...]
    """With the states of the files, from `read_states`."""
    conditions: tuple[tuple[SketchOn, Callable[[], Any]], ...] = ()
    """`matches` on conditions, and what reads the states of the files."""

    def answers(self, part: Predicate) -> list[Answer]:
        """Ask every sketch where a leaf, its negation, or an AND may be true; skips sketches that cannot tell."""
        answers = (ask(on.sketch, part, on.terms, stack, self.files) for on, stack in self.sketches)
        return [answer for answer in answers if answer is not None]

    def match(
        self, predicate: Predicate, may_be_true: Callable[[Predicate], Bools] | None = None
    ) -> tuple[Bools, list[LeafReport]]:
        """(files,) where a filter may be true by the conditions that it implies; a report of each that rules out files.

        predicate: as `normal` gives it. The branches of an OR imply conditions of their own, and may_be_true tells
        what else is known of each, (files,).
        """
        may_match: Bools = np.ones(self.files, np.bool_)
        reports: list[LeafReport] = []
        parts = tuple(conjuncts(predicate))
        for on, read_stack in self.conditions:
            if on.condition is not None and implies(parts, on.condition):
                stack = read_stack()
                if stack is not None and not stack.all():
                    may_match &= stack
                    skipped = int(np.count_nonzero(~stack))
                    reports.append(LeafReport(sql=shorten(str(on), 200), skipped=skipped, kind="matches"))
        for part in parts:
            if isinstance(part, Or):
                branches = [self.match(branch, may_be_true) for branch in part.children]
                masks = [mask for mask, _ in branches]
                if may_be_true is not None and not np.logical_and.reduce(masks).all():
                    masks = [mask & may_be_true(branch) for mask, branch in zip(masks, part.children, strict=True)]
                may_match &= np.logical_or.reduce(masks)
                reports += [report for _, inner in branches for report in inner if report not in reports]
        return may_match, reports


def parse_sketch_on(text: str, columns: Columns, *, timezone: str = "UTC", described: str = "") -> SketchOn:
    """Read a sketch and its terms; timezone: the time zone of expressions on timestamps; described: see `SketchOn`.

    Raises InputError, ColumnError or PredicateError, each with the way out.

    >>> from zskip.records import Field
    >>> columns = Columns([Field(name=name, type=DataType("double")) for name in ("lat", "lon")])
    >>> str(parse_sketch_on("GEO: Lat, Lon", columns))
    'geo(64):lat, lon'
    """
    spec, colon, rest = text.partition(":")
    if not colon or not rest.strip():
        raise InputError(f'"{text}" names no column; write a sketch, a colon and a column: bloom(0.01):l_comment')
    sketch = parse_sketch(spec)
    if isinstance(sketch, Matches):
        return _condition_on(sketch, rest.strip(), columns, timezone, described)
    return sketch_on(sketch, _split_list(rest), columns, timezone=timezone)


def _condition_on(sketch: Sketch, sql: str, columns: Columns, timezone: str, described: str) -> SketchOn:
    if described:
        filters = json.loads(described)
        predicate = from_filters(filters, columns.fields, case_sensitive=columns.case_sensitive)
        fields = map(columns.resolve, dict.fromkeys((name,) for name in filters["columns"].values()))
        named = tuple(Column(field.path, field.type) for field in fields)
    else:
        predicate, named = parse_condition(sql, columns, timezone=timezone)
    padded = next((column for column in named if column.type.is_char), None)
    if padded is not None:
        raise InputError(f'{sketch}:{sql}: readers pad the texts of "{padded.path[0]}"; store them as STRING')
    condition = normal(predicate) if is_exact(predicate) else None
    return SketchOn(sketch, (Opaque(opaque.CONDITION, (sql, *named), DataType("boolean")),), condition, described)


def sketch_on(sketch: Sketch, expressions: Sequence[str], columns: Columns, *, timezone: str = "UTC") -> SketchOn:
    """Put a sketch on columns or expressions; raises as `parse_sketch_on` does."""
    if len(expressions) != sketch.arity:
        expected = "one column or expression" if sketch.arity == 1 else f"{sketch.arity} of them"
        raise InputError(f"{sketch} on {', '.join(expressions)}: give {expected}")
    read = parse_value if isinstance(sketch, Ranges) else parse_term  # The bounds of keys may be of conditions.
    result = SketchOn(sketch, tuple(read(sql, columns, timezone=timezone) for sql in expressions))
    of_elements = [isinstance(term, Opaque) and term.function == EXPLODE for term in result.terms]
    if len(result.terms) > 1 and any(of_elements):
        raise InputError(f"{result}: elements of arrays have no pairs; take columns of one value in a row")
    refusal = sketch.refusal(result.type)
    if refusal is not None:
        inner = element_of(result.terms[0])
        way_out = "leave it out, or take another sketch" if inner is None else f"take its elements: {term_sql(inner)}"
        raise InputError(f"{result}: {refusal}; {way_out}")
    result.recipe(lambda term: "")  # Raises InputError if it cannot be computed.
    return result


def _split_list(text: str) -> list[str]:
    """Split a list of expressions at the commas outside parentheses."""
    return [text[part[0].start : part[-1].end + 1] if part else "" for part in elements(tokens_of(text))]
