"""Recipes that compute the values of a term from columns, small enough to send to Spark's workers by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zskip.errors import InputError
from zskip.predicate import Column, Opaque, Term, opaque, term_sql
from zskip.predicate.elements import EXPLODE
from zskip.sketch.base import LeftOut

_LAST_AMBIGUOUS_YEAR = 1900
Recipe = Any
"""The name of a column with the values, a `Literal`, an `Evaluated`, an `Elements`, or a `Struct`."""


class Literal(NamedTuple):
    """An argument that is the same for all rows."""

    value: Any


class Evaluated(NamedTuple):
    """A user's function of Arrow arrays."""

    function: str
    evaluate: Callable[..., Any]
    arguments: list[Recipe]


class Elements(NamedTuple):
    """All elements of arrays, those of null arrays left out."""

    arrays: Recipe


class Struct(NamedTuple):
    """One struct of the values of several terms."""

    names: list[str]
    values: list[Recipe]


def recipe_of(term: Term, column: Callable[[Term], str]) -> Recipe:
    """Return the recipe of a term; column: names the column with the values of a term that Spark computes.

    Raises InputError for a function of Spark over a user's function, which Spark does not know.
    """
    if isinstance(term, Opaque) and term.function == EXPLODE:
        (array,) = term.arguments
        assert not isinstance(array, str)
        return Elements(recipe_of(array, column))
    evaluate = opaque.evaluator(term.function) if isinstance(term, Opaque) else None
    if not isinstance(term, Opaque) or evaluate is None:
        _check(term)
        return column(term)
    arguments = [
        Literal(opaque.literal_value(part)) if isinstance(part, str) else recipe_of(part, column)
        for part in term.arguments
    ]
    return Evaluated(term.function, evaluate, arguments)


def _check(term: Term) -> None:
    pending: list[Term | str] = [term]
    while pending:
        part = pending.pop()
        if isinstance(part, Opaque):
            if opaque.evaluator(part.function) is not None:
                raise InputError(
                    f"{term_sql(term)}: Spark, which computes this, does not know {part.function}; register one "
                    "function that does all of it"
                )
            pending += part.arguments
        elif not isinstance(part, Column | str):
            pending.append(part.term)


def compute_values(recipe: Recipe, rows: pa.RecordBatch) -> Any:
    """Compute the values of some rows, or of a literal.

    Raises LeftOut if a user's function returns a different number of values.
    """
    if isinstance(recipe, str):
        return rows.column(rows.schema.get_field_index(recipe))
    if isinstance(recipe, Literal):
        return recipe.value
    if isinstance(recipe, Struct):
        return pa.StructArray.from_arrays([compute_values(value, rows) for value in recipe.values], recipe.names)
    if isinstance(recipe, Elements):
        return _flatten(compute_values(recipe.arrays, rows))
    values = recipe.evaluate(*(compute_values(argument, rows) for argument in recipe.arguments))
    if len(values) != rows.num_rows:
        raise LeftOut(f"{recipe.function} gave {len(values)} values for {rows.num_rows} rows")
    return values


def _flatten(arrays: pa.Array) -> pa.Array:
    """The elements of arrays. Raises LeftOut for days on which calendars differ, as no bounds tell of them."""
    values = pc.list_flatten(arrays)
    if pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type):
        least = pc.min(values).as_py()
        if least is not None and least.year <= _LAST_AMBIGUOUS_YEAR:
            raise LeftOut(f"it holds days before {_LAST_AMBIGUOUS_YEAR + 1}, which calendars may read differently")
    return values
