"""Columns, partitions, directories and values whose names need quotes, escapes or luck."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import tiers
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from written_by import written_by

import zskip

NAMES = [
    "a b",
    "a.b",
    "a`b",
    "ü日本",
    "it's",
    'say "x"',
    "new\nline",
    "100%",
    "%41+",
    "back\\slash",
    "{$1}",
    "a=b,(c);",
]
VALUES = [
    "it's",
    'say "x"',
    "back\\slash",
    "\\",
    "100%",
    "a_b",
    "%",
    "_",
    "a`b",
    "ü日本",
    "new\nline",
    "\\%",
    "''",
    "-- x",
]
DIRECTORIES = ["a b", "100%", "%41+", "ü日本", "it's", "a.b", "{x}", "a`b", "#1?", "x=y"]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A column of each odd name, and each odd value; partitions by one of the names."""
    path = tmp_path_factory.mktemp("odd") / "t %41+'"
    count = len(VALUES)
    texts = F.array(*[F.lit(value) for value in VALUES])
    columns = [(F.col("id") * (i + 1)).alias(name) for i, name in enumerate(NAMES)]
    value = F.element_at(texts, (F.col("id") % count + 1).cast("int")).alias("v")
    part = F.element_at(texts, (F.col("id") % 3 + 1).cast("int")).alias("p.q `r`=%41")
    spark.range(0, 420, 1, 2).select("id", *columns, value, part).write.partitionBy("p.q `r`=%41").parquet(str(path))
    return path


@pytest.fixture(scope="module")
def clustered(spark: SparkSession, odd: Path) -> zskip.Table:
    """Clustered by two of the odd names."""
    table = zskip.table(spark, str(odd))
    table.optimize(by=["a`b", "new\nline"], files=4)
    return table


