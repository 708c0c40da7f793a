"""Random queries with one or two joins over the tables of `test_joins.py`."""

from __future__ import annotations

import random


def _random_side(rng: random.Random, key: str) -> tuple[str, str]:
    """A relation with a key of the fact's domain, as SQL, and the name of the key."""
    where = rng.choice(
        [
            "y = 3",
            "m < 2",
            "y = 77",
            "di IN (3, 30, 55)",
            "y BETWEEN 1 AND 2 AND m > 5",
            "dk > 35",
            "true",
            "ds LIKE 's00%'",
        ]
    )
    name = {"k": "di", "s": "ds", "d": "dd", "f": "df", "n": "dn", "c": "dc"}[key]
    shape = rng.choice(["dim", "distinct", "joined", "limited", "union"])
    if shape == "dim":
        return f"(SELECT * FROM dim WHERE {where})", name
    if shape == "distinct":
        return f"(SELECT DISTINCT {name}, y FROM dim WHERE {where})", name
    if shape == "joined":
        return f"(SELECT dim.* FROM dim JOIN g ON g = gk WHERE {where} AND z > {rng.choice([0, 20, 40])})", name
    if shape == "limited":
        return f"(SELECT * FROM dim WHERE {where} ORDER BY dk, m LIMIT {rng.choice([0, 3, 30])})", name
    return f"(SELECT {name}, y FROM dim WHERE {where} UNION ALL SELECT {name}, y FROM dim WHERE y = 5)", name


def random_query(rng: random.Random) -> str:
    """A query with one or two joins of any type over `fact`."""
    source = rng.choice(
        ["fact", "fact", "(SELECT * FROM fact WHERE v < 4)", "(SELECT * FROM fact ORDER BY id LIMIT 2500)",
         "(SELECT * FROM fact UNION ALL SELECT * FROM fact WHERE v = 1)",
         "(SELECT k, s, d, f, n, c, max(v) AS v, min(id) AS id FROM fact GROUP BY k, s, d, f, n, c)",
         "(SELECT * FROM fact WHERE k < 30 OR n IS NULL)"]
    )  # fmt: skip
    for place in range(rng.choice([1, 1, 2])):
        key = rng.choice("kksdfnc")
        side, name = _random_side(rng, key)
        equal = rng.choice(["=", "=", "=", "<=>"])
        kind = rng.choice(
            ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "IN", "NOT"]
        )
        a, b = f"a{place}", f"b{place}"
        columns = f"{a}.id, {a}.k, {a}.s, {a}.d, {a}.f, {a}.n, {a}.c, {a}.v"
        if kind in ("IN", "NOT"):
            test = f"{a}.{key} IN (SELECT {name} FROM {side})"
            source = f"(SELECT {columns} FROM {source} {a} WHERE {'NOT ' if kind == 'NOT' else ''}{test})"
        else:
            more = rng.choice(["", "", f" AND {a}.v < 5"])
            source = f"(SELECT {columns} FROM {source} {a} {kind} {side} {b} ON {a}.{key} {equal} {b}.{name}{more})"
    return f"SELECT count(*), count(id), sum(id), sum(v), min(s), max(d), count(DISTINCT k) FROM {source}"
