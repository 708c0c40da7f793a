"""Facts of `matches` through the life of a Delta table: its queries have the same rows with zskip and without."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiers
from session_settings import settings

import zskip
from zskip.errors import ZskipWarning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONDITIONS = [
    "s RLIKE 'n[57]00$'",
    "u % 97 + id > 2400",
    "CASE WHEN u > 2300 THEN s LIKE '%1%' ELSE id < 0 END",
    "s LIKE '%n1%0%'",
    "nearly(s, id) > 2390",
]
WHERES = [
    *CONDITIONS,
    f"u < 9999 AND {CONDITIONS[0]}",
    f"({CONDITIONS[1]}) OR {CONDITIONS[0]}",
    "NOT (s RLIKE 'n[57]00$')",
]
CHANGES = [
    "DELETE FROM {t} WHERE s RLIKE 'n[57]00$' AND id > 600",
    "UPDATE {t} SET s = 'n500' WHERE id = 17",
    "MERGE INTO {t} t USING (SELECT 18L AS id, 'n700' AS s) n ON t.id = n.id "
    "WHEN MATCHED THEN UPDATE SET t.s = n.s WHEN NOT MATCHED THEN INSERT (id, u, s) VALUES (n.id, 0, n.s)",
    "INSERT INTO {t} SELECT id + 5000, 2399L, 'n500' FROM range(3)",
    "INDEX",
    "OPTIMIZE",
    "RESTORE TABLE {t} TO VERSION AS OF 1",
    "UPDATE {t} SET u = 1 WHERE u % 97 + id > 2400",
    "DELETE FROM {t} WHERE nearly(s, id) > 2395",
    "UPDATE {t} SET s = 'late' WHERE nearly(s, id) > 2390 AND id % 2 = 1",
]
OPTIONS = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "mapped": {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
    "plain": {},
}


def check(spark: SparkSession, path: str, version: str = "") -> None:
    """Each filter has the same rows in an enabled session, at a version, too."""
    parts = (f"SELECT *, {i} FROM delta.`{path}`{version} WHERE {where}" for i, where in enumerate(WHERES))
    sql = " UNION ALL ".join(parts)
    plain = sorted(map(str, spark.sql(sql).collect()))
    with zskip.enabled(spark):
        assert sorted(map(str, spark.sql(sql).collect())) == plain


@pytest.mark.parametrize("kind", tiers.nightly(OPTIONS))
def test_changes_of_rows(engine_spark: SparkSession, tmp_path: Path, kind: str) -> None:
    spark, path = engine_spark, str(tmp_path / "t ü")
    spark.udf.register("nearly", lambda text, key: key - len(text) % 2, "long")
    rows = spark.range(0, 2400, 1, 12).selectExpr("id", "id * 7919 % 2400 AS u", "concat('n', id) AS s")
    rows.write.format("delta").options(**OPTIONS[kind]).save(path)
    table = zskip.table(spark, path)
    table.index(sketches=[f"matches:{condition}" for condition in CONDITIONS])
    check(spark, path)
    with zskip.enabled(spark):
        assert len(spark.sql(f"SELECT * FROM delta.`{path}` WHERE {CONDITIONS[0]}").collect()) == 2 * 1
        assert sum(scan.files for scan in zskip.scans(spark)) <= 2
    for step, change in enumerate(CHANGES):
        if change == "INDEX":
            table.index()
        elif change == "OPTIMIZE":
            table.optimize(by=["id", "u"], files=8)
        else:
            with zskip.enabled(spark):
                spark.sql(change.format(t=f"delta.`{path}`"))
        check(spark, path)
        if step in (1, 5):
            check(spark, path, f" VERSION AS OF {step % 4}")


def test_columns_that_go_or_change(engine_spark: SparkSession, tmp_path: Path) -> None:
    spark, path = engine_spark, str(tmp_path / "t")
    options = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    rows = spark.range(0, 800, 1, 4).selectExpr("CAST(id AS INT) AS a", "id AS b", "concat('n', id) AS s")
    rows.write.format("delta").options(**options).save(path)
    table, where = zskip.table(spark, path), "a * 4000000 + 1 < 0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        spark.conf.set("spark.sql.ansi.enabled", "false")
        try:
            table.index(sketches=[f"matches:{where}", "matches:s RLIKE 'x'", "matches:a % 7 = 9"])
            assert table.df().where(where).count() == spark.read.format("delta").load(path).where(where).count() > 0
            spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN a TYPE BIGINT")
            spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN s")
            spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN s STRING")
            spark.sql(f"INSERT INTO delta.`{path}` VALUES (-9, 1, 'x'), (3000000000, 2, 'x')")
            for refreshed in (False, True):
                table = zskip.table(spark, path)
                if refreshed:
                    table.index()
                for condition in (where, "s RLIKE 'x'", "a % 7 = 9"):
                    plain = sorted(map(str, spark.read.format("delta").load(path).where(condition).collect()))
                    assert sorted(map(str, table.df().where(condition).collect())) == plain, condition
            spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN s")
            assert zskip.table(spark, path).df().where("a % 7 = 9").count() == 0
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")


def test_what_queries_have_shown_stays_true(engine_spark: SparkSession, tmp_path: Path) -> None:
    spark, path = engine_spark, str(tmp_path / "t")
    rows = "SELECT id, concat('run ', id) AS s FROM range(0, 4000, 1, 8)"
    spark.sql(rows).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    zskip.table(spark, path).index()
    largest = max(file.stat().st_size for file in Path(path).glob("*.parquet"))
    own = {"spark.zskip.learn": "true", "spark.sql.files.maxPartitionBytes": str(largest)}

    def count(where: str, version: str = "") -> tuple[int, int]:
        (row,) = spark.sql(f"SELECT count(*) AS n FROM delta.`{path}` {version} WHERE {where}").collect()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        return row.n, zskip.scans(spark)[0].files

    with settings(spark, **own), zskip.enabled(spark):
        assert [count("s RLIKE 'run 17..'") for _ in range(2)] == [(100, 8), (100, 1)]
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 2 = 1")
        assert count("s RLIKE 'run 17..'") == (50, 1)
        assert count("s RLIKE 'run 17..'", "VERSION AS OF 0") == (100, 1)
        # Of a file without the rows of a vector, a query shows nothing: an older version has these rows.
        assert [count("s RLIKE 'run [0-9]*7[0-9]7'") for _ in range(2)] == [(0, 8), (0, 8)]
        assert count("s RLIKE 'run [0-9]*7[0-9]7'", "VERSION AS OF 0")[0] > 0
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1750, 'run 1750')")
        assert count("s RLIKE 'run 17..'") == (51, 2)


STEPS, QUERIES = 8, 60
ROWS = """
    SELECT id, id * 7919 % {n} AS u, CAST(id DIV 200 % 9 AS INT) AS b,
           concat('n', id % 1000, IF(id % 7 = 0, 'x', '')) AS s,
           concat('{{"n": ', id DIV 3, ', "k": "k', id DIV 150 % 10, '"}}') AS js, IF(id % 13 = 0, NULL, id / 7D) AS d
    FROM range({start}, {end}, 1, 12)
