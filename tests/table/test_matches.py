"""`matches`: files of which no row makes a condition true are skipped where a filter implies it, and only there."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from hypothesis import given
from hypothesis import strategies as st
from session_settings import settings

import zskip
from zskip.errors import InputError, ZskipError, ZskipWarning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 8
ROWS = """
    SELECT id, CAST(id % 50 AS INT) AS a, CAST(id % 7 AS INT) AS b,
           IF(id % 11 = 0, CAST('NaN' AS DOUBLE), id / 10D) AS d,
           IF(id % 13 = 0, NULL, concat('row ', id, ' of ', IF(id DIV 100 = 3, 'special', 'plain'), ' requests')) AS s,
           concat('{"n": ', id, ', "k": "', IF(id DIV 100 = 5, 'x', 'y'), '"}') AS js,
           timestamp_seconds(1700000000 + id * 3600) AS ts, array(id % 3, id DIV 100) AS xs
    FROM range(0, 800, 1, 8)
"""
CONDITIONS = [
    ("s LIKE '%special%requests%'", "a >= 0 AND s LIKE '%special%requests%'", 1),
    ("s RLIKE 'spec.al'", "s RLIKE 'spec.al' AND b < 9", 1),
    ("get_json_object(js, '$.k') = 'x'", "get_json_object(js, '$.k') = 'x'", 1),
    ("CAST(get_json_object(js, '$.n') AS INT) BETWEEN 200 AND 220",
     "CAST(get_json_object(js, '$.n') AS INT) >= 200 AND CAST(get_json_object(js, '$.n') AS INT) <= 220", 1),
    ("CASE WHEN a < 10 THEN id ELSE id + 1 END > 750", "750 < CASE WHEN a < 10 THEN id ELSE id + 1 END", None),
    ("id + a > 780", "a + id > 780", 1),
    ("exists(xs, x -> x * 2 > 13)", "exists(xs, y -> y * 2 > 13)", 1),
    ("a = 3 AND id DIV 100 = 2", "id DIV 100 = 2 AND b = 0 AND a = 3", 1),
    ("id DIV 100 = 2 OR s RLIKE 'spec.al'", "s RLIKE 'spec.al'", None),
    ("id DIV 100 IN (1, 2)", "id DIV 100 = 2", None),
    ("get_json_object(js, '$.k') = 'x'", "get_json_object(js, '$.k') = 'x' OR id BETWEEN 510 AND 520", 1),
    ("length(s) + 1 > 40", "s LIKE '%nowhere%' AND length(s) + 1 > 40", 0),
    ("ts + INTERVAL 1 HOUR > '2023-12-15' AND hour(ts) = 3",
     "hour(ts) = 3 AND ts + INTERVAL 1 HOUR > '2023-12-15'", None),
]  # fmt: skip
"""A condition, a filter that implies it, and the files with a row of it; None where that is not of interest."""


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    spark.sql(ROWS).write.parquet(str(tmp_path / "t"))
    return str(tmp_path / "t")


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def read(spark: SparkSession, table: zskip.Table, where: str) -> int:
    """The files that a filter reads; its rows are those of Spark's own reader."""
    assert rows(table.df().where(where)) == rows(spark.read.parquet(table.path).where(where)), where
    return table.last_scan.files


def test_files_without_a_match_are_skipped(spark: SparkSession, path: str) -> None:
    table = zskip.table(spark, path)
    table.index(sketches=[f"matches:{condition}" for condition, _, _ in CONDITIONS])
    info = {part.spec: part.files for part in table.info().index.sketches}
    assert info == {f"matches:{condition}": FILES for condition, _, _ in CONDITIONS}
    for condition, where, expected in CONDITIONS:
        holding = spark.read.parquet(path).where(condition).selectExpr("input_file_name() AS f").distinct().count()
        assert expected in (None, holding), condition
        kept = {text: read(spark, table, text) for text in (condition, where)}
        assert max(kept.values()) <= holding, (condition, kept, table.last_scan)
        assert any(leaf.kind == "matches" for leaf in table.last_scan.leaves), where


