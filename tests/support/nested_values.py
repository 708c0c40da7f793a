"""Structs, arrays, maps, JSON texts and variants for random tables and queries: values, terms, and tests of elements.

A struct is a tuple of the values of its fields, an array a tuple, and a map a tuple of pairs; a variant is its JSON.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

DAY = dt.date(2020, 2, 20)
TEXTS = ["", "A", "a", "ab", "abc", "b", "ba", "c", "d%", "it's", "é", "€"]
TWELVE = range(12)


@dataclass(frozen=True, kw_only=True)
class Nested:
    """A type whose values hold others."""

    column: str
    """What columns of the type are called."""
    arrow: pa.DataType
    pool: list[Any]
    """Values of which neighbors hold values that are close to each other."""
    terms: tuple[tuple[str, str], ...] = ()
    """What queries take out of a value, as SQL in which `{}` is the value, and its type."""
    elements: tuple[tuple[str, str], ...] = ()
    """The arrays in it, as SQL in which `{}` is the value, and the types of their elements."""
    sketches: tuple[str, ...] = ()
    """What may be indexed of it, with `{}` for the column."""
    ordered: bool = True
    """Whether values compare, so that rows can be ordered and grouped by them."""


def _json(i: int) -> str:
    """A JSON text, of which a path leads to a text, a number, null or nowhere."""
    value: dict[str, Any] = {"a": TEXTS[i], "n": [i, i / 4][i % 2], "o": {"b": [i, TEXTS[i]]}}
    if i % 5 == 3:
        value["a"] = None
    if i % 4 == 2:
        del value["n"]
    if i % 7 == 5:
        value["o"] = {}
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


OTHER_JSON = ["{}", "[1,2]", '{"a":{"b":1},"n":7}', "null", '"ab"']
EXPLODED = ("values(9)", "values(2)", "bloom(0.01)", "ranges(2)")


def _sketches(*terms: str, kinds: Sequence[str] = EXPLODED) -> tuple[str, ...]:
    return tuple(f"{kind}:{term}" for term in terms for kind in kinds)


NESTED = {
    "struct<a:int,b:struct<c:string,d:date>>": Nested(
        column="st",
        arrow=pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.date32())]))]),
        pool=[
            (
                None if i % 6 == 5 else i - 2,
                None if i % 4 == 3 else (TEXTS[i], None if i % 5 == 2 else DAY + dt.timedelta(days=i)),
            )
            for i in TWELVE
        ],
        terms=(("{}.a", "int"), ("{}.b.c", "string"), ("{}.b.d", "date")),
        sketches=_sketches("{}.a", "{}.b.c", "lower({}.b.c)", "{}.b.d"),
    ),
    "array<string>": Nested(
        column="tags",
        arrow=pa.list_(pa.string()),
        pool=[(), (None,), *((*TEXTS[i : i + 1 + i % 3], *([None] * (i % 4 == 1))) for i in TWELVE)],
        elements=(("{}", "string"),),
        sketches=_sketches("explode({})", kinds=(*EXPLODED, "ngram(2)", "prefix(1)")),
    ),
    "array<int>": Nested(
        column="ns",
        arrow=pa.list_(pa.int32()),
        pool=[(), (None,), *((*range(i - 2, i - 1 + i % 3), *([None] * (i % 4 == 1))) for i in TWELVE)],
        elements=(("{}", "int"),),
        sketches=_sketches("explode({})"),
    ),
    "map<string,int>": Nested(
        column="m",
        arrow=pa.map_(pa.string(), pa.int32()),
        pool=[
            (),
            *(tuple((key, None if i % 5 == 4 else i) for key in TEXTS[i % 3 : i % 3 + 1 + i % 4]) for i in TWELVE),
        ],
        terms=(("element_at({}, 'A')", "int"), ("{}['ab']", "int")),
        elements=(("map_keys({})", "string"), ("map_values({})", "int")),
        sketches=_sketches("explode(map_keys({}))", "explode(map_values({}))", "element_at({}, 'A')"),
        ordered=False,
    ),
    "json": Nested(
        column="js",
        arrow=pa.string(),
        pool=["", "no JSON", *map(_json, TWELVE), *OTHER_JSON],
        terms=(
            ("get_json_object({}, '$.a')", "string"),
            ("CAST(get_json_object({}, '$.n') AS DOUBLE)", "double"),
            ("get_json_object({}, '$.o.b[1]')", "string"),
        ),
        sketches=_sketches(
            "get_json_object({}, '$.a')",
            "CAST(get_json_object({}, '$.n') AS DOUBLE)",
            "lower(get_json_object({}, '$.a'))",
        ),
    ),
    "variant": Nested(
        column="v",
        arrow=pa.string(),
        pool=[*map(_json, TWELVE), *OTHER_JSON],
        terms=(
            ("{}:n::int", "int"),
            ("try_variant_get({}, '$.a', 'string')", "string"),
            ("try_variant_get({}, '$.n', 'double')", "double"),
            ("CAST(try_variant_get({}, '$.o.b[0]', 'int') AS bigint)", "bigint"),
            ("variant_get({}, '$.o.b[1]', 'string')", "string"),
        ),
        sketches=_sketches(
            "{}:n::int", "try_variant_get({}, '$.a', 'string')", "variant_get({}, '$.o.b[1]', 'string')"
        ),
        ordered=False,
    ),
}
"""By the type's name."""
VARIANT = "variant"


