"""Bad input: a clear error that names the value and the way out, and nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables
import tiers
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import zskip
from zskip import errors

pytestmark = pytest.mark.spark


def everything(path: Path) -> dict[str, int]:
    return {str(f.relative_to(path)): f.stat().st_mtime_ns for f in sorted(path.rglob("*"))}


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tables.make_partitioned(tmp_path_factory.mktemp("bad") / "t")


CASES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"by": ["usr", "id"]}, errors.ColumnError, 'no column "usr" in .*; did you mean "user"'),
    ({"by": ["region", "id"]}, errors.ColumnError, '"region" is a partition column'),
    ({"by": ["tags", "id"]}, errors.ColumnError, '"tags" of type nested'),
    ({"by": ["id", "user", "id"]}, errors.InputError, '"id".*twice|"id" is named'),
    ({"by": ["id", "ID"]}, errors.InputError, "(?i)twice|named"),
    ({"by": ["id"]}, errors.InputError, 'curve="linear"'),
    ({"by": ["id", "user"], "curve": "peano"}, errors.InputError, '"peano".*zorder'),
    ({"by": ["id", "user"], "build": "guess"}, errors.InputError, '"guess".*sample'),
    ({"by": ["id", "user"], "compression": "zstdd"}, errors.InputError, 'did you mean "zstd"'),
    ({"by": ["id", "user"], "where": "id = 3"}, errors.PredicateError, '"?id"?.*partition column'),
    ({"by": ["id", "user"], "where": "y = = 3"}, errors.PredicateError, "y = = 3"),
    ({"by": ["id", "user"], "where": "yy = 3"}, errors.ColumnError, '"yy"'),
    ({"by": ["id", "user"], "where": "rand() < 0.5"}, errors.PredicateError, r"rand\(\) is random"),
]


@pytest.mark.parametrize(("arguments", "error", "says"), CASES, ids=[str(c[0]) for c in CASES])
def test_arguments(
    spark: SparkSession, partitioned: Path, arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    before = everything(partitioned)
    with pytest.raises(error, match=says):
        zskip.table(spark, str(partitioned)).optimize(**({"files": 4} | arguments))
    assert everything(partitioned) == before


def test_more_than_32_columns(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).selectExpr(*[f"id AS c{i}" for i in range(33)]).write.parquet(str(tmp_path / "t"))
    with pytest.raises(errors.InputError, match=r"33.*32"):
        zskip.table(spark, str(tmp_path / "t")).optimize(by=[f"c{i}" for i in range(33)], files=2)


def test_nothing_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(errors.TableNotFoundError, match="nowhere"):
        zskip.table(spark, str(tmp_path / "nowhere")).optimize(by=["a", "b"], files=2)
    with pytest.raises(errors.TableNotFoundError, match="nowhere"):
        zskip.open(str(tmp_path / "nowhere")).files()
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.TableNotFoundError, match="empty"):
        zskip.table(spark, str(tmp_path / "empty")).df()


def test_a_corrupt_file_among_good_ones(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    bad = path / "part-00003.parquet"
    bad.write_bytes(bad.read_bytes()[:5000])
    before = everything(path)
    with pytest.raises(errors.CorruptFileError, match="part-00003"):
        zskip.table(spark, str(path)).optimize(by=["id", "user"], files=2)
    assert everything(path) == before


def test_mixed_schemas_are_refused_unless_the_session_merges(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t", files=2)
    pq.write_table(pa.table({"id": [tables.ROWS], "extra": ["x"]}), path / "part-99999.parquet")
    table = zskip.table(spark, str(path))
    with pytest.raises(errors.UnsupportedError, match=r"mergeSchema"):
        table.optimize(by=["id", "user"], files=2)
    spark.conf.set("spark.sql.parquet.mergeSchema", "true")
    try:
        table.optimize(by=["id", "user"], files=2)
        merged = spark.read.parquet(str(path))
        assert merged.where("extra = 'x'").count() == 1
        assert merged.count() == tables.ROWS + 1
    finally:
        spark.conf.unset("spark.sql.parquet.mergeSchema")


def test_files_of_conflicting_types_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t", files=2)
    odd = tables.events(10).set_column(0, "id", pa.array([str(i) for i in range(10)]))
    pq.write_table(odd, path / "part-99999.parquet")
    before = everything(path)
    with pytest.raises(errors.UnsupportedError, match="id"):
        zskip.table(spark, str(path)).optimize(by=["id", "user"], files=2)
    assert everything(path) == before


def test_into_a_place_that_is_taken(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    other = tables.make_events(tmp_path / "other")
    for target in (other, path):
        with pytest.raises(errors.ZskipError, match=str(target)):
            zskip.table(spark, str(path)).optimize(by=["id", "user"], files=2, into=str(target))
    assert len(tables.visible(other)) == len(tables.visible(path)) == 6


def test_a_log_of_a_later_version_is_not_touched(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    table = zskip.table(spark, str(path))
    table.optimize(by=["id", "user"], files=2)
    entry = next(f for f in (path / "_zskip" / "log").iterdir() if f.suffix == ".json")
    later = entry.with_name(f"{2:020d}.json")
    later.write_text(entry.read_text().replace('"format": 1', '"format": 99').replace('"format":1', '"format":99'))
    assert later.read_text() != entry.read_text()
    with pytest.raises(errors.ZskipError, match="99"):
        table.optimize(by=["id", "user"], files=2)


def test_without_spark_the_table_says_what_it_needs(tmp_path: Path) -> None:
    table = zskip.open(str(tables.make_events(tmp_path / "t")))
    for call in (table.df, lambda: table.optimize(by=["id", "user"])):
        with pytest.raises(errors.ZskipError, match=r"zskip\.table\(spark"):
            call()


def test_where_of_files_names_the_column(tmp_path: Path) -> None:
    table = zskip.open(str(tables.make_events(tmp_path / "t")))
    with pytest.raises(errors.ColumnError, match='did you mean "user"'):
        table.files("usr = 3")
    with pytest.raises(errors.PredicateError, match="user ="):
        table.files("user = ")


DEEP = {
    "parentheses": "(" * 10_000 + "id < 100" + ")" * 10_000,
    "not": "NOT " * 10_000 + "id < 100",
    "not in parentheses": "NOT (" * 10_000 + "id < 100" + ")" * 10_000,
    "and": " AND ".join(["id < 100"] * 10_000),
    "or": " OR ".join(["id < 100"] * 10_000),
    "and and or": "".join(f"(id < 100 {('OR', 'AND')[i % 2]} " for i in range(10_000)) + "id < 100" + ")" * 10_000,
    "sums": "id" + " + 0" * 10_000 + " < 100",
    "sums in parentheses": "(" * 10_000 + "id" + " + 0)" * 10_000 + " < 100",
    "in": f"id IN ({', '.join(map(str, range(10_000)))})",
}


@pytest.fixture(scope="module")
def sorted_ids(tmp_path_factory: pytest.TempPathFactory) -> zskip.Table:
    """Sixty files of a hundred rows each, sorted by `id`."""
    path = tmp_path_factory.mktemp("deep") / "t"
    path.mkdir()
    rows = tables.events().sort_by("id")
    for i in range(60):
        pq.write_table(rows.slice(100 * i, 100), path / f"part-{i:02d}.parquet")
    table = zskip.open(str(path))
    table.index()
    return table


@pytest.mark.parametrize("name", tiers.first(DEEP))
def test_deep_expressions_of_text(sorted_ids: zskip.Table, name: str) -> None:
    kept = sorted_ids.files(DEEP[name])
    assert any(file.endswith("part-00.parquet") for file in kept)
    assert sorted_ids.prune(DEEP[name]).files == len(kept)
    explained = sorted_ids.explain(DEEP[name])
    assert explained.steps[-1].files == len(kept)
    assert len(str(explained)) < 1_000_000
    if name in ("and", "or"):
        assert len(kept) == 1


@pytest.mark.slow  # Spark plans each depth again.
def test_deep_expressions_of_spark(spark: SparkSession, sorted_ids: zskip.Table) -> None:
    """As deep as Spark goes; where it gives up, so does a query through zskip, and no sooner."""
    table = zskip.table(spark, sorted_ids.path)
    plain, pruned = spark.read.parquet(sorted_ids.path), table.df()
    less, column = F.col("id") < 100, F.col("id")
    steps = {
        "or": lambda c, i: c | (column == i),
        "and": lambda c, i: c & (column != -i),
        "not": lambda c, i: ~(c | (column == -i)),
        "and and or": lambda c, i: (c & (column != -i)) if i % 2 else (c | (column == i)),
    }
    for name, step in steps.items():
        for depth in (50, 300):
            condition = less
            for i in range(depth):
                condition = step(condition, i)
            try:
                expected = plain.where(condition).count()
            except Exception as error:
                if "StackOverflow" not in str(error):
                    raise
                break
            assert pruned.where(condition).count() == expected, (name, depth)
        else:
            continue
        assert depth > 50, name
    added = column
    for _ in range(200):
        added = added + F.col("user") * 0
    assert pruned.where(added < 100).count() == plain.where(added < 100).count()
