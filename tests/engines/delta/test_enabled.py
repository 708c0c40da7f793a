"""Delta's own reader in a session with `zskip.enable`: its answers, from fewer files than its own skipping leaves."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tiers

import zskip
from zskip.errors import ZskipWarning
from zskip.spark.scan.rule import open_index
from zskip.spark.scan.rule.install import install

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHERES = ["id < 250", "u = 77", "s = 'n500'", "p = 1 AND u = 77", "id < 250 AND s LIKE 'n23%'", "u IN (5, 6) OR id = 9"]


def write(spark: SparkSession, path: str, files: int = 24, **options: str) -> None:
    rows = spark.range(0, 2400, 1, files)
    rows = rows.selectExpr("id", "id * 7919 % 2400 AS u", "concat('n', id) AS s", "id DIV 1200 AS p")
    rows.write.format("delta").partitionBy("p").options(**options).save(path)


def both(spark: SparkSession, path: str, where: str) -> tuple[list[str], list[str]]:
    """The rows of a query without zskip and with it."""

    def read() -> DataFrame:
        return spark.read.format("delta").load(path).where(where)

    plain = sorted(map(str, read().collect()))
    with zskip.enabled(spark):
        return plain, sorted(map(str, read().collect()))


def test_sketches_skip_more_than_delta_does(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t ü")
    write(engine_spark, path)
    zskip.table(engine_spark, path).index(sketches=["values:u"])
    answers(engine_spark, all_of(path, WHERES))
    plain, pruned = both(engine_spark, path, "u = 77")
    assert pruned == plain
    (scan,) = zskip.scans(engine_spark)
    assert scan.files == 1 < scan.files_total, "the total is what Delta's own skipping leaves"


VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
BY_ID = {"delta.columnMapping.mode": "id"}
ALL = VECTORS | MAPPED | {"delta.enableTypeWidening": "true"}


def answers(spark: SparkSession, sql: str) -> tuple[list[str], tuple[zskip.ScanReport, ...]]:
    """The rows of a query in an enabled session, which are those of a plain one, and the reports of its scans."""
    plain = sorted(map(str, spark.sql(sql).collect()))
    with zskip.enabled(spark), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(map(str, spark.sql(sql).collect())) == plain, sql
    return plain, zskip.scans(spark)


def all_of(path: str, wheres: Sequence[str]) -> str:
    """The rows of many predicates, each from a scan of its own, as one query."""
    return " UNION ALL ".join(f"SELECT *, {i} FROM delta.`{path}` WHERE {where}" for i, where in enumerate(wheres))


def files_of(spark: SparkSession, sql: str) -> int:
    """The files that a query in an enabled session reads of the only table, whose index is asked."""
    (scan,) = (scan for scan in answers(spark, sql)[1] if not scan.for_keys)
    return scan.files


@pytest.mark.parametrize("properties", tiers.nightly([ALL, BY_ID, VECTORS]), ids=["all", "id", "vectors"])
def test_tables_that_delta_alone_reads_are_pruned(
    engine_spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    path, deleted = str(tmp_path / "t ü"), properties in (VECTORS, ALL)
    write(engine_spark, path, **properties)
    table = f"delta.`{path}`"
    engine_spark.sql(f"DELETE FROM {table} WHERE id % 100 = 7 AND id < 1200")
    zskip.table(engine_spark, path).index(sketches=["values:u", "ranges(1):upper(s)"])
    answers(engine_spark, all_of(path, WHERES))
    assert files_of(engine_spark, f"SELECT * FROM {table} WHERE u = 78") <= (1 if deleted else 3)
    assert files_of(engine_spark, f"SELECT * FROM {table} ORDER BY id DESC LIMIT 3") == 1
    assert files_of(engine_spark, f"SELECT count(*) FROM (SELECT * FROM {table} LIMIT 3)") == 1
    join = f"SELECT * FROM {table} t JOIN (SELECT id + 70 AS k FROM range(3)) d ON t.id = d.k"
    engine_spark.conf.set("spark.zskip.joins", "always")
    assert files_of(engine_spark, join) == 1
    by_expression = (
        f"SELECT t.id FROM {table} t JOIN (SELECT concat('n', 1570 + id) k FROM range(3)) d ON upper(s) = upper(k)"
    )
    assert files_of(engine_spark, by_expression) == 3
    self_join = f"SELECT * FROM {table} t JOIN (SELECT id + 7 AS k FROM {table} WHERE id = 1500) d ON t.id = d.k"
    assert {scan.files for scan in answers(engine_spark, self_join)[1]} == {1}
    engine_spark.conf.unset("spark.zskip.joins")
    (count,) = answers(engine_spark, f"SELECT count(*), min(id), max(id) FROM {table} WHERE id < 1850")[1]
    assert any(leaf.kind == "count" and leaf.skipped for leaf in count.leaves)
    assert count.files == (13 if deleted else 1), "files with deleted rows are read"
    # Rows that are deleted now were there before, in the same files.
    before = f"{table} VERSION AS OF 0"
    for where in ("u = 133", "id = 107", "s = 'n107'"):
        rows, (scan,) = answers(engine_spark, f"SELECT * FROM {before} WHERE {where}")
        assert len(rows) == 1
        assert scan.files <= (3 if deleted else 12)
        assert not answers(engine_spark, f"SELECT * FROM {table} WHERE {where}")[0]
    answers(engine_spark, f"SELECT count(*), max(u) FROM {before}")
    answers(engine_spark, f"SELECT s FROM {before} ORDER BY u LIMIT 5")


def test_what_is_known_of_columns_goes_with_them(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(engine_spark, path, **ALL)
    table = f"delta.`{path}`"
    zskip.table(engine_spark, path).index(sketches=["values:u"])
    engine_spark.sql(f"DELETE FROM {table} WHERE u = 77")
    engine_spark.sql(f"ALTER TABLE {table} RENAME COLUMN u TO w")
    engine_spark.sql(f"ALTER TABLE {table} RENAME COLUMN id TO u")
    answers(engine_spark, all_of(path, ["u = 77", "u < 250", "w = 77", "w IN (78, 79)", "s = 'n500'"]))
    assert files_of(engine_spark, f"SELECT * FROM {table} WHERE u = 77") == 1
    engine_spark.sql(f"ALTER TABLE {table} DROP COLUMN w")
    engine_spark.sql(f"ALTER TABLE {table} ADD COLUMN w bigint")
    assert len(answers(engine_spark, f"SELECT * FROM {table} WHERE w IS NULL")[0]) == 2399
    engine_spark.sql(f"INSERT INTO {table} SELECT 5000 + id, 'new', 1, id FROM range(9)")
    answers(engine_spark, all_of(path, ["w = 77", "w = 7", "w > 3", "w IS NULL AND u > 2390"]))
    zskip.table(engine_spark, path).index(sketches=["values:w"])
    assert files_of(engine_spark, f"SELECT * FROM {table} WHERE w = 7") == 1
    answers(engine_spark, f"SELECT * FROM {table} VERSION AS OF 0 WHERE u = 77 OR id = 4")


def test_widened_columns_keep_what_is_known(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = engine_spark.range(0, 800, 1, 8)
    rows = rows.selectExpr("id", "CAST(id AS int) AS i", "CAST(id / 8 AS float) AS f", "CAST(id AS decimal(9,2)) AS d")
    rows.write.format("delta").options(**ALL).save(path)
    table = zskip.table(engine_spark, path)
    table.index()
    for column, wider in (("i", "bigint"), ("f", "double"), ("d", "decimal(14,4)")):
        engine_spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {column} TYPE {wider}")
    engine_spark.sql(f"INSERT INTO delta.`{path}` SELECT 900, 5000000000, 0.1, 0.0001")
    wheres = ["i = 130", "i > 4000000000", "f = 0.1", "f < 0.5", "f = 16.25", "d = 130", "d < 0.5"]
    for _ in range(2):
        rows_of_each, _ = answers(engine_spark, all_of(path, wheres))
        assert len({row.rpartition(", ")[2] for row in rows_of_each}) == len(wheres)
        assert files_of(engine_spark, f"SELECT * FROM delta.`{path}` WHERE i = 130") == 1
        table.index()


@pytest.mark.parametrize("properties", tiers.nightly([ALL, {}]), ids=["all", "plain"])
def test_changes_in_an_enabled_session_give_the_same_table(
    engine_spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    paths = [str(tmp_path / name) for name in ("plain", "pruned")]
    changes = [
        "DELETE FROM {t} WHERE u = 77 OR id BETWEEN 130 AND 170",
        "UPDATE {t} SET s = 'x', u = u + 10000 WHERE u IN (78, 1000)",
        "MERGE INTO {t} t USING (SELECT *, u AS k FROM {t} WHERE u < 90 UNION ALL SELECT 5000 + id, 7, 'new', 1, 7 "
        "FROM range(3)) o ON t.id = o.id WHEN MATCHED AND t.u % 2 = 0 THEN UPDATE SET s = 'even' "
        "WHEN MATCHED AND t.u = 79 THEN DELETE WHEN NOT MATCHED THEN INSERT (id, u, s, p) VALUES (o.id, o.k, o.s, o.p) "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 2380 THEN DELETE",
        "INSERT INTO {t} SELECT id + 10000, u, s, p FROM {t} WHERE u BETWEEN 100 AND 110 ORDER BY u LIMIT 5",
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE u <> 1500",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
    ]
    for path in paths:
        write(engine_spark, path, files=6, **properties)
        zskip.table(engine_spark, path).index(sketches=["values:u"])
    for change in changes:
        engine_spark.sql(change.format(t=f"delta.`{paths[0]}`"))
        with zskip.enabled(engine_spark):
            engine_spark.sql(change.format(t=f"delta.`{paths[1]}`"))
        plain, pruned = (sorted(map(str, engine_spark.read.format("delta").load(path).collect())) for path in paths)
        assert pruned == plain, change
    answers(engine_spark, all_of(paths[1], ["u < 90", "s = 'x'", "s = 'even'", "id > 2300"]))


def test_df_prunes_as_an_enabled_session_does(engine_spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write(engine_spark, path, **ALL)
    engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE u = 77 OR id < 9")
    engine_spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN u TO w")
    table = zskip.table(engine_spark, path)
    table.index(sketches=["values:w"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.df().where("w = 78").count() == 1
        (scan,) = zskip.scans(engine_spark)
        assert (scan.files, scan.table) == (1, path)
        frame = table.df()
        engine_spark.sql(f"DELETE FROM delta.`{path}` WHERE w = 78")
        assert frame.where("w = 78").count() == 1, "it keeps its version"
        assert table.df().where("w = 78").count() == 0
    cached = engine_spark.read.format("delta").load(path).cache()
    cached.count()
    assert table.verify(queries=4).ok
    cached.unpersist(blocking=True)
    assert table.explain("w = 79").steps[-1].files == 1
    assert table.explain("w = 79", analyze=True).regret.files == 0
    assert table.info().index.files == 24
    advice = table.advise(["w BETWEEN 100 AND 160", "w < 30"], files=24)
    assert ("w",) in {candidate.by for candidate in advice.candidates}
    assert table.report(str(tmp_path / "report.html")) is not None
    (row,) = zskip.sql(engine_spark, f"SELECT count(*) AS n FROM delta.`{path}` WHERE w IN (78, 79)").collect()
    assert row.n == 1


def test_another_delta_keeps_its_tables(
    engine_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    write(engine_spark, path, **VECTORS)
    zskip.table(engine_spark, path).index()

    def refuse(*_: object) -> None:
        raise ValueError("a class is missing")

    rule = install(engine_spark)
    field = rule.getClass().getClassLoader().loadClass("Delta").getDeclaredField("isKnown")
    monkeypatch.setattr(open_index, "compile_apart", refuse)
    field.setAccessible(True)
    field.setBoolean(None, False)
    try:
        with zskip.enabled(engine_spark), pytest.warns(ZskipWarning, match="a class is missing"):
            assert engine_spark.read.format("delta").load(path).where("id = 5").count() == 1
        with zskip.enabled(engine_spark), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert engine_spark.read.format("delta").load(path).where("id = 6").count() == 1
        assert not zskip.scans(engine_spark) or zskip.scans(engine_spark)[0].table != path
    finally:
        field.setBoolean(None, False)
