"""What a table with a history holds: columns that keep their numbers, rows by their keys, both as SQL and as read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import query_fuzz
import random_queries

KINDS = ("int", "bigint", "string", "date", "timestamp", "float", "double", "decimal(9,2)", "boolean")
NESTED_KINDS = ("struct<a:int,b:struct<c:string,d:date>>", "array<string>", "map<string,int>")
"""Without variants: zskip has no index of a Delta table that holds one, refuses one of Iceberg, and Hudi has none."""
WIDER = {"int": "bigint", "float": "double", "decimal(9,2)": "decimal(12,2)"}
POOL_OF = {"float": "double", "decimal(12,2)": "decimal(9,2)"}
"""Types that take the values of another one, and occur in queries as that."""

Row = Mapping[int, Any]
"""Values by the numbers of columns."""


@dataclass(frozen=True)
class Column:
    """A column, which keeps its number when it is renamed."""

    number: int
    name: str
    """As SQL, so that it may be quoted."""
    kind: str
    default: Any = None
    """The value in rows that were written before the column was added."""

    @property
    def pool(self) -> str:
        """The type that has the column's values."""
        return POOL_OF.get(self.kind, self.kind)

    @property
    def plain_name(self) -> str:
        """The name without quotes."""
        return self.name.strip("`")


@dataclass(frozen=True)
class Version:
    """What a table holds at one time."""

    columns: tuple[Column, ...]
    rows: Mapping[int, Row]
    """By the key `id`."""

    def expected(self) -> dict[int, tuple[Any, ...]]:
        """The rows as `rows_of` gives them."""
        numbers = [column.number for column in self.columns]
        return {key: tuple(_collected(row[n]) for n in numbers) for key, row in self.rows.items()}


def query_columns(state: Version) -> tuple[tuple[str, str], ...]:
    """Names and types of the columns for random queries."""
    return tuple((column.name, column.pool) for column in state.columns)


def literal(value: Any, kind: str) -> str:
    """A value as SQL of a type."""
    text = random_queries.as_sql(value, POOL_OF.get(kind, kind))
    is_exact = kind in ("int", "string", "date", "timestamp", "boolean", "double")
    return text if value is not None and is_exact else f"CAST({'NULL' if value is None else text} AS {kind})"


def _collected(value: Any) -> Any:
    """A value as `rows_of` gives it."""
    if isinstance(value, dt.datetime):
        return value.astimezone().replace(tzinfo=None)
    return query_fuzz.plain_value(value)