def test_row_groups_without_a_match_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    """Where the index describes row groups: `files` names those that may hold a row of the filter."""
    for i in range(3):
        numbers = np.arange(1000 * i, 1000 * i + 1000)
        words = [("late" if n // 50 in (3, 31, 37) else "fine") + f" {n % 7}" for n in numbers]
        pq.write_table(pa.table({"n": numbers, "word": words}), tmp_path / f"{i}.parquet", row_group_size=100)
    table = zskip.table(spark, str(tmp_path))
    table.index(granularity="row_group", sketches=["matches(8):word LIKE '%a_e%'"])
    zskip.sql(spark, f"CREATE SKIPPING INDEX ON '{tmp_path}' (word LIKE '%_e 6' AND n < 999 MATCHES(1))")

    def read(where: str) -> dict[str, Any]:
        assert spark.read.parquet(str(tmp_path)).where(where).count() == table.df().where(where).count()
        return {Path(file).name: file.row_groups for file in table.files(where)}

    assert read("word LIKE '%a_e%' AND n > 5") == {"0.parquet": (1,), "1.parquet": (5, 8)}
    assert read("word LIKE '%a_e%' AND n > 1600") == {"1.parquet": (8,)}
    assert read("n < 999 AND word LIKE '%_e 6'") == {"0.parquet": tuple(range(10))}
    either = "word LIKE '%a_e%' OR (n < 999 AND word LIKE '%_e 6')"
    assert read(either) == {"0.parquet": tuple(range(10)), "1.parquet": (5, 8)}
    table.index(drop=["matches(8):word LIKE '%a_e%'"], sketches=["matches:word LIKE '%a_e%'"])
    assert read("word LIKE '%a_e%' AND n > 1600") == {"1.parquet": tuple(range(6, 10))}


def test_the_example_of_the_page(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "sketches.md").read_text()
    code, output = re.search(r"## Conditions.*?```python\n(.*?)```.*?```text\n(.*?)```", page, re.DOTALL).groups()
    spark.sql(
        "SELECT id, IF(id DIV 1000 = 3, 'a time-out', 'all is well') AS note, CAST(id % 5 AS INT) AS level, "
        "CAST('2024-06-02' AS DATE) AS day FROM range(0, 8000, 1, 8)"
    ).write.parquet(str(tmp_path / "logs"))
    exec(code, {"table": zskip.table(spark, str(tmp_path / "logs"))})
    shown = re.sub(r"[\d.]+ (kB|ms|s)\b", "...", capsys.readouterr().out)
    assert shown.strip() == re.sub(r"[\d.]+ (kB|ms|s)\b", "...", output).strip(), shown


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("a > rand()", "rand"),
        ("ts < current_timestamp()", "current_timestamp"),
        ("ts > TIMESTAMP 'now'", "another day each time"),
        ("CAST(ts AS DATE) = 'today'", "another day each time"),
        ("a IN (SELECT 1)", "subquery|query"),
        ("sum(a) > 3", "cannot evaluate"),
        ("row_number() OVER (ORDER BY a) = 1", "cannot evaluate"),
        ("nothing > 3", 'no column "nothing"'),
        ("input_file_name() = 'x' OR a = 3", "input_file_name"),
        ("a +", "cannot read"),
        ("a + 1", "cannot evaluate"),
        ("1 = 1", "same for every row"),
        ("a > 3 AND 1 = 0", "same for every row"),
        ("unix_timestamp() > a", "unix_timestamp|current"),
        ("lower(s) = 'x'", "of its own"),
        ("nobody(a) > 3", "nobody"),
        ("geo_distance(d, d, 1, 1) < 3", "geo_distance"),
        ("", "names no column"),
    ],
)
def test_conditions_of_no_one_value_are_refused(spark: SparkSession, path: str, condition: str, reason: str) -> None:
    spark = spark.newSession()
    spark.udf.register("lower", lambda value: value, "string")
    with pytest.raises(ZskipError, match=reason):
        zskip.table(spark, path).index(sketches=[f"matches:{condition}"])
    assert zskip.table(spark, path).info().index is None, "nothing is built"


def test_conditions_on_partitions_and_too_many_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(ROWS).write.partitionBy("b").parquet(str(tmp_path / "t"))
    table = zskip.table(spark, str(tmp_path / "t"))
    with pytest.raises(InputError, match='apart by "b" already'):
        table.index(sketches=["matches:a + b > 3"])
    with pytest.raises(InputError, match="at most 1,000"):
        table.index(sketches=[f"matches:a % 1001 = {i}" for i in range(1001)])
    table.index(sketches=["matches:s RLIKE 'spec.al'"])
    assert rows(table.df().where("b = 1 AND s RLIKE 'spec.al'"))
    assert table.last_scan.files <= 2