def kinds_of(version: str) -> list[str]:
    """The types that a version of Spark has."""
    return [kind for kind in NESTED if kind != VARIANT or version >= "4"]


def is_ordered(kind: str) -> bool:
    """Whether values of any type compare."""
    return kind not in NESTED or NESTED[kind].ordered


def terms_of(name: str, kind: str) -> list[tuple[str, str]]:
    """What queries take out of a column, and its types."""
    return [(text.format(name), type_) for text, type_ in NESTED[kind].terms] if kind in NESTED else []


def to_arrow(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Values of one type in Arrow, which wants structs with the names of fields."""
    return pa.array([_named(value, data_type) for value in values], data_type)


def _named(value: Any, data_type: pa.DataType) -> Any:
    if value is None or not pa.types.is_struct(data_type):
        return value
    return {field.name: _named(part, field.type) for part, field in zip(value, data_type, strict=True)}


def as_sql(value: Any, kind: str, flat: Callable[[Any, str], str]) -> str:
    """A value as SQL; flat: does so with what it holds."""
    if kind.startswith("struct<"):
        return _struct_sql(value, NESTED[kind].arrow, flat)
    if kind.startswith("array<"):
        return f"CAST(array({', '.join(flat(item, kind[6:-1]) for item in value)}) AS {kind})"
    if kind.startswith("map<"):
        parts = (f"{flat(key, 'string')}, {flat(item, 'int')}" for key, item in value)
        return f"CAST(map({', '.join(parts)}) AS {kind})"
    text = flat(value, "string")
    return f"parse_json({text})" if kind == VARIANT else text


def _struct_sql(value: Any, data_type: pa.DataType, flat: Callable[[Any, str], str]) -> str:
    names = {pa.int32(): "int", pa.string(): "string", pa.date32(): "date"}
    parts = []
    for part, field in zip(value, data_type, strict=True):
        if not pa.types.is_struct(field.type):
            parts.append(f"'{field.name}', {flat(part, names[field.type])}")
        elif part is None:
            inner = ", ".join(f"{inside.name}: {names[inside.type]}" for inside in field.type)
            parts.append(f"'{field.name}', CAST(NULL AS struct<{inner}>)")
        else:
            parts.append(f"'{field.name}', {_struct_sql(part, field.type, flat)}")
    return f"named_struct({', '.join(parts)})"


def plain_value(value: Any) -> Any:
    """A value that Spark gave, as pools have it."""
    if isinstance(value, tuple | list):
        return tuple(map(plain_value, value))
    if isinstance(value, dict):
        return tuple(sorted((key, plain_value(item)) for key, item in value.items()))
    return _compact(json.loads(value.toJson())) if hasattr(value, "toJson") else value
