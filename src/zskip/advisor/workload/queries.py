"""Read a workload from users' predicates, or from the WHERE clauses of their whole queries and statements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from zskip.advisor.workload.workload import Problem, Workload
from zskip.errors import InputError, PredicateError
from zskip.predicate import Columns, Predicate, parse
from zskip.predicate.sql.literals import spark_sql

_WHOLE = re.compile(
    r"\s*(?:SELECT|WITH|FROM|DELETE\s+FROM|UPDATE\b.*\sSET|MERGE\s.*\bINTO)\b", re.IGNORECASE | re.DOTALL
)
_MERGE = re.compile(r"\s*MERGE\b", re.IGNORECASE)
_READS = exp.Select, exp.Update, exp.Delete
_WEIGHTED = re.compile(r"\s*(\d+(?:\.\d+)?)\t(.*)", re.DOTALL)


def read_text(text: str, name: str) -> Workload:
    """Read the workload in a file: JSON, a query per line, or queries between semicolons.

    A line of text may begin with a weight and a tab; a line that begins with `--` is a comment. name: of the file; if
    it ends in `.json`, a list of texts, [text, weight] or {"where": text, "weight": weight}. Raises InputError for any
    other JSON.
    """
    if name.lower().endswith(".json"):
        try:
            entries = json.loads(text)
        except ValueError as error:
            raise InputError(f'"{name}" is no JSON ({error}); give a list of predicates') from error
        if not isinstance(entries, list):
            raise InputError(f'"{name}" holds no list; write ["a = 1", ["b < 3", 2]]')
        return Workload.of(entries)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    parts = text.split(";") if ";" in text else text.splitlines()
    queries = []
    for part in parts:
        match = _WEIGHTED.fullmatch(part)
        if part.strip():
            queries.append((match[2], float(match[1])) if match else part)
    return Workload.of(queries)


def parse_queries(
    workload: Workload, columns: Columns, *, names: Sequence[str] = (), timezone: str = "UTC"
) -> tuple[Workload, list[Predicate]]:
    """Parse the usable queries; the rest become the workload's problems.

    names: names and paths of the table in whole queries; a query's only table also fits. timezone: of timestamps.
    """
    queries, predicates, problems = [], [], list(workload.problems)
    for number, query in enumerate(workload.queries, 1):
        try:
            where = _extract_where(query.where, columns, names) if _WHOLE.match(query.where) else query.where
            predicates.append(parse(where, columns, timezone=timezone))
            queries.append(replace(query, where=where))
        except (InputError, SqlglotError) as error:
            problems.append(Problem(number=number, text=query.where, reason=str(error).splitlines()[0]))
    return replace(workload, queries=tuple(queries), problems=tuple(problems)), predicates


def _extract_where(sql: str, columns: Columns, names: Sequence[str]) -> str:
    """Extract a query's conjuncts about this table alone, `true` if there are none; several reads are joined by OR.

    Raises PredicateError if the query does not read the table, or merges rows into it whose keys it does not tell.
    """
    if _MERGE.match(sql):
        raise PredicateError(
            "what a MERGE reads depends on the keys of its source; record the workload, or give the keys as a "
            "condition: l_orderkey IN (155190, 155191)"
        )
    tree = sqlglot.parse_one(sql, read="spark")
    reads = [(select, table) for select in tree.find_all(*_READS) for table in _tables(select)]
    if names:
        known = {name.lower() for name in names}
        named_reads = [(s, t) for s, t in reads if _names(t) & known]
        reads = named_reads or (reads if len(reads) == 1 and not reads[0][1].db else [])
    if not reads:
        raise PredicateError("it does not read this table")
    parts = []
    for select, table in reads:
        parts.append(" AND ".join(_own_conjuncts(select, table, columns, alone=len(_tables(select)) == 1)) or "true")
    return " OR ".join(f"({part})" for part in parts) if len(parts) > 1 else parts[0]


def _tables(select: exp.Expression) -> list[exp.Table]:
    if isinstance(select, exp.Update | exp.Delete):
        return [select.this]
    sources = [select.args.get("from") or select.args.get("from_"), *(select.args.get("joins") or [])]
    return [s.this for s in sources if s is not None and isinstance(s.this, exp.Table)]


def _names(table: exp.Table) -> set[str]:
    parts = [part.name.lower() for part in table.parts]
    return {".".join(parts), *parts[-1:], ".".join(parts[-2:])}


def _own_conjuncts(select: exp.Expression, table: exp.Table, columns: Columns, *, alone: bool) -> Iterable[str]:
    where = select.args.get("where")
    conditions = [] if where is None else [where.this]
    conditions += [join.args["on"] for join in select.args.get("joins") or [] if join.args.get("on")]
    names = {field.name.lower() for field in columns.fields}
    alias = table.alias_or_name.lower()
    for condition in conditions:
        for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            part = part.unnest()
            if part.find(exp.Query):
                continue
            used = list(part.find_all(exp.Column))
            is_own = [
                c.table.lower() in (alias, table.name.lower()) if c.table else c.name.lower() in names for c in used
            ]
            if used and (all(is_own) or (alone and not any(c.table for c in used))):
                bare = part.copy()
                for column in bare.find_all(exp.Column):
                    if column.table:
                        column.set("table", None)
                        column.set("db", None)
                        column.set("catalog", None)
                text = spark_sql(bare)
                yield f"({text})" if isinstance(part, exp.Or) else text
