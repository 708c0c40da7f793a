"""Arrays as literals of a Spark expression: one JSON text, parsed once when the query is planned."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zskip.records import Ints, Values

if TYPE_CHECKING:
    from pyspark.sql import Column


def long_array(values: Ints) -> Column:
    """A literal of type array<bigint>; constant folding parses it once, not for each row."""
    return _parsed(json.dumps(values.tolist(), separators=(",", ":")), "array<bigint>")


def nested_long_array(values: Sequence[Ints]) -> Column:
    """A literal of type array<array<bigint>>."""
    return _parsed(json.dumps([v.tolist() for v in values], separators=(",", ":")), "array<array<bigint>>")


def form_array(values: Values) -> Column:
    """A literal of sorted values in one of the forms: array of bigint, double or binary.

    Raises ValueError for NaN, which JSON cannot hold and which never is a bound.
    """
    if values.dtype == object:
        texts = [base64.b64encode(v).decode() for v in values.tolist()]
        return _parsed(json.dumps(texts, separators=(",", ":")), "array<binary>")
    if values.dtype == float:
        return _parsed("[" + ",".join(map(_number, values.tolist())) + "]", "array<double>")
    return long_array(values.astype("int64"))


def _number(value: float) -> str:
    if math.isnan(value):
        raise ValueError("NaN is no bound")
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def _parsed(text: str, kind: str) -> Column:
    import pyspark.sql.functions as F

    return F.from_json(F.lit(text), kind)
