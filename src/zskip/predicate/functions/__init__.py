"""The monotone functions that predicates may use, by name.

Each says what type it gives, just what Spark computes for a value (`value`, in the encoded form), and bounds of its
results for many files at once (`bounds`).
"""

from zskip.predicate.functions import numbers, texts, times
from zskip.predicate.functions.base import Arguments, Function, Nan, Range
from zskip.predicate.tree import Call, Term
from zskip.records import Values
from zskip.types import DataType, Encoded

__all__ = ["FUNCTIONS", "Function", "Nan", "call", "cast", "function_of"]


def _cast_result(held: DataType, arguments: Arguments) -> DataType | None:
    target = DataType(str(arguments[0]))
    return target if numbers.cast_result(held, target) or times.cast_result(held, target) else None


def _cast_value(call: Call, value: Encoded) -> Encoded | None:
    if times.cast_result(call.term.type, call.type):
        return times.cast_value(call, value)
    return numbers.cast_value(call, value)


def _cast_bounds(call: Call, lower: Values, upper: Values) -> Range:
    if times.cast_result(call.term.type, call.type):
        return times.cast_bounds(call, lower, upper)
    (low, one), (high, other) = numbers.cast_image(call, lower), numbers.cast_image(call, upper)
    return low, high, one & other


def _cast_sql(inner: str, call: Call) -> str:
    name = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}.get(
        call.type.name, call.type.name
    )
    return f"CAST({inner} AS {name.upper()})"


FUNCTIONS: dict[str, Function] = {
    "cast": Function(result=_cast_result, value=_cast_value, bounds=_cast_bounds, sql=_cast_sql),
    **numbers.FUNCTIONS,
    **times.FUNCTIONS,
    **texts.FUNCTIONS,
}
"""By the names that a Call has."""


def function_of(call: Call) -> Function | None:
    """The function of a call; None where there is none that takes its term and arguments and gives its type."""
    function = FUNCTIONS.get(call.function)
    return function if function and function.result(call.term.type, call.arguments) == call.type else None


def call(name: str, term: Term, *arguments: int | str) -> Call | None:
    """A call, with the type that Spark gives it; None where the function does not take the term or the arguments.

    >>> from zskip.predicate.tree import Column
    >>> call("year", Column(("d",), DataType("date"))).type
    DataType(name='integer')
    """
    found = FUNCTIONS[name].result(term.type, arguments)
    return None if found is None else Call(name, term, arguments, found)


def cast(term: Term, target: DataType, timezone: str) -> Call | None:
    """A term cast to another type; None for casts that are not monotone."""
    return call("cast", term, target.name, *([timezone] if times.cast_result(term.type, target) else []))
