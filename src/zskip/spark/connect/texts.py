"""Queries that are texts of SQL: the tables that they read, and the conditions that rows of these must meet.

The text itself stays, but for the names of tables that need fewer files: these become names of relations that the
request brings along.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import sqlglot
from sqlglot import exp

from zskip.errors import PredicateError
from zskip.predicate.sql.parse import Query
from zskip.spark.connect.expressions import Dialect, Message, literal_text
from zskip.spark.connect.replacements import path_of
from zskip.spark.connect.scopes import (
    ANTI,
    CROSS,
    FULL,
    INNER,
    LEFT,
    RIGHT,
    SEMI,
    Output,
    Scope,
    joined,
    restricted_by_join,
)

Node = Any
_JOINS = {
    ("", ""): INNER, ("", "INNER"): INNER, ("", "CROSS"): CROSS, ("LEFT", ""): LEFT, ("LEFT", "OUTER"): LEFT,
    ("RIGHT", ""): RIGHT, ("RIGHT", "OUTER"): RIGHT, ("FULL", ""): FULL, ("FULL", "OUTER"): FULL,
    ("LEFT", "SEMI"): SEMI, ("LEFT", "ANTI"): ANTI, ("", "SEMI"): SEMI, ("", "ANTI"): ANTI,
}  # fmt: skip
_ROWWISE = {
    "with", "with_", "kind", "hint", "operation_modifiers", "expressions", "from", "from_", "joins", "where", "order",
    "sort",
}  # fmt: skip
"""The parts of a SELECT whose rows are those of its sources."""
_AFTER_WHERE = {
    "distinct", "laterals", "group", "having", "qualify", "windows", "cluster", "distribute", "limit", "offset",
}  # fmt: skip


@dataclass(kw_only=True, eq=False)
class Reference:
    """The name of a table in a text."""

    start: int
    end: int
    alias: str
    """What columns are qualified by, where the text gives it no other name; quoted."""
    relation: Message
    """What it stands for; it may be changed."""
    before: Message
    name: str = field(default_factory=lambda: f"zskip_{uuid.uuid4().hex}")


@dataclass(frozen=True, kw_only=True)
class Opener:
    """What a text asks of the plan that it is in."""

    open: Callable[[tuple[str, ...]], tuple[Message | None, Scope] | None]
    """The relation and the columns of a table by the parts of its name, without a relation where the name stays;
    None for tables that are not known."""
    restrict: Callable[[Callable[..., Any], Scope, frozenset[int]], None]
    """Gives reads a condition."""


def read_query(node: Message, dialect: Dialect) -> Query | None:
    """The query of a message, with its arguments; None where it cannot be read as the session reads it."""
    text = node.query
    if "|>" in text or not dialect.reads(text) or dialect.replaces(text):
        return None
    try:
        query = Query(text)
        for placeholder in list(query.tree.find_all(exp.Placeholder)):
            if placeholder.name in node.named_arguments:
                value = literal_text(node.named_arguments[placeholder.name], dialect)
                placeholder.replace(sqlglot.parse_one(value, read="spark"))
    except (PredicateError, sqlglot.errors.SqlglotError):
        return None
    return query


def names_in(query: Query) -> list[tuple[str, ...]]:
    """The names of tables in a query, each as often as it stands there."""
    tables = query.tree.find_all(exp.Table)
    return [tuple(part.name for part in table.parts) for table in tables if isinstance(table.this, exp.Identifier)]


def sources_of(text: str) -> list[tuple[str, str] | None]:
    """The formats and paths of the tables that a text reads, and None for each other one; empty for no query."""
    try:
        return [path_of(names) for names in names_in(Query(text))]
    except PredicateError:
        return []


class QueryScopes:
    """Walks a query from its tables up."""

    def __init__(self, query: Query, opener: Opener, nothing: Scope) -> None:
        self.references: list[Reference] = []
        self._query = query
        self._opener = opener
        self._nothing = nothing
        self._scopes: dict[int, Scope] = {}
        self._defined = {cte.alias.lower() for cte in query.tree.find_all(exp.CTE)}
        for select in query.tree.find_all(exp.Select):
            self._select(select)

    @property
    def scope(self) -> Scope:
        """The columns of the query."""
        return self._scopes.get(id(self._query.tree), self._nothing)

    def _select(self, select: Node) -> Scope:
        """The columns of a SELECT, whose condition restricts its sources."""
        if id(select) in self._scopes:
            return self._scopes[id(select)]
        parts = {key for key, value in select.args.items() if value}
        scope = self._sources(select) if parts <= _ROWWISE | _AFTER_WHERE else self._nothing
        if "where" in parts:
            self._restrict(select.args["where"].this, scope, scope.reads)
        outputs = self._outputs(select, scope) if parts <= _ROWWISE else self._nothing
        return self._scopes.setdefault(id(select), outputs)

    def _restrict(self, condition: Node, scope: Scope, reads: frozenset[int]) -> None:
        self._opener.restrict(
            lambda columns, timezone: self._query.predicate(condition, columns, timezone), scope, reads
        )

    def _sources(self, select: Node) -> Scope:
        first = select.args.get("from_") or select.args.get("from")
        scope = self._nothing if first is None else self._source(first.this)
        for join in select.args.get("joins") or ():
            words = [join.args.get(key) or "" for key in ("side", "kind")]
            kind = None if join.args.get("method") else _JOINS.get((words[0], words[1]))
            right = self._source(join.this)
            if join.args.get("on") is not None:
                self._restrict(join.args["on"], joined(scope, right, CROSS, ()), restricted_by_join(scope, right, kind))
            scope = joined(scope, right, kind, [name.name for name in join.args.get("using") or ()])
        return scope

    def _source(self, node: Node) -> Scope:
        alias, parts = node.args.get("alias"), {key for key, value in node.args.items() if value}
        if alias is not None and (alias.args.get("columns") or not isinstance(alias.this, exp.Identifier)):
            return self._nothing
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select) and parts <= {"this", "alias"}:
            return self._select(node.this).qualified(*([alias.name] if alias else []))
        is_name = isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier)
        return self._table(node) if is_name and parts <= {"this", "db", "catalog", "alias"} else self._nothing

    def _table(self, table: Node) -> Scope:
        names = tuple(part.name for part in table.parts)
        is_defined = len(names) == 1 and names[0].lower() in self._defined
        opened = None if is_defined else self._opener.open(names)
        if opened is None:
            return self._nothing
        relation, scope = opened
        if relation is not None:
            before = type(relation)()
            before.CopyFrom(relation)
            alias = "" if table.alias else " AS `" + names[-1].replace("`", "``") + "`"
            start, end = table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1
            self.references.append(Reference(start=start, end=end, alias=alias, relation=relation, before=before))
        return scope.qualified(table.alias or names[-1])

    def _outputs(self, select: Node, scope: Scope) -> Scope:
        """The columns that a SELECT gives, if it only chooses and renames some."""
        outputs: list[Output] = []
        is_complete = True
        for node in select.expressions:
            column = node.this if isinstance(node, exp.Alias) else node
            if isinstance(node, exp.Star) and not any(node.args.values()):
                outputs += scope.outputs
                is_complete &= scope.is_complete
            elif not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
                return self._nothing
            else:
                output = scope.column([part.name for part in column.parts], node.alias or None)
                outputs += [] if output is None else [replace(output, qualifiers=())]
        return scope.with_outputs(outputs, is_complete=is_complete)


def changed(text: str, references: list[Reference]) -> tuple[str, list[Reference]]:
    """The text with new names for tables whose relations were changed, and these."""
    renamed = [reference for reference in references if reference.relation != reference.before]
    for reference in sorted(renamed, key=lambda one: one.start, reverse=True):
        text = f"{text[: reference.start]}{reference.name}{reference.alias}{text[reference.end :]}"
    return text, renamed
