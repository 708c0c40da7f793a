"""Recipes that compute the values of a term from columns, small enough to send to Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zskip.errors import InputError
from zskip.predicate import Column, Opaque, Term, opaque, term_sql
from zskip.predicate.elements import EXPLODE
from zskip.sketch.base import LeftOut

_LAST_AMBIGUOUS_YEAR = 1900
Recipe = Callable[[pa.RecordBatch], Any]
"""Computes the values of some rows, or one value for all of them."""


def recipe_of(term: Term, column: Callable[[Term], str]) -> Recipe:
    """Return the recipe of a term; column: names the column with the values of a term that Spark computes.

    Raises InputError for a function of Spark over a user's function, which Spark does not know. The recipe raises
    LeftOut if a user's function returns a different number of values.
    """
    if isinstance(term, Opaque) and term.function == EXPLODE:
        (array,) = term.arguments
        assert not isinstance(array, str)
        arrays = recipe_of(array, column)
        return lambda rows: _flatten(arrays(rows))
    function = opaque.evaluator(term.function) if isinstance(term, Opaque) else None
    if isinstance(term, Opaque) and function is not None:
        return _evaluate(term.function, function, [_argument(part, column) for part in term.arguments])
    _check(term)
    name = column(term)
    return lambda rows: rows.column(rows.schema.get_field_index(name))


def struct_of(recipes: Mapping[str, Recipe]) -> Recipe:
    """Return the recipe of structs of the values of several terms."""
    names, parts = list(recipes), list(recipes.values())
    return lambda rows: pa.StructArray.from_arrays([part(rows) for part in parts], names)


def _argument(part: Term | str, column: Callable[[Term], str]) -> Recipe:
    if not isinstance(part, str):
        return recipe_of(part, column)
    value = opaque.literal_value(part)
    return lambda _: value


def _evaluate(name: str, function: Callable[..., Any], arguments: Sequence[Recipe]) -> Recipe:
    """The recipe of a user's function of Arrow arrays."""

    def evaluate(rows: pa.RecordBatch) -> Any:
        values = function(*(argument(rows) for argument in arguments))
        if len(values) != rows.num_rows:
            raise LeftOut(f"{name} gave {len(values)} values for {rows.num_rows} rows")
        return values

    return evaluate


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


def _flatten(arrays: pa.Array) -> pa.Array:
    """The elements of arrays. Raises LeftOut for days on which calendars differ, as no bounds tell of them."""
    values = pc.list_flatten(arrays)
    if pa.types.is_date32(values.type) or pa.types.is_timestamp(values.type):
        least = pc.min(values).as_py()
        if least is not None and least.year <= _LAST_AMBIGUOUS_YEAR:
            raise LeftOut(f"it holds days before {_LAST_AMBIGUOUS_YEAR + 1}, which calendars may read differently")
    return values
