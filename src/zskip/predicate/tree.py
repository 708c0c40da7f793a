"""The predicate tree: frozen nodes over bound columns and literals in the form of the column's type.

The leaves are few. `a != 1` is `Not(a = 1)`, `a BETWEEN 1 AND 2` is `And(a >= 1, a <= 2)`, `a <=> 1` is
`And(Not(a IS NULL), a = 1)`, and `a IN (1, NULL)` is `Or(a IN (1), NULL)`: each means the same in SQL's three values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zskip.types import DataType, Encoded


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct, found in a table."""

    path: tuple[str, ...]
    type: DataType


@dataclass(frozen=True, slots=True)
class And:
    """All children are true."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some child is true."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The child is false."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false or null (None) for every row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that zskip does not understand: it may be true, false or null for any row."""

    sql: str
    reason: str = "not supported"


@dataclass(frozen=True, slots=True)
class Compare:
    """A column against a literal: `=`, `<`, `<=`, `>` or `>=`, in Spark's order (NaN above all and equal to itself)."""

    op: str
    column: Column
    value: Encoded


@dataclass(frozen=True, slots=True)
class In:
    """A column against a list of literals, sorted, distinct and without null and NaN."""

    column: Column
    values: tuple[Encoded, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is null; never null itself."""

    column: Column


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A string column starts with these UTF-8 bytes."""

    column: Column
    prefix: bytes


Leaf = Compare | In | IsNull | StartsWith
Predicate = And | Or | Not | Constant | Unknown | Compare | In | IsNull | StartsWith


def conjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """AND of any number of predicates; true where there is none."""
    return parts[0] if len(parts) == 1 else And(parts) if parts else Constant(True)


def nodes(predicate: Predicate) -> Iterator[Predicate]:
    """The predicate and all below it, parents first."""
    todo = [predicate]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, And | Or):
            todo.extend(reversed(node.children))
        elif isinstance(node, Not):
            todo.append(node.child)


def columns_of(predicate: Predicate) -> list[Column]:
    """The distinct columns that a predicate looks at, in order of appearance."""
    found = [node.column for node in nodes(predicate) if isinstance(node, Compare | In | IsNull | StartsWith)]
    return list(dict.fromkeys(found))
