"""The first characters of a string.

Bytes tell the lengths of characters from their first bytes alone, so that a prefix of some characters never falls as
the string grows, whatever bytes it is made of; only of valid UTF-8 all versions of Spark take the same prefix.
"""

from __future__ import annotations

from collections.abc import Callable

from zskip.predicate.functions.base import Arguments, Function, Range, everywhere, objects
from zskip.predicate.tree import Call
from zskip.records import Values
from zskip.types import DataType, Encoded, valid_text


def _result(held: DataType, arguments: Arguments) -> DataType | None:
    return held if held.name == "string" else None


def _first(value: Encoded, characters: int) -> bytes | None:
    """The first characters; None where they are not valid."""
    raw = value if isinstance(value, bytes) else b""
    text = valid_text(raw[: 4 * characters + 4])
    found = text[:characters].encode()
    return found if len(text) >= characters or found == raw else None


def _value(call: Call, value: Encoded) -> Encoded | None:
    return _first(value, int(call.arguments[0]))


def _bounds(call: Call, lower: Values, upper: Values) -> Range:
    """Of a lower bound the valid part will do, being no larger; an upper bound is itself one of its prefix."""
    characters = int(call.arguments[0])
    low = _each(lower, characters, lambda v: valid_text(v[: 4 * characters + 4])[:characters].encode())
    high = _each(upper, characters, lambda v: v if (found := _first(v, characters)) is None else found)
    return low, high, everywhere(lower)


def _each(values: Values, characters: int, function: Callable[[bytes], bytes]) -> Values:
    """The first bytes, where they are the first characters; else what the function makes."""
    heads = [value[:characters] if isinstance(value, bytes) else b"" for value in values.tolist()]
    if all(map(bytes.isascii, heads)):
        return objects(list(heads))
    pairs = zip(heads, values.tolist(), strict=True)
    return objects([head if head.isascii() else function(value) for head, value in pairs])


FUNCTIONS: dict[str, Function] = {
    "substring": Function(
        result=_result,
        value=_value,
        bounds=_bounds,
        sql=lambda inner, call: f"substring({inner}, 1, {call.arguments[0]})",
    )
}
