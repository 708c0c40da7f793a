"""Random MERGE, UPDATE and DELETE statements, on tables of a key `k`, a number `v`, a string `s` and a part `p`."""

from __future__ import annotations

import random
from collections.abc import Callable

ROWS = 600

KINDS = {
    "bigint": ("id * 3", ("decimal(20,0)", "double")),
    "int": ("CAST(id * 3 - 700 AS int)", ("bigint", "decimal(9,1)")),
    "decimal": ("CAST(id / 4 AS decimal(12,2))", ("decimal(14,4)", "double")),
    "double": ("CASE id % 31 WHEN 7 THEN double('NaN') WHEN 9 THEN -0.0D ELSE (id - 200) / 8D END", ("float",)),
    "string": ("concat('k', lpad(CAST(id AS string), 4, '0'))", ()),
    "date": ("date_add(DATE'2024-01-01', CAST(id AS int))", ("timestamp", "timestamp_ntz")),
    "timestamp": ("TIMESTAMP'2024-03-30 20:00:00' + make_interval(0, 0, 0, 0, id)", ("timestamp_ntz", "date")),
    "timestamp_ntz": ("TIMESTAMP_NTZ'2024-10-26 20:00:00' + make_interval(0, 0, 0, 0, id)", ("timestamp",)),
}
CONDITIONS = [
    "t.k = o.k", "t.k = o.k AND t.v = o.v", "t.k = o.k AND t.v < 350 AND t.s LIKE 'n%2'", "upper(t.s) = upper(o.s)",
    "t.v = o.v", "t.p = o.p AND t.k = o.k", "t.k <=> o.k", "t.v % 50 = o.v AND t.k = o.k", "t.k = o.k OR t.v = o.v",
    "t.k = o.k AND o.v % 2 = 0", "t.k >= o.k AND t.v = o.v", "t.v = o.v AND t.p = 1",
]  # fmt: skip
MATCHED = ["UPDATE SET s = 'u'", "UPDATE SET v = t.v + 1, k = o.k", "DELETE", "UPDATE SET *"]
WHERES = ["v = {i}", "v IN ({i}, {j})", "s LIKE 'n{i}%'", "k IS NULL AND v < {i}", "length(s) = 2", "v % 9 = {i} % 9"]


def random_source(pick: random.Random, key: str, others: tuple[str, ...], save: Callable[[str], str]) -> str:
    """Rows for a MERGE, as a query.

    Args:
        pick: The source of randomness.
        key: The key by `id`, as the table has it.
        others: Types that the key may be cast to.
        save: Writes the rows of a query to a table, and gives its name.
    """
    ids = pick.sample(range(ROWS + 60), pick.choice([1, 3, 20]))
    if pick.random() < 0.7:  # Few tables of keys span all files.
        ids = [ids[0] + i for i in range(len(ids))]
    ids += pick.choices(ids, k=pick.random() < 0.2)
    cast = key if not others or pick.random() < 0.5 else f"CAST({key} AS {pick.choice(others)})"
    rows = (
        f"SELECT IF(id % 13 = 4, NULL, {cast}) AS k, id * 7919 % {ROWS} AS v, concat('N', id) AS s, "
        f"CAST(id DIV 300 AS int) AS p FROM VALUES {', '.join(f'({i}L)' for i in ids)} AS x(id)"
    )
    if pick.random() < 0.4:
        rows = f"SELECT * FROM {save(rows)}"
        if pick.random() < 0.5:
            numbered = f"SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS n FROM ({rows})"
            rows = f"SELECT * EXCEPT (n) FROM ({numbered}) WHERE n = 1"
    return rows


def random_merge(pick: random.Random, source: str, evolving: float) -> str:
    """A MERGE of a query's rows into `{t}`."""
    evolves = pick.random() < evolving
    if evolves:
        source = f"SELECT *, 'e' AS extra_{pick.randrange(3)} FROM ({source})"
    clauses = []
    if pick.random() < 0.75:
        limited = f"AND t.v < {pick.randrange(ROWS)} " if pick.random() < 0.4 else ""
        clauses.append(f"WHEN MATCHED {limited}THEN {pick.choice(MATCHED)}")
        if limited:
            clauses.append("WHEN MATCHED THEN UPDATE SET s = 'other'")
    if pick.random() < 0.6 or not clauses:
        clauses.append("WHEN NOT MATCHED THEN INSERT *")
    if pick.random() < 0.2:
        clauses.append(f"WHEN NOT MATCHED BY SOURCE AND t.v = {pick.randrange(ROWS)} THEN UPDATE SET s = 'gone'")
    evolution = "WITH SCHEMA EVOLUTION " if evolves else ""
    return f"MERGE {evolution}INTO {{t}} t USING ({source}) o ON {pick.choice(CONDITIONS)} {' '.join(clauses)}"


def random_statement(pick: random.Random, source: Callable[[], str], evolving: float = 0.2) -> str:
    """A MERGE, UPDATE or DELETE of `{t}`; source: gives the query of a MERGE; evolving: the share that adds columns."""
    where = pick.choice(WHERES).format(i=pick.randrange(ROWS), j=pick.randrange(ROWS))
    kind = pick.random()
    if kind < 0.1:
        return f"DELETE FROM {{t}} WHERE {where}"
    if kind < 0.25:
        return f"UPDATE {{t}} SET s = concat(s, '!') WHERE {where}"
    return random_merge(pick, source(), evolving)