def test_another_meaning_skips_nothing(spark: SparkSession, path: str) -> None:
    table = zskip.table(spark, path)
    casts, text = "CAST(substring(s, 5, 3) AS INT) + 1 > 900", "s RLIKE 'spec.al'"
    with settings(spark, **{"spark.sql.ansi.enabled": "false"}):
        table.index(sketches=[f"matches:{casts}", f"matches:{text}", "matches:s LIKE '%special%'"])
        assert [read(spark, table, where) for where in (casts, text, "s LIKE '%special%'")] == [0, 1, 1]
    for name, value in {"spark.sql.ansi.enabled": "true", "spark.sql.legacy.sizeOfNull": "false"}.items():
        with settings(spark, **{"spark.sql.ansi.enabled": "false"}), settings(spark, **{name: value}):
            fresh = zskip.table(spark, path)
            assert rows(fresh.df().where(text))
            assert fresh.last_scan.files == fresh.last_scan.files_total
            assert rows(fresh.df().where("s LIKE '%special%'"))
            assert fresh.last_scan.files == 1
    with settings(spark, **{"spark.sql.ansi.enabled": "true"}):
        spark.sql(ROWS).limit(3).write.mode("append").parquet(path)
        with pytest.warns(ZskipWarning, match="means something else"):
            zskip.table(spark, path).index()
    with settings(spark, **{"spark.sql.ansi.enabled": "false"}):
        assert read(spark, table, text) == 2
        table.index()
        assert read(spark, table, text) == 1


CORRUPT = "from_json(s, 'a INT, _corrupt_record STRING') = named_struct('a', CAST(NULL AS INT), '_corrupt_record', s)"
"""Whether the text is kept depends on the name of the column that keeps it."""


@pytest.mark.parametrize(
    ("where", "setting"),
    [
        ("NOT exists(tags, t -> t = 'z')", {"legacy__followThreeValuedLogicInArrayExists": "false"}),
        (CORRUPT, {"columnNameOfCorruptRecord": "zz"}),
    ],
)
def test_a_setting_may_change_a_condition(
    spark: SparkSession, tmp_path: Path, where: str, setting: dict[str, str]
) -> None:
    path = str(tmp_path / "t")
    tags = "array(IF(id < 200, 'a', IF(id % 9 = 0, NULL, 'b'))) AS tags"
    text = """IF(id < 200, '{"a": "x"}', '{"a": 1}') AS s"""
    spark.range(0, 400, 1, 4).selectExpr("id", tags, text).write.parquet(path)
    for first, second in ((setting, {}), ({}, setting)):
        with settings(spark, **first):
            table = zskip.table(spark, path)
            table.index(sketches=[f"matches:{where}"])
        with settings(spark, **second):
            read(spark, zskip.table(spark, path), where)
        table.index(drop=[f"matches:{where}"])


def test_a_null_in_an_array_makes_another_condition(spark: SparkSession, path: str) -> None:
    table = zskip.table(spark, path)
    with_null = "NOT arrays_overlap(xs, array(77L, CAST(NULL AS BIGINT)))"
    with pytest.raises(InputError, match="cannot tell"):
        table.index(sketches=[f"matches:{with_null}"])
    table.index(sketches=["matches:NOT arrays_overlap(xs, array(77L))"])
    assert [read(spark, table, where) for where in (with_null, "NOT arrays_overlap(xs, array(77L))")] == [8, 8]


def test_functions_of_users(spark: SparkSession, path: str) -> None:
    session = spark.newSession()
    table = zskip.table(session, path)
    table.index(sketches=["matches:soundex(s) = 'R000'", "matches:length(s) = 99"])
    assert read(session, table, "soundex(s) = 'R000'") == 0
    for name, kind in {"soundex": "string", "length": "int"}.items():
        session.udf.register(name, {"string": lambda text: "R000", "int": lambda text: 99}[kind], kind)
    assert table.df().where("soundex(s) = 'R000'").count() == 800
    assert table.df().where("length(s) = 99").count() == 800
    assert zskip.table(spark, path).df().where("length(s) = 99").count() == 0


def test_readers_that_do_not_know_a_condition_keep_all_files(spark: SparkSession, path: str) -> None:
    conditions = ["s RLIKE 'spec.al'", "id + a > 780", "s LIKE '%special%requests%' AND a >= 0"]
    zskip.table(spark, path).index(sketches=[f"matches:{condition}" for condition in conditions])
    opened = zskip.open(path)
    assert len(opened.files("s RLIKE 'spec.al'")) == FILES
    assert len(opened.files("id + a > 780")) == FILES
    assert len(opened.files("a IN (1, 2) AND s LIKE '%special%requests%'")) == 1
    assert {part.spec for part in opened.info().index.sketches} == {f"matches:{text}" for text in conditions}


def test_new_files_get_their_states(spark: SparkSession, path: str) -> None:
    table, where = zskip.table(spark, path), "s RLIKE 'spec.al'"
    table.index(sketches=[f"matches:{where}"])
    expected = rows(spark.read.parquet(path).where(where))
    table.optimize(by=["id", "a"], files=16)
    assert rows(table.df().where(where)) == expected
    assert table.last_scan.files <= 6
    table.append(spark.sql(ROWS))
    assert rows(table.df().where(where)) == sorted(2 * expected)
    assert table.last_scan.files < table.last_scan.files_total
    covered = {part.spec: part.files for part in table.info().index.sketches}
    assert covered == {f"matches:{where}": table.last_scan.files_total}
    table.index(drop=[f"matches:{where}"])
    assert rows(table.df().where(where)) == sorted(2 * expected)
    assert table.last_scan.files == table.last_scan.files_total


