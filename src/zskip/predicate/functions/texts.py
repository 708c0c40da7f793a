"""The first characters of a string.

The first byte of a character tells its length, so a prefix of some characters never falls as the string grows, even
for invalid bytes. All versions of Spark agree on the prefix only for valid UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable

from zskip.predicate.functions.base import Arguments, Function, Range, everywhere
from zskip.predicate.tree import Call
from zskip.records import Values, objects
from zskip.types import DataType, Encoded, valid_text


def _result(data_type: DataType, arguments: Arguments) -> DataType | None:
    return data_type if data_type.name == "string" else None


def _prefix(value: Encoded, characters: int) -> bytes | None:
    """Return the first characters; None if they are not valid UTF-8."""
    raw = value if isinstance(value, bytes) else b""
    text = valid_text(raw[: 4 * characters + 4])
    prefix = text[:characters].encode()
    return prefix if len(text) >= characters or prefix == raw else None


def _bounds(call: Call, lower: Values, upper: Values) -> Range:
    """For a lower bound the valid part suffices, since it is no larger; an upper bound also bounds its prefix."""
    characters = int(call.arguments[0])
    low = _prefixes(lower, characters, lambda v: valid_text(v[: 4 * characters + 4])[:characters].encode())
    high = _prefixes(upper, characters, lambda v: v if (prefix := _prefix(v, characters)) is None else prefix)
    return low, high, everywhere(lower)


def _prefixes(values: Values, characters: int, function: Callable[[bytes], bytes]) -> Values:
    """Take the first bytes where they are the first characters; else call the function."""
    heads = [value[:characters] if isinstance(value, bytes) else b"" for value in values.tolist()]
    if all(map(bytes.isascii, heads)):
        return objects(list(heads))
    pairs = zip(heads, values.tolist(), strict=True)
    return objects([head if head.isascii() else function(value) for head, value in pairs])


FUNCTIONS: dict[str, Function] = {
    "substring": Function(
        result=_result,
        bounds=_bounds,
        sql=lambda inner, call: f"substring({inner}, 1, {call.arguments[0]})",
    )
}
