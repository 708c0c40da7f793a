"""The protocol of monotone functions."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zskip.predicate.tree import Call
from zskip.records import Bools, Values
from zskip.types import DataType

Arguments = tuple[int | str, ...]
Range = tuple[Values, Values, Bools]
"""(files,) lower and upper bounds, and whether they are known."""


class Nan(enum.Enum):
    """The result of a function for NaN."""

    NAN = "NaN again"
    VALUE = "some value"


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """A function of one term that never falls, or never rises, with it."""

    result: Callable[[DataType, Arguments], DataType | None]
    """Result type for the type of the term and the other arguments; None if it does not take them."""
    bounds: Callable[[Call, Values, Values], Range]
    """Bounds of the results from bounds of the values; unknown where some value in between may have no result."""
    sql: Callable[[str, Call], str]
    """The call as Spark SQL, from the text of its term."""
    total: bool = True
    """Whether every value has a result; if not, it may be null or wrap around where the bounds are unknown."""
    nan: Nan = Nan.NAN


def everywhere(values: Values) -> Bools:
    """True for each file."""
    return np.ones(len(values), np.bool_)


def increasing(
    image: Callable[[Call, Values], tuple[Values, Bools]],
) -> Callable[[Call, Values, Values], Range]:
    """Return the bounds of a function that never falls, from its values and where they are known."""

    def bounds(call: Call, lower: Values, upper: Values) -> Range:
        low, low_known = image(call, lower)
        high, high_known = image(call, upper)
        return low, high, low_known & high_known

    return bounds


def decreasing(
    image: Callable[[Call, Values], tuple[Values, Bools]],
) -> Callable[[Call, Values, Values], Range]:
    """Do the same for a function that never rises."""

    def bounds(call: Call, lower: Values, upper: Values) -> Range:
        return increasing(image)(call, upper, lower)

    return bounds
