"""Sketches of the elements of arrays and maps: filters on elements skip files, and answers stay."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import tiers
from pyspark.sql import DataFrame, SparkSession

import zskip

pytestmark = pytest.mark.spark
FILES = 16
ROWS = """
    SELECT id, file,
           CASE WHEN file % 4 = 3 THEN IF(id % 2 = 0, array(), NULL)
                ELSE array(concat('tag', file), IF(id % 3 = 0, NULL, concat('t', id % 40)), 'all of them') END AS tags,
           IF(id % 5 = 0, NULL, array(CAST(file * 10 + id % 7 AS SMALLINT), NULL)) AS n,
           map(concat('k', file % 5), id % 90, 'z', file) AS m,
           named_struct('d', array(DATE '2024-01-01' + CAST(file AS INT)), 'f', array(file / 2, DOUBLE('NaN'))) AS st
    FROM (SELECT id, CAST(id DIV 25 AS INT) AS file FROM range(0, 400, 1, 16))
"""
SKETCHES = [
    "values(64):explode(tags)",
    "ngram(3):explode(tags)",
    "ranges(8):explode(n)",
    "bloom(0.001):explode(map_keys(m))",
    "values(100):explode(map_values(m))",
    "values(10):explode(st.d)",
    "values(10):explode(st.f)",
]
WHERE = {
    "array_contains(tags, 'tag5')": 1,
    "array_contains(tags, 'tag3')": 0,
    "exists(tags, x -> x = 'tag5')": 1,
    "exists(tags, x -> x IN ('tag5', 'tag6', 'none'))": 2,
    "exists(tags, x -> x LIKE '%ag9')": 1,
    "exists(tags, x -> x > 'tag8')": 1,
    "exists(tags, x -> x >= 'tag4' AND x < 'tag5')": 1,
    "exists(tags, x -> x = 'tag5' OR x = 'tag8')": 2,
    "exists(tags, x -> NOT (x != 'tag5' OR length(x) = 5))": 1,
    "arrays_overlap(tags, array('tag1', 'tag2', NULL))": 2,
    "arrays_overlap(array('tag1', 'none'), tags)": 1,
    "array_contains(tags, 'tag5') AND array_contains(tags, 'tag6')": 0,
    "array_contains(tags, 'tag5') OR array_contains(tags, 'tag6')": 2,
    "array_contains(tags, 'all of them') AND NOT array_contains(tags, 'tag5')": 12,
    "exists(tags, x -> x IS NULL)": 12,
    "array_contains(n, 42)": 1,
    "exists(n, x -> x > 149)": 1,
    "map_contains_key(m, 'k2')": 3,
    "array_contains(map_keys(m), 'none')": 0,
    "array_contains(map_values(m), 89)": 5,
    "m['k2'] = 3": 3,
    "m['none'] IS NOT NULL": 0,
    "array_contains(st.d, DATE '2024-01-04')": 1,
    "exists(st.f, x -> x = 3.5D)": 1,
    "exists(st.f, x -> isnan(x)) AND array_contains(st.f, 1D)": 1,
}
"""Filters, and the most files that they read."""
UNREAD = (
    "NOT array_contains(tags, 'tag5')",
    "array_contains(tags, 'tag5') IS NULL",
    "NOT exists(tags, x -> x = 'none')",
    "exists(tags, x -> lower(x) = 'tag5')",
    "exists(tags, id -> id = CAST(file AS STRING))",
    "exists(tags, x -> exists(n, y -> y > length(x)))",
    "arrays_overlap(tags, array(concat('tag', file)))",
    "array_contains(tags, concat('tag', file))",
    "exists(tags, x -> array_contains(array('tag5'), x))",
    "m['none'] IS NULL",
    "exists(map_entries(m), e -> e.key = 'k2')",
)
"""Filters whose files no sketch may rule out."""


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elements") / "t"
    rows = spark.sql(ROWS)
    rows.repartitionByRange(FILES, "file").sortWithinPartitions("id").write.parquet(str(path))
    zskip.table(spark, str(path)).index(sketches=SKETCHES)
    return path


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


@pytest.mark.parametrize("where", [*WHERE, *UNREAD])
def test_filters_on_elements_skip_files(spark: SparkSession, path: Path, where: str) -> None:
    most = WHERE.get(where, FILES)
    expected = ids(spark.read.parquet(str(path)).where(where))
    table = zskip.table(spark, str(path))
    assert ids(table.df().where(where)) == expected
    assert table.last_scan is not None
    assert table.last_scan.files <= most
    if where in UNREAD:
        assert table.last_scan.files == FILES
    with zskip.enabled(spark):
        assert ids(spark.read.parquet(str(path)).where(where)) == expected
    assert len(zskip.open(str(path)).files(where)) == table.last_scan.files


def test_any_combination_loses_no_row(spark: SparkSession, path: Path) -> None:
    rng = random.Random(7)

    def condition(depth: int) -> str:
        if not depth or rng.random() < 0.3:
            return rng.choice([*WHERE, *UNREAD])
        if rng.random() < 0.25:
            return f"NOT ({condition(depth - 1)})"
        return f"({condition(depth - 1)}) {rng.choice(['AND', 'OR'])} ({condition(depth - 1)})"

    table, plain = zskip.table(spark, str(path)).df(), spark.read.parquet(str(path))
    for _ in range(tiers.count(60, 8)):
        where = condition(3)
        assert ids(table.where(where)) == ids(plain.where(where)), where
