"""The monotone functions that predicates may use, by name.

Each has its result type, and bounds of its results for many files at once.
"""

from zskip.predicate.functions import numbers, texts, times
from zskip.predicate.functions.base import Arguments, Function, Nan, Range
from zskip.predicate.tree import Call, Term
from zskip.predicate.type_names import sql_name
from zskip.records import Values
from zskip.types import DataType

__all__ = ["FUNCTIONS", "Function", "Nan", "call", "cast", "function_of"]


def _cast_result(source: DataType, arguments: Arguments) -> DataType | None:
    target = DataType(str(arguments[0]))
    return target if numbers.cast_result(source, target) or times.cast_result(source, target) else None


def _cast_bounds(call: Call, lower: Values, upper: Values) -> Range:
    if times.cast_result(call.term.type, call.type):
        return times.cast_bounds(call, lower, upper)
    (low, low_known), (high, high_known) = numbers.cast_image(call, lower), numbers.cast_image(call, upper)
    return low, high, low_known & high_known


def _cast_sql(inner: str, call: Call) -> str:
    return f"CAST({inner} AS {sql_name(call.type).replace(' ', '')})"


FUNCTIONS: dict[str, Function] = {
    "cast": Function(result=_cast_result, bounds=_cast_bounds, sql=_cast_sql),
    **numbers.FUNCTIONS,
    **times.FUNCTIONS,
    **texts.FUNCTIONS,
}
"""By the name in a Call."""


def function_of(call: Call) -> Function | None:
    """Return the function of a call; None if none takes its term and arguments and returns its type."""
    function = FUNCTIONS.get(call.function)
    return function if function and function.result(call.term.type, call.arguments) == call.type else None


def call(name: str, term: Term, *arguments: int | str) -> Call | None:
    """Make a call with the type that Spark gives it; None if the function does not take the term or the arguments.

    >>> from zskip.predicate.tree import Column
    >>> call("year", Column(("d",), DataType("date"))).type
    DataType(name='integer')
    """
    result = FUNCTIONS[name].result(term.type, arguments)
    return None if result is None else Call(name, term, arguments, result)


def cast(term: Term, target: DataType, timezone: str) -> Call | None:
    """Cast a term to another type; None for casts that are not monotone."""
    return call("cast", term, target.name, *([timezone] if times.cast_result(term.type, target) else []))
