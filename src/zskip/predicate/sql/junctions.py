"""ANDs, ORs and NOTs of parts, flat and not too deep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zskip.predicate.tree import And, Not, Or, Predicate, Unknown

_DEEPEST = 100
"""The deepest nesting of operators, since later walks along the tree are recursive."""


@dataclass(frozen=True, slots=True)
class Part:
    """A predicate, and how deep its operators are nested."""

    predicate: Predicate
    depth: int

    def negate(self) -> Part:
        """NOT of it, which undoes another one."""
        if isinstance(self.predicate, Not):
            return Part(self.predicate.child, self.depth - 1)
        return Part(Not(self.predicate), self.depth + 1)


def join(kind: type[And | Or], parts: Sequence[Part], sql: str) -> Part:
    """Join parts under one operator, flattening parts under the same operator."""
    if len(parts) == 1:
        return parts[0]
    children: list[Predicate] = []
    for part in parts:
        children += part.predicate.children if isinstance(part.predicate, kind) else [part.predicate]
    depth = max(part.depth - isinstance(part.predicate, kind) for part in parts) + 1
    if depth > _DEEPEST:
        return Part(Unknown(shorten(sql, 200), "nested too deeply"), 0)
    return Part(kind(tuple(children)), depth)


def shorten(sql: str, most: int = 500) -> str:
    """Cut a long text for people."""
    return sql if len(sql) <= most else f"{sql[:most]}..."
