"""ORDER BY ... LIMIT and LIMIT: the answers are those of a full scan, by as few files as the index allows."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from pyspark.sql import SparkSession
from typed_tables import random_table, write_files

import zskip
from zskip.errors import ZskipWarning
from zskip.spark.scan.rule import notes
from zskip.table.table import Table

FILES = 64


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """64 files of 100 ids each; `n` is null in the last file, `x` NaN in one row of the first, `p` a partition."""
    path = tmp_path_factory.mktemp("first") / "t"
    for i in range(FILES):
        ids = np.arange(100 * i, 100 * i + 100)
        x = ids.astype(float)
        if i == 0:
            x[5] = np.nan
        content = pa.table(
            {
                "id": ids,
                "n": pa.array(ids // 10, mask=ids >= 6300),
                "x": x,
                "s": [f"{'long ' * 20}{v:05d}" for v in ids],
            }
        )
        (path / f"p={i // 32}").mkdir(parents=True, exist_ok=True)
        pq.write_table(content, path / f"p={i // 32}" / f"{i:02d}.parquet")
    found = zskip.table(spark, str(path))
    found.index()
    found.df().createOrReplaceTempView("first")
    spark.read.parquet(str(path)).createOrReplaceTempView("first_plain")
    return found


def ask(spark: SparkSession, table: Table, query: str) -> tuple[list[str], list[str], int]:
    """The rows of a query, those of plain Spark, and how many files were read."""
    table.last_scan = None
    found = list(map(repr, spark.sql(query.format(t="first")).collect()))
    assert table.last_scan is not None
    return found, list(map(repr, spark.sql(query.format(t="first_plain")).collect())), table.last_scan.files


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT id FROM {t} ORDER BY id LIMIT 10", 1),
        ("SELECT * FROM {t} ORDER BY id DESC LIMIT 10", 1),
        ("SELECT id FROM {t} ORDER BY id DESC LIMIT 10 OFFSET 95", 2),
        ("SELECT id AS a, s FROM {t} WHERE id < 5050 ORDER BY a DESC LIMIT 3", 2),
        ("SELECT id FROM {t} WHERE id >= 150 ORDER BY id LIMIT 3", 2),
        ("SELECT id FROM {t} WHERE p = 0 ORDER BY id DESC LIMIT 3", 1),
        ("SELECT s FROM (SELECT s, id + 1 AS i FROM {t}) ORDER BY s LIMIT 3", 64),  # The text is cut before it differs.
        ("SELECT n FROM {t} ORDER BY n LIMIT 4", 1),
        ("SELECT n FROM {t} ORDER BY n DESC LIMIT 4", 1),
        ("SELECT n FROM {t} ORDER BY n DESC NULLS FIRST LIMIT 4", 1),
        ("SELECT n, id FROM {t} ORDER BY n NULLS LAST, id DESC LIMIT 4", 1),
        ("SELECT x FROM {t} ORDER BY x DESC LIMIT 2", 2),
        ("SELECT x FROM {t} ORDER BY x LIMIT 2", 2),
        ("SELECT id FROM {t} ORDER BY id + 1 LIMIT 2", 1),
        ("SELECT id FROM {t} WHERE id % 2 = 0 ORDER BY id LIMIT 2", 64),
        ("SELECT id FROM {t} ORDER BY id", 64),
        ("SELECT max(id) FROM (SELECT id FROM {t} ORDER BY id LIMIT 7)", 1),
        ("SELECT id FROM {t} WHERE id IN (SELECT max(id) FROM {t}) ORDER BY id LIMIT 7", 64),
    ],
)
def test_the_files_of_the_first_rows_are_read(spark: SparkSession, table: Table, query: str, files: int) -> None:
    found, plain, read = ask(spark, table, query)
    assert found == plain
    assert read <= files


@pytest.mark.parametrize(
    ("query", "rows", "files"),
    [
        ("SELECT * FROM {t} LIMIT 10", 10, 1),
        ("SELECT * FROM {t} LIMIT 150", 150, 2),
        ("SELECT id FROM {t} LIMIT 90 OFFSET 20", 90, 2),
        ("SELECT id FROM {t} WHERE id BETWEEN 150 AND 920 LIMIT 10", 10, 1),
        ("SELECT id AS a FROM {t} WHERE p = 1 AND id < 5000 LIMIT 10", 10, 1),
        ("SELECT id FROM {t} WHERE id BETWEEN 150 AND 220 LIMIT 10", 10, 2),
        ("SELECT id FROM {t} WHERE id % 2 = 0 LIMIT 10", 10, 64),
        ("SELECT id FROM {t} LIMIT 10000", 6400, 64),
        ("SELECT id FROM {t} WHERE id > (SELECT min(id) FROM {t}) LIMIT 10", 10, 64),
        ("SELECT a.id FROM {t} a LEFT JOIN {t} b ON a.id = b.id + 1 LIMIT 10", 10, 64),
        ("(SELECT id FROM {t}) UNION ALL (SELECT id FROM {t}) LIMIT 6500", 6500, 64),
    ],
)
def test_a_limit_reads_files_that_surely_hold_it(
    spark: SparkSession, table: Table, query: str, rows: int, files: int
) -> None:
    found, _, read = ask(spark, table, query)
    everything = Counter(map(repr, spark.sql(query.format(t="first_plain").split("LIMIT")[0]).collect()))
    assert len(found) == rows
    assert not Counter(found) - everything
    assert read <= files


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT id FROM first_plain ORDER BY id DESC LIMIT 10", 1),
        ("SELECT id FROM first_plain WHERE p = 0 ORDER BY id DESC, n LIMIT 10", 1),
        ("SELECT count(*) FROM (SELECT * FROM first_plain WHERE id > 150 LIMIT 10)", 1),
    ],
)
def test_every_scan_of_a_session(spark: SparkSession, table: Table, query: str, files: int) -> None:
    plain = spark.sql(query).collect()
    with zskip.enabled(spark):
        assert spark.sql(query).collect() == plain
        (scan,) = zskip.scans(spark)
    assert scan.files == files
    assert scan.leaves[-1].kind in ("top-k", "limit")


def test_it_says_so(spark: SparkSession, table: Table) -> None:
    spark.sql("SELECT id FROM first WHERE id > 20 ORDER BY id DESC LIMIT 10").collect()
    assert table.last_scan is not None
    leaf = table.last_scan.leaves[-1]
    assert (leaf.kind, leaf.sql, leaf.skipped, leaf.reason) == ("top-k", "top 10 by id DESC", 63, "")
    spark.sql("SELECT id FROM first WHERE s LIKE '%7' LIMIT 10").collect()
    leaf = table.last_scan.leaves[-1]
    assert (leaf.kind, leaf.sql, leaf.skipped) == ("limit", "limit 10", 0)
    assert "might not hold" in leaf.reason


def test_plans_tell_it_and_read_nothing(spark: SparkSession, table: Table) -> None:
    table.last_scan = None
    plan = spark.sql("SELECT id FROM first ORDER BY id LIMIT 10")._jdf.queryExecution().toString()
    assert "kept 1 of 64 files" in plan
    assert table.last_scan is None


def test_scans_of_other_limits_are_not_shared(spark: SparkSession, table: Table) -> None:
    query = (
        "SELECT count(*) FROM (SELECT * FROM (SELECT id FROM {t} ORDER BY id LIMIT 5) UNION ALL "
        "SELECT * FROM (SELECT id FROM {t} ORDER BY id DESC LIMIT 5) UNION ALL SELECT id FROM {t})"
    )
    found, plain, _ = ask(spark, table, query)
    assert found == plain


def test_files_that_the_index_does_not_know_are_read(spark: SparkSession, tmp_path: Path) -> None:
    for i in range(4):
        pq.write_table(pa.table({"id": np.arange(10 * i, 10 * i + 10)}), tmp_path / f"{i}.parquet")
    table = zskip.table(spark, str(tmp_path))
    table.index()
    pq.write_table(pa.table({"id": [1000, -1000]}), tmp_path / "4.parquet")
    pq.write_table(pa.table({"id": np.arange(500, 511)}), tmp_path / "1.parquet")
    frame = table.df()
    assert [row.id for row in frame.orderBy("id").limit(2).collect()] == [-1000, 0]
    assert table.last_scan is not None
    assert table.last_scan.files == 3
    assert [row.id for row in frame.orderBy(frame.id.desc()).limit(3).collect()] == [1000, 510, 509]
    assert frame.limit(5).count() == 5


@pytest.mark.parametrize("kind", ["top-k", "limit"])
def test_a_failure_reads_every_file(
    spark: SparkSession, table: Table, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setitem(notes.REFINE, kind, broken)
    query = {
        "top-k": "SELECT id FROM {t} ORDER BY id LIMIT 3",
        "limit": "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 3)",
    }
    with pytest.warns(ZskipWarning, match=f"by its {kind} .broken."):
        found, plain, files = ask(spark, table, query[kind])
    assert found == plain
    assert files == FILES


FILTERS = ["", "WHERE i > 5", "WHERE l IS NOT NULL AND i < 30", "WHERE f >= 0", "WHERE s < 'b' OR i = 3", "WHERE p = 1"]
COLUMNS = ["i", "l", "h", "f", "g", "d", "t", "n", "m", "w", "s", "y", "b", "k", "e", "x", "q", "v", "p"]


@pytest.mark.slow
@pytest.mark.scaled
@pytest.mark.parametrize("seed", tiers.nightly(range(3)))
def test_random_queries(spark: SparkSession, old_dates: None, tmp_path: Path, seed: int) -> None:
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    for p in range(2):
        (tmp_path / "t").mkdir(exist_ok=True)
        write_files(random_table(rng), tmp_path / "t" / f"p={p}", rng)
    table = zskip.table(spark, str(tmp_path / "t"))
    table.index(collect=draw.choice(["auto", "footers"]))
    table.df().createOrReplaceTempView("first_random")
    spark.read.parquet(str(tmp_path / "t")).createOrReplaceTempView("first_random_plain")
    pruned, tries = 0, tiers.count(25, quick=12)
    for _ in range(tries):
        column, condition = draw.choice(COLUMNS), draw.choice(FILTERS)
        order = f"{column} {draw.choice(['', 'DESC'])} {draw.choice(['', 'NULLS FIRST', 'NULLS LAST'])}"
        limit = f"LIMIT {draw.choice([1, 3, 40, 700])} {draw.choice(['', '', 'OFFSET 7'])}"
        several = draw.random() < 0.5
        queries = [
            f"SELECT {'id, ' * several}{column} AS c FROM {view} {condition} ORDER BY {order}{', id' * several} {limit}"
            for view in ("first_random", "first_random_plain")
        ]
        found, plain = (list(map(repr, spark.sql(query).collect())) for query in queries)
        # Zero has two signs, which are equal: which one comes first is not said.
        assert [row.replace("-0.0", "0.0") for row in found] == [row.replace("-0.0", "0.0") for row in plain], queries[
            0
        ]
        assert table.last_scan is not None
        pruned += table.last_scan.leaves[-1].skipped > 0
        any_query = f"SELECT id, {column} FROM first_random {condition}"
        some = Counter(map(repr, spark.sql(f"{any_query} {limit}").collect()))
        everything = Counter(map(repr, spark.sql(any_query.replace("first_random", "first_random_plain")).collect()))
        size = max(0, sum(everything.values()) - 7 * ("OFFSET" in limit))
        assert not some - everything
        assert sum(some.values()) == min(size, int(limit.split()[1])), any_query + limit
    assert pruned > tries // 5