def test_statements_and_enabled_sessions(spark: SparkSession, path: str) -> None:
    zskip.sql(spark, f"CREATE SKIPPING INDEX ON parquet.`{path}` (s RLIKE 'spec.al' MATCHES, a IN (1, 2) MATCHES)")
    expected = rows(spark.read.parquet(path).where("a < 40 AND s RLIKE 'spec.al'"))
    with zskip.enabled(spark):
        assert rows(spark.read.parquet(path).where("a < 40 AND s RLIKE 'spec.al'")) == expected
        shown = next(scan for scan in zskip.scans(spark) if any(leaf.kind == "matches" for leaf in scan.leaves))
        assert shown.files == 1
        assert [(leaf.sql, leaf.skipped) for leaf in shown.leaves if leaf.kind == "matches"] == [
            ("matches:s RLIKE 'spec.al'", 7)
        ]
    explanation = zskip.table(spark, path).explain("s RLIKE 'spec.al' AND a < 60")
    assert explanation.steps[-1].files == 1
    assert "matches:s RLIKE 'spec.al' skips 7 files" in str(explanation)


ATOMS = [
    "a > 40", "a % 5 = 2", "b IN (1, 3)", "b IN (1, 3, 5)", "d > 70", "isnan(d)", "s IS NULL", "s LIKE '%special%'",
    "s RLIKE 'of (special|none)'", "id + a > 700", "length(s) > 30", "coalesce(s, 'x') = 'x'", "a < b", "a <=> b",
    "xs[1] = 5", "CASE WHEN b = 3 THEN a > 45 ELSE NULL END", "get_json_object(js, '$.k') = 'x'",
    "date(ts) < '2023-11-20'",
]  # fmt: skip


@tiers.examples(40, quick=6)
@given(st.randoms(use_true_random=False))
def test_no_file_with_a_match_is_skipped(shared: Any, random: Any) -> None:
    """Of random filters, under an index with many conditions."""
    spark, table = shared
    parts = [random.choice(("", "NOT ")) + random.choice(ATOMS) for _ in range(random.randint(1, 4))]
    where = random.choice((" AND ", " OR ", " AND (b < 4 OR ")).join(parts)
    where += ")" * where.count("(b < 4")
    read(spark, table, where)


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = str(tmp_path_factory.mktemp("matches") / "t")
    spark.sql(ROWS).write.parquet(path)
    table = zskip.table(spark, path)
    pairs = [f"{one} AND {other}" for one, other in itertools.pairwise(ATOMS)]
    choices = [f"{one} OR NOT {other}" for one, other in itertools.pairwise(ATOMS)]
    table.index(sketches=[f"matches:{text}" for text in (*ATOMS, *(f"NOT {one}" for one in ATOMS), *pairs, *choices)])
    return spark, table


def test_conditions_that_fail_in_new_files_cost_nothing_else(spark: SparkSession, path: str) -> None:
    table, number = zskip.table(spark, path), "CAST(regexp_extract(s, 'row ([^ ]*)', 1) AS INT) % 1000 = 5"
    special = "s RLIKE 'spec.al'"
    with settings(spark, **{"spark.sql.ansi.enabled": "true"}):
        with pytest.raises(ZskipError, match="CAST_INVALID_INPUT"):
            table.index(sketches=["matches:CAST(js AS INT) = 5", "ranges(1):a"])
        assert table.info().index.sketches == (), "nothing is built of what was asked for together"
        table.index(sketches=[f"matches:s IS NOT NULL AND {number}", f"matches:{special}"])
        assert read(spark, table, special) == 1
        broken = ROWS.replace("'row '", "'row x'").replace("800, 1, 8", "100, 1, 2")
        spark.sql(broken).write.mode("append").parquet(path)
        with pytest.warns(ZskipWarning, match="could not compute the condition in the new files.*CAST_INVALID_INPUT"):
            table.index()
        left_out = {part.spec: part.left_out for part in table.info().index.sketches}
        assert sorted(left_out.values()) == [0, 2], left_out
        assert read(spark, table, special) == 1
        spark.sql(ROWS.replace("800, 1, 8", "100, 1, 1")).write.mode("append").parquet(path)
        table.index()
        assert [part.files for part in table.info().index.sketches] == [FILES + 1, FILES + 3], (
            "only the new file is tried"
        )