def test_each_name_clusters(spark: SparkSession, odd: Path, clustered: zskip.Table, tmp_path: Path) -> None:
    before = rows(spark.read.parquet(str(odd)))
    target = tmp_path / "copy %41"
    for start in range(0, len(NAMES), 4):
        into = target / str(start)
        clustered.optimize(by=NAMES[start : start + 4], files=2, into=str(into))
        assert rows(spark.read.parquet(str(into))) == before
    assert rows(clustered.df()) == before
    assert {c.column for c in clustered.info().clustering} == {"a`b", "new\nline"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_each_name_in_predicates(spark: SparkSession, odd: Path, clustered: zskip.Table, name: str) -> None:
    number = NAMES.index(name) + 1
    where = f"{quoted(name)} < {10 * number}"
    found = clustered.df().where(where)
    assert [row.id for row in found.orderBy("id").collect()] == list(range(10))
    assert clustered.last_scan is not None
    assert clustered.last_scan.files < clustered.last_scan.files_total
    kept = clustered.files(where)
    assert 0 < len(kept) == clustered.last_scan.files
    assert [Path(file).exists() for file in kept] == [True] * len(kept)
    explained = clustered.explain(where)
    assert explained.steps[-1].files == len(kept)
    (clustering,) = clustered.info(by=[name]).clustering
    assert clustering.column == name
    assert found.where(F.col(quoted(name)) == 3 * number).count() == 1


def test_names_of_partitions_in_predicates(spark: SparkSession, odd: Path, clustered: zskip.Table) -> None:
    column = quoted("p.q `r`=%41")
    plain = spark.read.parquet(str(odd))
    for value in [*VALUES[:3], "none"]:
        where = f"{column} = {literal(value)}"
        assert rows(clustered.df().where(where)) == rows(plain.where(where))
        assert clustered.last_scan is not None
        assert len(clustered.files(where)) == clustered.last_scan.files < clustered.last_scan.files_total
    before = rows(plain)
    clustered.optimize(by=["id", "a.b"], files=2, where=f"{column} = {literal(VALUES[1])}")
    assert rows(clustered.df()) == before


@pytest.mark.scaled
def test_values_with_quotes_and_wildcards(spark: SparkSession, odd: Path, clustered: zskip.Table) -> None:
    plain, pruned, column = spark.read.parquet(str(odd)), clustered.df(), F.col("v")
    files = dict(plain.select("id", "_metadata.file_path").collect())
    for value in VALUES[: tiers.count(len(VALUES), quick=4)]:
        wheres = [f"v = {literal(value)}", f"v LIKE {literal(value.replace(chr(92), chr(92) * 2))}"]
        wheres += [f"v LIKE {literal(c + '_%')} ESCAPE '!'" for c in value[:1] if c not in "%_"]
        where = " OR ".join(f"({w})" for w in wheres)
        conditions = [F.expr(where), column == value, column.startswith(value), column.contains(value)]
        conditions.append(column.isin(value, "?"))
        expected = each(plain, conditions)
        assert each(pruned, conditions) == expected
        names = {files[row.id] for row in expected if row.number == 0}
        assert 0 < len(names) <= len(clustered.files(where))


def each(frame: DataFrame, conditions: list[Column]) -> list[Row]:
    """The rows that meet each condition, from a scan of its own, as one query."""
    parts = [frame.where(c).select("id", "v", F.lit(i).alias("number")) for i, c in enumerate(conditions)]
    return sorted(reduce(DataFrame.union, parts).collect())


def own_names() -> list[str]:
    """The names that zskip gives to columns beside those of a table, in two spellings."""
    source = Path(zskip.__file__).parent
    texts = [file.read_text(encoding="utf-8") for room in ("spark", "table") for file in (source / room).rglob("*.py")]
    found = re.findall(r'"(_*zskip_\w*[a-z])(_\{i\})?"', "\n".join(texts))
    names = sorted({name + numbered.replace("{i}", "0") for name, numbered in found})
    assert "__zskip_partition" in names
    assert "__zskip_key_0" in names
    return [name.upper() if i % 2 else name for i, name in enumerate(names)]


@pytest.mark.parametrize("partitioned", tiers.first([False, True]))
def test_columns_with_names_of_our_own(spark: SparkSession, tmp_path: Path, partitioned: bool) -> None:
    names, path = own_names(), str(tmp_path / "t")
    columns = [f"id * {i + 2} AS {name}" for i, name in enumerate(names)]
    part = "__ZSKIP_partition" if partitioned else "p"
    if partitioned:
        columns = [column for column in columns if not column.lower().endswith(" __zskip_partition")]
    frame = spark.range(0, 200, 1, 3).selectExpr(
        "id a", *columns, "concat('s', id % 13) t", f"int(id % 2) {part}", "-id z"
    )
    new = frame.selectExpr(*(f"{c} + 200 {c}" if c == "a" else c for c in frame.columns))
    zskip.write(frame, path, by=["a", names[0]], files=2, partition_by=[part])
    expected = rows(frame)
    table = zskip.table(spark, path)
    table.optimize(by=["lower(t)", "z"], files=2)
    with written_by("spark"):
        table.optimize(by=["a", "z"], files=2)
    assert rows(spark.read.parquet(path).select(frame.columns)) == expected
    table.append(new)
    table.append(new)
    table.compact(target_file_size="1MB")
    assert rows(spark.read.parquet(path).select(frame.columns)) == sorted([*expected, *rows(new), *rows(new)])


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE DATABASE odd_names LOCATION {literal((tmp_path / 'db %41').as_uri())}")
    spark.sql("USE odd_names")
    yield "odd_names"
    spark.sql("USE default")
    spark.sql("DROP DATABASE odd_names CASCADE")


@pytest.mark.slow
@pytest.mark.scaled
def test_directories(spark: SparkSession, tmp_path: Path) -> None:
    """Through Python, and through SQL by path."""
    frame = spark.range(0, 300, 1, 2).selectExpr("id", "id % 7 AS v")
    for i, name in enumerate(DIRECTORIES[: tiers.count(len(DIRECTORIES), quick=4)]):
        path = tmp_path / name / "t"
        frame.write.parquet(str(path))
        if i % 2:
            zskip.table(spark, str(path)).optimize(by=["id", "v"], files=3)
        else:
            zskip.sql(spark, f"OPTIMIZE {literal(str(path))} ZORDER BY (id, v) WITH (files = 3)")
        table = zskip.table(spark, str(path))
        assert len(table.df().where("id < 5").collect()) == 5
        assert table.last_scan is not None
        assert table.last_scan.files < table.last_scan.files_total
        kept = table.files("id < 5")
        assert len(kept) == table.last_scan.files
        assert zskip.open(str(path)).files("id < 5") == kept
        # Brackets in a path are a pattern to Spark's own reader.
        plain = spark.read.parquet(str(path).replace("{", "\\{").replace("}", "\\}"))
        assert plain.count() == table.df().count() == 300


@pytest.mark.slow
def test_columns_in_statements(spark: SparkSession, database: str, tmp_path: Path) -> None:
    """A table of the catalog, its location and its columns."""
    location = tmp_path / "it's 100%+" / "x"
    columns = ", ".join(f"id * {i + 1} AS {quoted(name)}" for i, name in enumerate(NAMES))
    spark.sql(f"SELECT id, {columns} FROM range(0, 300, 1, 2)").write.parquet(str(location))
    spark.sql(f"CREATE TABLE strange USING parquet LOCATION {literal(str(location))}")
    by = ", ".join(map(quoted, NAMES))
    metrics = zskip.sql(spark, f"OPTIMIZE odd_names.strange ZORDER BY ({by}) WITH (files = 4)")
    assert metrics.count() == 1
    for i, name in enumerate(NAMES):
        query = f"SELECT id FROM strange WHERE {quoted(name)} < {5 * (i + 1)}"
        assert [row.id for row in zskip.sql(spark, query).orderBy("id").collect()] == list(range(5))
    explained = zskip.sql(spark, f"EXPLAIN SKIPPING SELECT id FROM strange WHERE {quoted('a`b')} < 15").collect()
    assert any("`a``b`" in row.step and row.skipped > 0 for row in explained)
    assert zskip.table(spark, str(location)).verify(f"{quoted('new' + chr(10) + 'line')} < 70").ok
    verified = zskip.sql(spark, f"VERIFY strange WHERE {quoted('it' + chr(39) + 's')} < 70").collect()
    assert verified


ESCAPED = {
    "%C3%A9": ("é", "Ã©"),
    "%C3%A9%3D1": ("é=1", "Ã©=1"),
    "%E4%B8%8A": ("上",),
    "b%20c": ("b c",),
    "ü": ("ü",),
    "a": ("a",),
}
"""Directories as pyarrow, Polars and delta-rs escape them; what those read, and what Spark reads if that differs."""


def test_directories_that_engines_read_differently_are_kept_for_both(spark: SparkSession, tmp_path: Path) -> None:
    for number, directory in enumerate(ESCAPED):
        (tmp_path / f"p={directory}").mkdir()
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"p={directory}" / "0.parquet")
    table = zskip.open(str(tmp_path))
    others = ds.dataset(tmp_path, partitioning=ds.partitioning(flavor="hive", schema=pa.schema({"p": pa.string()})))
    with_session, by_spark = zskip.table(spark, str(tmp_path)), spark.read.parquet(str(tmp_path)).collect()
    values = [(number, value) for number, values in enumerate(ESCAPED.values()) for value in values]
    before = [table.files(f"p = '{value}'") for _, value in values]
    table.index()
    assert [table.files(f"p = '{value}'") for _, value in values] == before
    for number, value in values:
        where = f"p = '{value}'"
        assert [Path(file).parent.name for file in table.files(where)] == [f"p={list(ESCAPED)[number]}"]
        rows = [row for row in by_spark if row.p == value]
        by_others = others.to_table(filter=ds.field("p") == value)["id"].to_pylist()
        assert {row.id for row in rows} | set(by_others) == {number}
        assert with_session.df().where(where).collect() == rows
        assert len(with_session.files(where)) == len(rows)
    kept = [Path(file).parent.name for file in table.files("p > 'zz'")]
    assert sorted(kept) == ["p=%C3%A9", "p=%C3%A9%3D1", "p=%E4%B8%8A", "p=ü"]