"""


def random_atom(pick: random.Random) -> str:
    """A condition on a row."""
    n, m = pick.randrange(2400), pick.randrange(2, 90)
    udf = pick.choice(["nearly", "twice"])
    return pick.choice(
        [
            f"s LIKE '%n{n % 10}%{m % 10}%'",
            f"s RLIKE 'n{n % 10}[{m % 5}-{m % 5 + 2}]+x?$'",
            f"get_json_object(js, '$.k') = 'k{n % 12}'",
            f"CAST(get_json_object(js, '$.n') AS INT) BETWEEN {n // 3} AND {n // 3 + m}",
            f"CASE WHEN u > {n} THEN s LIKE '%{m % 10}x' ELSE id < {m} END",
            f"u % {m} + id > {n}",
            f"{udf}(s, id) > {n}",
            f"abs({udf}(s, id) - {n}) < {m}",
            f"coalesce({udf}(s, id + {m}), {udf}(js, u)) > {n}",
            f"IF(b < {m % 9}, {udf}(s, id) > {n}, s LIKE '%{m % 10}x')",
            f"length(s) + b = {m % 12 + 3}",
            f"(d IS NULL OR d + id < {n})",
            f"b IN ({n % 9}, {m % 9})",
            f"id >= {n}",
            f"id BETWEEN {n} AND {n + m * 4}",
        ]
    )


def random_condition(pick: random.Random) -> list[str]:
    """Its conjuncts, of which some have two branches."""
    return [
        f"({random_atom(pick)} OR {random_atom(pick)})" if pick.random() < 0.2 else random_atom(pick)
        for _ in range(pick.choice([1, 1, 2]))
    ]


def random_filter(pick: random.Random, conditions: list[list[str]]) -> str:
    """Often one that implies a condition."""
    parts = [*pick.choice(conditions)]
    kind = pick.random()
    if kind < 0.15:
        return f"NOT ({' AND '.join(parts)})"
    if kind < 0.3:
        return f"({' AND '.join(parts)}) OR ({' AND '.join([*pick.choice(conditions), random_atom(pick)])})"
    if kind < 0.7:
        parts.append(random_atom(pick))
    if kind > 0.9:
        parts = random_condition(pick)
    pick.shuffle(parts)
    return " AND ".join(parts)


def random_change(pick: random.Random, spark: SparkSession, table: zskip.Table, conditions: list[list[str]]) -> None:
    where, name = " AND ".join(pick.choice(conditions)), f"delta.`{table.path}`"
    start = pick.randrange(2400)
    some = f"id BETWEEN {start} AND {start + 300}"
    new = ROWS.format(n=2400, start=start, end=start + 20)
    kind = pick.choice(["DELETE", "UPDATE", "MERGE", "INSERT", "append", "optimize", "index", "RESTORE", "maintain"])
    if kind == "append":
        table.append(spark.sql(new))
    elif kind == "index":
        table.index()
    elif kind in ("optimize", "maintain"):
        getattr(table, kind)(by=pick.sample(["id", "u", "b"], 2), target_file_size="12kB")
    else:
        both = "WHEN MATCHED THEN UPDATE SET t.s = 'n5' WHEN NOT MATCHED THEN INSERT *"
        statement = {
            "DELETE": f"DELETE FROM {name} WHERE {where} AND {some}",
            "UPDATE": f"UPDATE {name} SET s = 'n77x', u = {start} WHERE {where} AND {some}",
            "MERGE": f"MERGE INTO {name} t USING ({new}) n ON t.id = n.id AND t.b < 5 {both}",
            "INSERT": f"INSERT INTO {name} {new}",
            "RESTORE": f"RESTORE TABLE {name} TO VERSION AS OF {pick.randrange(table.info().version + 1)}",
        }[kind]
        with zskip.enabled(spark):
            spark.sql(statement)


@pytest.mark.parametrize("seed", tiers.seeds(range(42), daily=0))
def test_random_conditions_after_random_changes(engine_spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Each seed asks 480 queries, a third of them of an earlier version."""
    spark, pick, path = engine_spark, random.Random(seed), str(tmp_path / "t")
    spark.udf.register("nearly", lambda text, key: key - len(text) % 2, "long")
    spark.udf.register("twice", lambda text, key: 2 * key - len(text), "long")
    rows = spark.sql(ROWS.format(n=2400, start=0, end=2400))
    rows.write.format("delta").options(**pick.choice(list(OPTIONS.values()))).save(path)
    table = zskip.table(spark, path)
    conditions = [random_condition(pick) for _ in range(12)]
    table.index(sketches=[f"matches:{' AND '.join(parts)}" for parts in conditions])
    skipped = 0
    for step in range(STEPS):
        if step:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ZskipWarning)
                random_change(pick, spark, table, conditions)
        old = f" VERSION AS OF {pick.randrange(table.info().version + 1)}" if step % 3 == 2 else ""
        wheres = [random_filter(pick, conditions) for _ in range(QUERIES)]
        name, digest = f"delta.`{path}`{old}", "bit_xor(xxhash64(id, u, s))"
        sums = (f"count_if({w}), bit_xor(IF({w}, xxhash64(id, u, s), NULL))" for w in wheres)
        (plain,) = spark.sql(f"SELECT {', '.join(sums)} FROM {name}").collect()
        parts = (f"SELECT {i} AS i, count(*), {digest} FROM {name} WHERE {w}" for i, w in enumerate(wheres))
        with zskip.enabled(spark):
            found = sorted(map(tuple, spark.sql(" UNION ALL ".join(parts)).collect()))
            skipped += sum(
                leaf.skipped for scan in zskip.scans(spark) for leaf in scan.leaves if leaf.kind == "matches"
            )
        expected = [(i, plain[2 * i], plain[2 * i + 1]) for i in range(QUERIES)]
        wrong = [(wheres[i], one, two) for i, (one, two) in enumerate(zip(found, expected, strict=True)) if one != two]
        assert not wrong, (seed, step, old, wrong)
    assert skipped
