"""Random queries over tables: what a query may hold, its text, and how it is cut down."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import nested_values
from nested_values import NESTED, is_ordered
from random_rows import Table, ddl_of, pool_of

Scope = Sequence[tuple[str, str]]
"""Qualified name and type of each column that may be named, and of what may be taken out of columns."""

OPERATORS = ("=", "=", "<", "<=", ">", ">=", "<>", "<=>")
JOINS = ("INNER", "INNER", "INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
HIDING = ("LEFT SEMI", "LEFT ANTI")
"""Joins whose right side cannot be named above them."""
HINTS = ("", "", "", "/*+ BROADCAST(b) */ ", "/*+ BROADCAST(a) */ ", "/*+ MERGE(b) */ ", "/*+ SHUFFLE_HASH(b) */ ")
NUMBERS = ("smallint", "int", "bigint")
"""Types of which each may be a key for the others."""


@dataclass(frozen=True)
class Source:
    """A table, or what a subquery makes of one."""

    table: str
    alias: str
    where: tuple[str, ...] = ()
    """Conditions of a subquery, in which columns have no qualifiers."""
    select: str = "*"
    group: str = ""

    def sql(self) -> str:
        """The item of a FROM."""
        if self.select == "*" and not self.where:
            return f"{self.table} {self.alias}"
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"(SELECT {self.select} FROM {self.table}{where}{self.group}) {self.alias}"


@dataclass(frozen=True)
class Join:
    """What is joined to all before."""

    kind: str
    source: Source
    on: tuple[str, ...]

    def sql(self) -> str:
        """The JOIN and its condition."""
        condition = " AND ".join(self.on) or "true"
        return f" {self.kind} JOIN {self.source.sql()} ON {condition}"


@dataclass(frozen=True)
class Query:
    """A query whose answer is the same however often it runs, but for what a LIMIT leaves open."""

    source: Source
    select: tuple[str, ...]
    joins: tuple[Join, ...] = ()
    where: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    having: str = ""
    order: tuple[tuple[int, str], ...] = ()
    """Positions in the SELECT, and how each is ordered."""
    limit: int | None = None
    offset: int = 0
    union: Query | None = None
    hint: str = ""
    distinct: bool = False

    def sql(self, *, limited: bool = True) -> str:
        """The text; without its LIMIT and OFFSET where all rows are asked for."""
        named = ", ".join(f"{item} AS o{i}" for i, item in enumerate(self.select))
        text = f"SELECT {self.hint}{'DISTINCT ' * self.distinct}{named} FROM {self.source.sql()}"
        text += "".join(join.sql() for join in self.joins)
        text += f" WHERE {' AND '.join(self.where)}" if self.where else ""
        text += f" GROUP BY {', '.join(self.group)}" if self.group else ""
        text += f" HAVING {self.having}" if self.having else ""
        if self.union is not None:
            text += f" UNION ALL {self.union.sql(limited=False)}"
        if self.order:
            text += " ORDER BY " + ", ".join(f"o{position} {how}" for position, how in self.order)
        if limited and self.limit is not None:
            text += f" LIMIT {self.limit}"
        return text + (f" OFFSET {self.offset}" if limited and self.offset else "")

    def unlimited(self) -> Query:
        """All rows of which a LIMIT and OFFSET leave some, asked without hints."""
        union = self.union and self.union.unlimited()
        return replace(self, limit=None, offset=0, hint="", union=union)

    def smaller(self) -> Iterator[Query]:
        """What it may be cut down to in one step; some of it may not be valid."""
        if self.union is not None:
            yield replace(self, union=None)
            yield self.union
        for i in range(len(self.joins)):
            yield replace(self, joins=self.joins[:i] + self.joins[i + 1 :])
        for i, join in enumerate(self.joins):
            for source in _smaller_source(join.source):
                yield self._with_join(i, replace(join, source=source))
            for j in range(len(join.on)):
                yield self._with_join(i, replace(join, on=join.on[:j] + join.on[j + 1 :]))
        for i in range(len(self.where)):
            yield replace(self, where=self.where[:i] + self.where[i + 1 :])
        for source in _smaller_source(self.source):
            yield replace(self, source=source)
        yield from self._plainer()

    def _with_join(self, i: int, join: Join) -> Query:
        return replace(self, joins=(*self.joins[:i], join, *self.joins[i + 1 :]))

    def _plainer(self) -> Iterator[Query]:
        if self.limit is not None:
            yield replace(self, limit=None, offset=0)
        if self.offset:
            yield replace(self, offset=0)
        if len(self.order) > 1:
            yield replace(self, order=self.order[:1])
        if self.order:
            yield replace(self, order=())
        if self.hint or self.distinct:
            yield replace(self, hint="", distinct=False)
        if self.having:
            yield replace(self, having="")
        if self.group:
            yield replace(self, group=())
        if len(self.select) > 1 and not self.order and self.union is None:
            for i in range(len(self.select)):
                yield replace(self, select=self.select[:i] + self.select[i + 1 :])


def _smaller_source(source: Source) -> Iterator[Source]:
    if source.select != "*":
        yield replace(source, select="*", group="")
    for i in range(len(source.where)):
        yield replace(source, where=source.where[:i] + source.where[i + 1 :])


def query(rng: random.Random, tables: Sequence[Table]) -> Query:
    """A random query: some columns of some joins, a top-k, a limit, an aggregate or a union of them."""
    made, scope = _joined(rng, tables)
    kind = rng.random()
    if kind < 0.3:
        return _aggregated(rng, made, scope)
    names = [name for name, _ in _ordered_only(scope)]
    made = replace(made, select=tuple(rng.sample(names, rng.randint(1, min(3, len(names))))))
    unordered = [name for name, type_ in scope if not is_ordered(type_)]
    if kind >= 0.75 and unordered:
        made = replace(made, select=(*made.select, rng.choice(unordered)))
    if kind < 0.4:
        made = replace(made, select=(*made.select, _derived(rng, scope)))
    if kind < 0.45:
        return replace(made, distinct=True)
    if kind < 0.5:
        return _united(rng, made, scope, tables)
    if kind < 0.75:
        made = _ordered(rng, made)
    if kind > 0.55:
        made = replace(made, limit=rng.choice([0, 1, 2, 3, 5, 20]), offset=rng.choice([0, 0, 0, 1, 4]))
    return made


def scope_of(table: Table, qualifier: str = "") -> Scope:
    """The columns of a table, and what may be taken out of them."""
    named = [(f"{qualifier}{name}", kind) for name, kind in table.columns]
    return [pair for name, kind in named for pair in ((name, kind), *nested_values.terms_of(name, kind))]


def _ordered_only(scope: Scope) -> Scope:
    return [(name, kind) for name, kind in scope if is_ordered(kind)]


def _joined(rng: random.Random, tables: Sequence[Table]) -> tuple[Query, Scope]:
    """Up to three tables and what is asked of them."""
    source, scope = _source(rng, rng.choice(tables), "a")
    made = Query(source, ("1",), hint=rng.choice(HINTS))
    for alias in "bc"[: rng.choice([0, 0, 1, 1, 1, 2])]:
        other, more = _source(rng, rng.choice(tables), alias)
        kind = rng.choice(JOINS)
        on = _keys(rng, scope, more)
        made = replace(made, joins=(*made.joins, Join(kind, other, on)))
        scope = scope if kind in HIDING else [*scope, *more]
    conditions = [condition(rng, scope, tables) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
    return replace(made, where=tuple(conditions)), scope


def _source(rng: random.Random, table: Table, alias: str) -> tuple[Source, Scope]:
    bare = table.columns
    where = tuple(row_test(rng, scope_of(table)) for _ in range(rng.choice([0, 0, 0, 1, 2])))
    scope = scope_of(table, f"{alias}.")
    kind = rng.random() if all(is_ordered(type_) for _, type_ in bare) else 1
    if kind < 0.08:
        return Source(table.name, alias, where, f"DISTINCT {', '.join(n for n, _ in bare)}"), scope
    if kind < 0.16:
        keys = [name for name, type_ in bare if type_ in NUMBERS]
        select = ", ".join(f"{name} + 1 AS {name}" if name in keys else name for name, _ in bare)
        return Source(table.name, alias, where, select), scope
    if kind < 0.2:
        by = rng.choice(bare)[0]
        whole = ", ".join(n for n, _ in bare)
        return Source(table.name, alias, where, f"{whole}, max({bare[0][0]}) OVER (PARTITION BY {by}) AS w"), scope
    if kind < 0.24:
        key, others = bare[0][0], [n for n, _ in bare[1:]]
        values = ", ".join([key, *(f"max({n}) AS {n}" for n in others)])
        return Source(table.name, alias, where, values, f" GROUP BY {key}"), scope
    return Source(table.name, alias, where), scope


def _keys(rng: random.Random, left: Scope, right: Scope) -> tuple[str, ...]:
    """Conditions of a join: mostly equality of one or two keys."""
    pairs = [(a, b) for a in left for b in right if _comparable(a[1], b[1])]
    chosen = rng.sample(pairs, min(len(pairs), rng.choice([1, 1, 1, 2])))
    found = [_equal(rng, *pair) for pair in chosen]
    if rng.random() < 0.15:
        (a, kind), (b, _) = rng.choice([p for p in pairs if p[0][1] == p[1][1]] or pairs)
        found.append(f"{a} {rng.choice(('<', '<=', '<>'))} {b}" if kind else "true")
    if rng.random() < 0.15:
        found.append(row_test(rng, [*left, *right]))
    return tuple(found)


def _comparable(one: str, other: str) -> bool:
    return (one == other and is_ordered(one)) or (one in NUMBERS and other in NUMBERS)


def _equal(rng: random.Random, left: tuple[str, str], right: tuple[str, str]) -> str:
    (a, kind), (b, _) = left, right
    form = rng.random()
    if form < 0.7:
        return rng.choice((f"{a} = {b}", f"{b} = {a}"))
    if form < 0.8:
        return f"{a} <=> {b}"
    if kind in NUMBERS:
        return rng.choice(
            (
                f"CAST({a} AS bigint) = CAST({b} AS bigint)",
                f"CAST({a} AS string) = CAST({b} AS string)",
                f"{a} + 1 = {b}",
                f"CAST({a} AS decimal(25,3)) = {b}",
                f"CAST({a} AS double) = {b}",
                f"abs({a}) = {b}",
            )
        )
    if kind == "timestamp":
        return f"CAST({a} AS date) = CAST({b} AS date)"
    return f"lower({a}) = lower({b})" if kind == "string" else f"coalesce({a}, {b}) = {b}"


def _aggregated(rng: random.Random, made: Query, scope: Scope) -> Query:
    """Counts, least and greatest values and sums, of all rows or of groups."""
    items, scope = ["count(*)"], _ordered_only(scope)
    for name, kind in rng.sample(list(scope), min(len(scope), rng.randint(1, 3))):
        choices = [f"count({name})", f"min({name})", f"max({name})", f"count(DISTINCT {name})"]
        choices += [f"sum({name})"] if kind in (*NUMBERS, "decimal(9,2)") else []
        items.append(rng.choice(choices))
    rng.shuffle(items)
    items = items[: rng.randint(1, len(items))]
    if rng.random() < 0.55:
        return replace(made, select=tuple(items))
    groups = tuple(name for name, _ in rng.sample(list(scope), rng.choice([1, 1, 2])))
    having = rng.choice(["", "", "count(*) > 1"])
    made = replace(made, select=(*groups, *items), group=groups, having=having)
    return _ordered(rng, replace(made, limit=rng.choice([1, 3]))) if rng.random() < 0.2 else made


def _derived(rng: random.Random, scope: Scope) -> str:
    name, kind = rng.choice(list(_ordered_only(scope)))
    if kind in NUMBERS:
        return rng.choice((f"{name} * 2", f"CAST({name} AS string)", f"coalesce({name}, 0)", f"-{name}"))
    return rng.choice(
        (f"{name} IS NULL", f"coalesce({name}, {literal(rng, kind)})", f"CASE WHEN {name} IS NULL THEN 1 ELSE 2 END")
    )


def _ordered(rng: random.Random, made: Query) -> Query:
    positions = rng.sample(range(len(made.select)), rng.randint(1, len(made.select)))
    ways = ("", "ASC", "DESC", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC")
    return replace(made, order=tuple((i, rng.choice(ways)) for i in positions))


def _united(rng: random.Random, made: Query, scope: Scope, tables: Sequence[Table]) -> Query:
    """With rows of another query with columns of the same types."""
    kinds = dict(scope)
    if any(item not in kinds for item in made.select):
        return made
    other, more = _joined(rng, tables)
    select = []
    for item in made.select:
        same = [name for name, kind in more if kind == kinds[item]]
        select.append(rng.choice(same) if same else f"CAST(NULL AS {ddl_of(kinds[item])})")
    made = replace(made, union=replace(other, select=tuple(select)))
    if rng.random() < 0.5:
        made = replace(_ordered(rng, made), limit=rng.choice([1, 3, 8]), offset=rng.choice([0, 0, 2]))
    return made


def condition(rng: random.Random, scope: Scope, tables: Sequence[Table]) -> str:
    """A test of a row, or one that asks other tables."""
    if rng.random() < 0.75:
        return row_test(rng, scope)
    table = rng.choice(list(tables))
    inner = scope_of(table, "s.")
    pairs = [(a, b) for a in scope for b in inner if _comparable(a[1], b[1])]
    if not pairs:
        return row_test(rng, scope)
    (a, _), (b, _) = rng.choice(pairs)
    more = "".join(f" AND {row_test(rng, inner)}" for _ in range(rng.choice([0, 1, 1])))
    where = f" WHERE true{more}"
    return rng.choice(
        (
            f"{a} IN (SELECT {b} FROM {table.name} s{where})",
            f"{a} NOT IN (SELECT {b} FROM {table.name} s{where} AND {b} IS NOT NULL)",
            f"EXISTS (SELECT 1 FROM {table.name} s WHERE {b} = {a}{more})",
            f"NOT EXISTS (SELECT 1 FROM {table.name} s WHERE {b} = {a}{more})",
            f"{a} = (SELECT max({b}) FROM {table.name} s{where})",
            f"{a} >= (SELECT min({b}) FROM {table.name} s{where})",
            f"({a} IN (SELECT {b} FROM {table.name} s{where}) OR {row_test(rng, scope)})",
        )
    )


def row_test(rng: random.Random, scope: Scope, depth: int = 2) -> str:
    """A condition on the columns of a row."""
    kind = rng.random()
    if depth and kind < 0.12:
        return f"({row_test(rng, scope, depth - 1)} OR {row_test(rng, scope, depth - 1)})"
    if depth and kind < 0.18:
        return f"NOT ({row_test(rng, scope, depth - 1)})"
    if kind < 0.21:
        return rng.choice(("rand(3) < 2", "true", "1 = 1"))
    name, type_ = rng.choice(list(scope))
    if type_ in NESTED and NESTED[type_].elements and rng.random() < 0.8:
        return _of_elements(rng, name, type_, scope)
    if kind < 0.3 or not is_ordered(type_):
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    if kind < 0.4:
        return f"{name} IN ({', '.join(literal(rng, type_) for _ in range(rng.randint(1, 4)))})"
    if kind < 0.5:
        return f"{name} BETWEEN {literal(rng, type_)} AND {literal(rng, type_)}"
    if kind < 0.68:
        return _of_function(rng, name, type_)
    return f"{name} {rng.choice(OPERATORS)} {literal(rng, type_)}"


def _of_function(rng: random.Random, name: str, kind: str) -> str:
    """A condition on a function of a column."""
    op, value = rng.choice(OPERATORS), literal(rng, kind)
    found = [f"coalesce({name}, {value}) {op} {literal(rng, kind)}", f"CASE WHEN {name} {op} {value} THEN true END"]
    if kind != "double":  # -0.0 and 0.0 are equal, but not as text.
        found += [f"CAST({name} AS string) LIKE '{rng.choice('-012ab')}%'"]
    if kind in NUMBERS:
        found += [f"{name} + 1 {op} {value}", f"-{name} {op} {value}", f"abs({name}) {op} 2", f"{name} % 3 = 1"]
        found += [f"hash({name}) = hash({value})"]
    if kind == "string":
        found += [f"lower({name}) {op} {value}", f"{name} LIKE '%{rng.choice('abc')}'", f"length({name}) {op} 1"]
        found += [f"startswith({name}, 'a')", f"regexp_extract({name}, '([ab]+)', 1) {op} 'a'"]
    if kind == "date":
        found += [f"year({name}) {op} 2020", f"date_format({name}, 'MM-dd') {op} '02-29'", f"day({name}) {op} 25"]
    if kind == "timestamp":
        found += [f"CAST({name} AS date) {op} DATE '2020-02-22'", f"hour({name}) {op} 6"]
        found += [f"date_trunc('DAY', {name}) {op} TIMESTAMP '2020-02-22 00:00:00'"]
    if kind == "double":
        found += [f"isnan({name})", f"floor({name}) {op} 2", f"nanvl({name}, 2D) {op} 2D"]
    return rng.choice(found)


def _of_elements(rng: random.Random, name: str, kind: str, scope: Scope) -> str:
    """A condition on the elements of an array, or on the keys or values of a map."""
    text, type_ = rng.choice(NESTED[kind].elements)
    array, item = text.format(name), rng.choice(("x", "x", "tags"))
    inner = [*3 * [(item, type_)], *rng.sample(list(scope), rng.choice([0, 0, 0, 1]))]
    test = row_test(rng, inner, depth=1)
    wider = literal(rng, rng.choice((*NUMBERS, "double"))) if type_ in NUMBERS else literal(rng, type_)
    listed = ", ".join(literal(rng, type_) for _ in range(rng.randint(1, 3)))
    found = [f"array_contains({array}, {value})" for value in (wider, literal(rng, type_))]
    found += [f"exists({array}, {item} -> {test})"] * 3
    found += [f"arrays_overlap({array}, array({listed}))", f"arrays_overlap(array({listed}), {array})"]
    found += [f"forall({array}, {item} -> {test})", f"size(filter({array}, {item} -> {test})) > 0"]
    found += [f"try_element_at({array}, 1) {rng.choice(OPERATORS)} {literal(rng, type_)}"]
    if kind.startswith("map"):
        found += [f"map_contains_key({name}, {literal(rng, 'string')})"] * 2
        found += [f"{name}[{literal(rng, 'string')}] {rng.choice(OPERATORS)} {literal(rng, 'int')}"] * 2
    return rng.choice(found)


def literal(rng: random.Random, kind: str) -> str:
    """A value of a type, as SQL, which mostly occurs."""
    value: Any = rng.choice(pool_of(kind))
    return as_sql(None if rng.random() < 0.02 else value, kind)


def as_sql(value: Any, kind: str) -> str:
    """A value of a type, or null, as SQL."""
    if value is None:
        return f"CAST(NULL AS {ddl_of(kind)})"
    if kind in NESTED:
        return nested_values.as_sql(value, kind, as_sql)
    if kind == "string":
        return "'" + value.replace("'", "\\'") + "'"
    if kind == "date":
        return f"DATE '{value}'"
    if kind == "timestamp":
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
    if kind == "double":
        return f"CAST('{value}' AS double)"
    return f"{value}BD" if kind.startswith("decimal") else str(value)
