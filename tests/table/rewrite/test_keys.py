"""Expressions and fields of structs as clustering columns: rows lie as by stored ones, filters prune, answers stay."""

from __future__ import annotations

import itertools
import shutil
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest
import tiers
from pyspark.sql import DataFrame, SparkSession
from written_by import written_by

import zskip
from zskip.errors import ColumnError, InputError, ZskipWarning
from zskip.spark.collect import sketching
from zskip.table import refresh_index
from zskip.table.index_binding import load_index
from zskip.table.optimize_request import check_request
from zskip.table.version import read_snapshot

pytestmark = pytest.mark.spark
ROWS = 4_000
EVENTS = """
    SELECT id,
           timestamp_seconds(1700000000 + pmod(hash(id), 400) * 86400 + pmod(id, 86400)) AS ts,
           IF(id % 11 = 0, NULL, concat(IF(id % 2 = 0, 'User', 'uSER'), pmod(hash(id, 1), 500))) AS email,
           IF(id % 13 = 0, 'no JSON', to_json(named_struct('a', lpad(CAST(pmod(hash(id, 2), 900) AS STRING), 3, '0'),
               'n', pmod(hash(id, 3), 1000) / 8))) AS js,
           map('k', pmod(hash(id, 4), 700), 'z', 1) AS m,
           IF(id % 17 = 0, NULL, named_struct(
               'a', IF(id % 14 = 0, NULL, CAST(pmod(hash(id, 1), 1000) AS INT)),
               'c', named_struct('d', concat('K', lpad(CAST(pmod(hash(id, 2), 500) AS STRING), 3, '0')),
                                 'x.y', CAST(pmod(hash(id, 3), 300) AS DECIMAL(9, 2)) / 4))) AS st,
           array(CAST(id AS STRING)) AS tags
    FROM range({start}, {end}, 1, {files})
"""
KEYS = {
    "date(ts)": "date(ts)",
    "get_json_object(js, '$.a')": "get_json_object(js, '$.a')",
    "id % 100": "id % 100",
    "lower(email)": "lower(email)",
    "CAST(get_json_object(js, '$.n') AS DOUBLE)": "try_cast(get_json_object(js, '$.n') AS DOUBLE)",
    "pmod(hash(id), 64)": "pmod(hash(id), 64)",
    "element_at(m, 'k')": "element_at(m, 'k')",
    "lower(st.c.d)": "lower(st.c.d)",
    "length(email)": "length(email)",
}
"""Keys, and the same in Spark's SQL."""


def events(spark: SparkSession, start: int = 0, rows: int = ROWS, files: int = 8) -> DataFrame:
    return spark.sql(EVENTS.format(start=start, end=start + rows, files=files))


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


def ids_of_files(spark: SparkSession, path: Path) -> list[list[int]]:
    """The ids in each file, without the order of files."""
    files = spark.read.parquet(str(path)).selectExpr("input_file_name() AS file", "id").collect()
    ids: dict[str, list[int]] = {}
    for row in files:
        ids.setdefault(row.file, []).append(row.id)
    return sorted(sorted(group) for group in ids.values())


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Path:
    events(spark).write.parquet(str(tmp_path / "t"))
    return tmp_path / "t"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writer", "curve"), tiers.nightly([("arrow", "zorder"), ("spark", "hilbert"), ("arrow", "hilbert")])
)
def test_rows_lie_as_by_stored_columns(spark: SparkSession, tmp_path: Path, writer: str, curve: str) -> None:
    by = ["date(ts)", "ST.c.d", "pmod(hash(id), 64)"]
    plain = [f"{key} AS k{i}" for i, key in enumerate(by)]
    events(spark).write.parquet(str(tmp_path / "keys"))
    events(spark).selectExpr("*", *plain).write.parquet(str(tmp_path / "plain"))
    table = zskip.table(spark, str(tmp_path / "keys"))
    with written_by(writer):
        zskip.table(spark, str(tmp_path / "plain")).optimize(by=["k0", "k1", "k2"], files=12, curve=curve)
        result = table.optimize(by=by, files=12, curve=curve)
    assert (result.by, result.writer) == (("CAST(ts AS DATE)", "st.c.d", "pmod(hash(id), 64)"), writer)
    assert ids_of_files(spark, tmp_path / "keys") == ids_of_files(spark, tmp_path / "plain")
    assert table.df().columns == events(spark).columns
    assert rows_of(table.df()) == rows_of(events(spark))
    assert table.verify(queries=2).ok


WHERES = [
    "date(ts) = DATE '2024-06-01'",
    "ts < TIMESTAMP '2023-11-20 00:00:00'",
    "get_json_object(js, '$.a') >= '850'",
    "get_json_object(js, '$.a') IS NULL AND date(ts) > DATE '2024-11-01'",
    "st.a BETWEEN 100 AND 150",
    "NOT (st.a < 900)",
    "st.a < 100 AND st.c.d >= 'K400'",
    "st.a IS NULL",
    "st IS NULL OR st.a = 3",
    "st.c.`x.y` > 70.25",
]


def rows_by_filter(frame: DataFrame, wheres: list[str]) -> list[str]:
    """The rows that meet each filter, from scans of their own, in one query."""
    parts = (frame.where(where).selectExpr(f"{i} AS i", "id", "to_json(st)") for i, where in enumerate(wheres))
    return rows_of(reduce(DataFrame.unionAll, parts))


@pytest.mark.parametrize(
    ("writer", "curve"), tiers.nightly([("arrow", "zorder"), ("spark", "hilbert"), ("arrow", "hilbert")])
)
def test_filters_on_keys_prune(spark: SparkSession, path: Path, writer: str, curve: str) -> None:
    expected = rows_by_filter(spark.read.parquet(str(path)), WHERES)
    table, by = zskip.table(spark, str(path)), ("CAST(ts AS DATE)", "get_json_object(js, '$.a')", "st.a")
    with written_by(writer):
        result = table.optimize(by=["date(ts)", "get_json_object(js, '$.a')", "ST.a"], files=16, curve=curve)
    assert (result.by, result.writer, result.rows) == (by, writer, ROWS)
    assert 0 < result.predicted_share_after < 1
    assert rows_by_filter(table.df(), WHERES) == expected
    assert max(len(table.files(where)) for where in WHERES[:6]) < result.files_after
    assert len(table.files("st.a < 100 AND date(ts) = DATE '2024-06-01'")) <= result.files_after / 2
    assert [part.column for part in table.info().clustering] == list(table.info().layout.by) == list(by)
    assert table.verify(queries=1).ok


@pytest.mark.nightly
@pytest.mark.parametrize("key", KEYS)
def test_filters_on_a_key_prune(spark: SparkSession, path: Path, key: str) -> None:
    spark_sql, table = KEYS[key], zskip.table(spark, str(path))
    table.optimize(by=[key], curve="linear", files=16)
    rows = spark.read.parquet(str(path)).selectExpr(f"{spark_sql} AS k").where("k IS NOT NULL").orderBy("k").collect()
    value = rows[len(rows) // 2].k
    text = f"{value}D" if isinstance(value, float) else str(value) if isinstance(value, int) else f"'{value}'"
    text = f"DATE {text}" if key == "date(ts)" else text
    for where in (f"{spark_sql} = {text}", f"{spark_sql} > {text}", f"{spark_sql} IN ({text})", f"{spark_sql} IS NULL"):
        expected = rows_of(spark.read.parquet(str(path)).where(where))
        assert rows_of(table.df().where(where)) == expected
    wide = key in ("id % 100", "length(email)")
    assert len(table.files(f"{spark_sql} = {text}")) <= (14 if wide else 3)
    table.df().where(f"{spark_sql} = {text}").collect()
    scan = table.last_scan
    assert scan is not None
    assert scan.files <= (14 if wide else 3)
    assert [part.column for part in table.info().clustering] == list(table.info().layout.by)
    assert table.verify(queries=2).ok


@pytest.mark.slow
@pytest.mark.parametrize("key", tiers.nightly(["lower(email)", "date(ts)", "pmod(hash(id), 64)"]))
def test_the_first_rows_of_an_expression(spark: SparkSession, path: Path, key: str) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(by=[key], curve="linear", files=16)
    table.df().createOrReplaceTempView("expression_keys")
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for order, other in itertools.product(("DESC", "ASC NULLS LAST", "ASC"), (zone, "Asia/Tokyo")):
            query = f"SELECT {KEYS[key]} AS k FROM {{}} WHERE id >= 0 ORDER BY {KEYS[key]} {order} LIMIT 7"
            spark.conf.set("spark.sql.session.timeZone", other)
            expected = spark.sql(query.format(f"parquet.`{path}`")).collect()
            assert spark.sql(query.format("expression_keys")).collect() == expected
            assert table.last_scan is not None
            assert table.last_scan.files < 8
            with zskip.enabled(spark):
                assert spark.sql(query.format(f"parquet.`{path}`")).collect() == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.catalog.dropTempView("expression_keys")


@pytest.mark.slow
@pytest.mark.parametrize("broadcast", ["-1", "10MB"], ids=["key query", "broadcast"])
def test_joins_by_an_expression(spark: SparkSession, path: Path, broadcast: str) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(by=["lower(email)"], curve="linear", files=16)
    names = {"spark.zskip.joins": "always", "spark.sql.autoBroadcastJoinThreshold": broadcast}
    before = {name: spark.conf.get(name, None) for name in names}
    dims = "SELECT * FROM VALUES ('user77'), ('user78'), ('none') AS dims(k)"
    spark.sql(dims).createOrReplaceTempView("expression_dims")
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        for on in ("lower(e.email) = d.k", "e.low = d.k"):
            events = f"(SELECT *, lcase(email) AS low FROM {{}}) e JOIN expression_dims d ON {on}"
            query = f"SELECT e.id, d.k FROM {events} ORDER BY 1"
            table.df().createOrReplaceTempView("expression_keys")
            expected = spark.sql(query.format(f"parquet.`{path}`")).collect()
            assert expected
            assert spark.sql(query.format("expression_keys")).collect() == expected
            assert table.last_scan is not None
            assert table.last_scan.files <= 3
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
        spark.catalog.dropTempView("expression_dims")
        spark.catalog.dropTempView("expression_keys")


def test_a_cast_inside_a_key_of_a_join_is_part_of_it(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(0, 400, 1, 4).selectExpr("CAST(id AS INT) AS i").write.parquet(path)
    table = zskip.table(spark, path)
    table.optimize(by=["hash(i)"], curve="linear", files=8)
    spark.conf.set("spark.zskip.joins", "always")
    try:
        for on, suffix in {"hash(CAST(e.i AS BIGINT))": "L", "hash(e.i)": ""}.items():
            table.df().createOrReplaceTempView("hashed_keys")
            keys = f"(SELECT * FROM VALUES (hash(7{suffix})), (hash(9{suffix})) AS d(k))"
            query = f"SELECT e.i FROM hashed_keys e JOIN {keys} d ON {on} = d.k ORDER BY 1"
            assert [row.i for row in spark.sql(query).collect()] == [7, 9]
    finally:
        spark.conf.unset("spark.zskip.joins")
        spark.catalog.dropTempView("hashed_keys")


VARIANTS = {
    "v:a::int": ["v:a::int = 300", "variant_get(v, '$.a', 'int') = 300", "try_variant_get(v, '$[\"a\"]', 'int') = 300"],
    "variant_get(v, '$.s', 'string')": ["v:s::string = 's300'", "CAST(v:s AS STRING) >= 's895'"],
    "lower(variant_get(v, '$.s', 'string'))": ["lower(v:s::string) = 's300'"],
    "st.v:b.c[0]::decimal(9,2)": [
        "st.v:b.c[0]::decimal(9,2) = 300.25",
        "try_variant_get(st.v, '$.b.c[0]', 'decimal(9,2)') < 2",
    ],
}
"""Paths into variants, and filters that mean the same."""
VARIANT_EVENTS = """
    SELECT id,
           parse_json(to_json(named_struct('a', pmod(hash(id), 900), 's', concat('s', pmod(hash(id, 1), 900))))) AS v,
           IF(id % 7 = 0, NULL, named_struct('v', parse_json(
               to_json(named_struct('b', named_struct('c', array(pmod(hash(id, 2), 900) + 0.25))))))) AS st
    FROM range({start}, {end}, 1, 8)
"""
needs_variants = pytest.mark.skipif(pyspark.__version__ < "4", reason="variants come with Spark 4.0")


def variant_events(spark: SparkSession, start: int = 0) -> DataFrame:
    return spark.sql(VARIANT_EVENTS.format(start=start, end=start + ROWS))


@pytest.mark.slow
@needs_variants
@pytest.mark.parametrize("key", tiers.nightly(VARIANTS))
def test_paths_into_variants(spark: SparkSession, tmp_path: Path, key: str) -> None:
    path = str(tmp_path / "t")
    variant_events(spark).write.parquet(path)
    table = zskip.table(spark, path)
    assert table.optimize(by=[key], curve="linear", files=16).writer == "spark"
    for where in VARIANTS[key]:
        expected = rows_of(spark.read.parquet(path).where(where))
        assert expected
        assert rows_of(table.df().where(where)) == expected
        assert table.last_scan is not None
        assert table.last_scan.files <= 3, where
        assert len(table.files(where)) <= 3
        with zskip.enabled(spark):
            assert rows_of(spark.read.parquet(path).where(where)) == expected
    assert table.append(variant_events(spark, ROWS)).by == table.info().layout.by
    assert table.verify(queries=2).ok


@pytest.mark.slow
@needs_variants
def test_an_extraction_of_another_type_is_another_one(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    number = "parse_json(CAST(IF(id % 2 = 0, id, id + 5000000000) AS STRING)) AS v"
    spark.range(0, 400, 1, 4).selectExpr("id", number).write.parquet(path)
    table = zskip.table(spark, path)
    table.optimize(by=["try_variant_get(v, '$', 'int')"], curve="linear", files=4)
    table.index(sketches=["values(500):v::bigint", "ranges(4):v::string"])
    for where in (
        "CAST(try_variant_get(v, '$', 'int') AS BIGINT) IS NULL",
        "v::bigint > 5000000000",
        "try_variant_get(v, '$', 'int') IS NULL AND v::bigint IS NOT NULL",
        "CAST(try_variant_get(v, '$', 'int') AS STRING) = '8'",
        "try_variant_get(v, '$', 'double') = 5000000001",
    ):
        expected = rows_of(spark.read.parquet(path).where(where))
        assert expected
        assert rows_of(table.df().where(where)) == expected


def test_new_rows_follow_the_layout(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(by=["lower(email)", "st.a"], files=8)
    by = ("lower(email)", "st.a")
    assert table.append(events(spark, ROWS)).by == by
    assert len(table.files("lower(email) = 'user77' AND st.a < 50")) < len(table.files()) / 2
    maintenance = table.maintain()
    assert maintenance.by == by
    assert rows_of(table.df()) == rows_of(events(spark, 0, 2 * ROWS))
    layout = table.info().layout
    assert layout is not None
    assert layout.by == by
    table.compact()
    with pytest.raises(InputError, match=r"clustered by lower\(email\), st\.a"):
        zskip.write(events(spark, 3 * ROWS, 10), str(path), by=["id"], curve="linear", mode="append")
    assert table.maintain(by=["lcase(EMAIL)", "ST.A"]).by == by


@pytest.mark.slow
@pytest.mark.parametrize("format_name", tiers.nightly(["delta", "parquet"]))
def test_a_new_table_lies_by_its_keys(spark: SparkSession, tmp_path: Path, format_name: str) -> None:
    path, rows = str(tmp_path / "t"), events(spark).drop("m")
    result = zskip.write(rows, path, by=["lower(email)", "st.c.d"], files=8, format=format_name)
    assert result.by == ("lower(email)", "st.c.d")
    table = zskip.table(spark, path)
    assert rows_of(table.df()) == rows_of(rows)
    assert len(table.files("lower(email) < 'user150' AND st.c.d < 'K100'")) <= 3
    assert table.optimize(by=["st.c.d"], curve="linear", files=4).by == ("st.c.d",)
    assert len(table.files("st.c.d = 'K007'")) == 1
    assert table.append(events(spark, ROWS, 100).drop("m")).rows == 100


@pytest.mark.slow
def test_a_tree_is_cut_for_queries_of_nested_fields(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    workload = [f"st.a BETWEEN {k} AND {k + 20}" for k in range(0, 1000, 50)] + ["st.c.d = 'K100'"]
    advice = table.advise(workload=workload, files=16)
    assert advice.best.by[0] == "st.a"
    predicted = table.what_if(by=["st.a", "st.c.d"], workload=workload, files=16)
    result = table.optimize(by="auto", workload=workload, files=16)
    assert result.by[0] == "st.a"
    kept = np.mean([len(table.files(where)) for where in workload]) / result.files_after
    assert kept < 0.35
    assert predicted.kept < 0.35
    layout = table.info().layout
    assert layout is not None
    assert layout.by[0] == "st.a"


@pytest.mark.slow
def test_a_name_with_a_dot_is_the_column_of_that_name(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    events(spark).selectExpr("*", "m['k'] AS `st.a`").write.parquet(path)
    table = zskip.table(spark, path)
    for by, name in {"st.a": "st.a", "`st.a`": "st.a", "`st`.a": "`st`.`a`", "st.c.d": "st.c.d"}.items():
        assert table.optimize(by=[by], curve="linear", files=4).by == (name,)
        layout = table.info().layout
        assert layout is not None
        assert layout.by == (name,)
        assert table.maintain().by == (name,)
    assert len(table.files("st.c.d = 'K007'")) == 1


AWKWARD = """
    SELECT id, CAST(element_at(array(DATE '1500-02-03', DATE '2024-02-29'), CAST(id % 2 + 1 AS INT)) AS DATE) AS d,
           timestamp_seconds(1700000000 + pmod(hash(id), 40000) * 3600) AS ts,
           element_at(array('', 'ÉA', NULL, repeat('Zz', 300), 'o', 'ß'), CAST(pmod(hash(id), 6) + 1 AS INT)) AS s,
           map(IF(id % 7 = 0, 'x', 'k'), DATE '1400-01-01' + CAST(pmod(hash(id, 1), 400000) AS INT)) AS days,
           map('k', element_at(array(0D, -0D, double('NaN'), NULL, -1.5D), CAST(id % 5 + 1 AS INT))) AS doubles,
           map('k', CAST(pmod(hash(id, 2), 99999) / 100 - 300 AS DECIMAL(7, 2))) AS cents,
           map('k', CAST(hash(id, 3) AS DECIMAL(20, 1))) AS wide,
           map('k', IF(id < 0, '', NULL)) AS nulls
    FROM range({start}, {end}, 1, 4)
"""
EXACT = [
    "lower(s)", "pmod(hash(id), 64)", "element_at(days, 'k')", "element_at(doubles, 'k')", "element_at(cents, 'k')",
    "element_at(nulls, 'k')", "month(d)", "hour(ts)",
]  # fmt: skip
INEXACT = "element_at(wide, 'k')"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*nulls.* is null in 100 %:zskip.errors.ZskipWarning")
def test_bounds_come_with_the_rows(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[str] = []
    build = sketching.build_sketches

    def build_sketches(snapshot: Any, read: Any, sketches: Any, *rest: Any, **options: Any) -> Any:
        jobs.extend(str(on).removeprefix("ranges(1):") for on in sketches)
        return build(snapshot, read, sketches, *rest, **options)

    def awkward(start: int) -> DataFrame:
        return spark.sql(AWKWARD.format(start=start, end=start + 500))

    def states(table: zskip.Table) -> dict[str, list[bytes | None]]:
        snapshot, index = read_snapshot(table._handle), load_index(table._handle)
        assert index is not None
        bound = index.sketches(snapshot)
        return {record.spec: bound.blobs(record, on) for record, on in bound.sketches}

    def check(table: zskip.Table) -> None:
        """The states are those that a job builds of the same files."""
        specs, before = [f"ranges(1):{key}" for key in (*EXACT, INEXACT)], states(table)
        assert set(before) == set(specs)
        jobs.clear()
        shutil.rmtree(tmp_path / "t" / "_zskip" / "index")
        table.index(sketches=specs)
        assert states(table) == before
        assert jobs == [INEXACT]
        with monkeypatch.context() as patch:
            patch.setattr(refresh_index, "_states_in_footers", lambda *given: [{} for _ in given[2]])
            table.index(sketches=specs, drop=specs)
        assert states(table) == before
        assert all(None not in before[spec] for spec in specs if spec != "ranges(1):month(d)")
        jobs.clear()

    monkeypatch.setattr(sketching, "build_sketches", build_sketches)
    zone, path, by = str(spark.conf.get("spark.sql.session.timeZone")), str(tmp_path / "t"), [*EXACT, INEXACT]
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        zskip.write(awkward(0), path, by=by, files=3)
        table = zskip.table(spark, path)
        assert table.optimize(by=by, files=4).writer == "arrow"
        table.append(awkward(500))
        assert jobs == [INEXACT] * 3
        check(table)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        table.append(awkward(1_000))
        assert sorted(jobs) == sorted([INEXACT, "hour(ts)"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_statements_name_keys(spark: SparkSession, path: Path) -> None:
    zskip.sql(spark, f"OPTIMIZE '{path}' ZORDER BY (`st`.c.`x.y`, date(ts), m['k'] % 8)").collect()
    table = zskip.table(spark, str(path))
    by = ("st.c.`x.y`", "CAST(ts AS DATE)", "mod(element_at(m, 'k'), 8)")
    assert table.info().layout.by == by
    assert [one.column for one in table.info(by=["lower(email)", "st.c.`x.y`"]).clustering] == ["st.c.`x.y`"]
    select = f"SELECT * FROM parquet.`{path}`"
    zskip.sql(spark, f"CREATE TABLE '{path}2' CLUSTER BY (lower(email), st.a) AS {select}")
    assert zskip.table(spark, f"{path}2").info().layout.by == ("lower(email)", "st.a")


def test_bad_keys_are_named_with_the_way_out(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    before = sorted(file.name for file in path.glob("*.parquet"))
    for by, message in {
        "rand()": r"rand has another value each time",
        "pmod(hash(id) + rand(), 3)": r"rand has another value each time",
        "sum(id)": "sum is of many rows",
        "(SELECT 1)": r"a query is not of one row. A key is a column, a field of a struct, or an expression .*store",
        "id + (SELECT max(x) FROM other WHERE y = 'select')": "a query is not of one row",
        "EXISTS (SELECT 1 FROM other)": "a query is not of one row",
        "lower(emial)": 'no column "emial" in .*did you mean "email"',
        "lower(st.x)": r'no column "st.x" in .*did you mean "st.',
        "sst.a": 'no column "sst.a" in .*did you mean "st.a"',
        "st": r'"st" of type nested: it has no order; choose its fields, such as st\.a',
        "st.c": r"choose its fields, such as st\.c\.d",
        "tags.element": '"tags.element" leads into what is no struct',
        "no_such_function(id)": "zskip does not know the function no_such_function. One of your own is not in every",
        "lower(own_function(email))": "does not know the function own_function. .*store its values as a column",
        "get_json_object(js, own_function('select'))": "does not know the function own_function",
        "map_keys(m)": "zskip does not know the function, or not of such arguments",
        "CAST(email AS DECIMAL(9, 2))": "zskip does not know the function, or not of such arguments",
        "element_at(m, 'k') +": "no column, and no expression",
        "id % 0": "no column, and no expression",
    }.items():
        for verb in (table.optimize, table.what_if, table.maintain):
            with pytest.raises(ColumnError, match=message):
                verb(by=["id", by])
    with pytest.raises(ColumnError, match=r'"lcase\(EMAIL\)", which is "lower\(email\)", is named twice'):
        table.optimize(by=["lower(email)", "lcase(EMAIL)"])
    with pytest.raises(ColumnError, match=r"\"ST.`A`\", which is \"st.a\", is named twice"):
        table.optimize(by=["st.a", "ST.`A`"])
    assert check_request(by="st.a", curve="zorder").by == ("st.a",)
    assert sorted(file.name for file in path.glob("*.parquet")) == before


@pytest.mark.slow
def test_a_path_that_leads_nowhere_is_warned_of(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    with pytest.warns(ZskipWarning, match=r"get_json_object\(js, '\$\.nope'\) is null in 100 % of the sampled rows"):
        table.optimize(by=["get_json_object(js, '$.nope')", "id"], files=4)
    assert rows_of(table.df()) == rows_of(events(spark))
    with pytest.warns(ZskipWarning, match=r"nope'\) is null in 100 % of the new rows"):
        assert table.append(events(spark, ROWS)).rows == ROWS
    with pytest.warns(ZskipWarning, match=r"lost'\) is null in 100 % of the sampled rows"):
        assert table.maintain(by=["get_json_object(js, '$.lost')"]).batches
    with pytest.warns(ZskipWarning, match=r"nope'\) is null in 100 % of the sampled rows"):
        zskip.write(events(spark), f"{path}2", by=["get_json_object(js, '$.nope')", "id"], files=2)


def test_an_expression_of_a_partition_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    events(spark, rows=600).selectExpr("id", "email", "concat('p', id % 3) AS p").write.partitionBy("p").parquet(
        str(tmp_path / "t")
    )
    table = zskip.table(spark, str(tmp_path / "t"))
    with pytest.raises(ColumnError, match='an expression of the partition column "p"'):
        table.optimize(by=["lower(p)", "id"])
    table.optimize(by=["lower(email)"], curve="linear", files=6)
    assert len(table.files("p = 'p1' AND lower(email) = 'user77'")) < 3


@pytest.mark.slow
@needs_variants
def test_files_whose_variants_are_shredded_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    values = ("named_struct('a', id)", "named_struct('a', 'text', 'b', id / 8)", "array(id)", "named_struct('c', id)")
    for i, value in enumerate(values):
        row = f"parse_json(to_json({value})) AS v"
        frame = spark.range(100 * i, 100 * i + 100, 1, 1).selectExpr("id", row, "named_struct('w', array(v)) AS st")
        frame.write.mode("append").parquet(path)
    before = rows_of(spark.read.parquet(path).selectExpr("id", "to_json(v)", "to_json(st)"))
    table = zskip.table(spark, path)
    assert table.optimize(by=["try_variant_get(v, '$.a', 'int')"], curve="linear", files=4).rows == 400
    assert rows_of(table.df().selectExpr("id", "to_json(v)", "to_json(st)")) == before
    assert len(table.files("try_variant_get(v, '$.a', 'int') BETWEEN 10 AND 20")) == 1
    row = "parse_json(to_json(named_struct('d', id))) AS v"
    table.append(spark.range(400, 401).selectExpr("id", row, "named_struct('w', array(v)) AS st"))
    table.compact()
    assert spark.read.parquet(path).count() == 401


CASTS = ["INT", "BIGINT", "DECIMAL(9,2)", "DECIMAL(38,10)", "BOOLEAN", "DOUBLE"]
ODD_TEXTS = ["12.7", ".", " 7 ", "1e2", "t", "nine", "", "99999999999"]


def casts_of_texts(spark: SparkSession, path: Path) -> None:
    odd = f"element_at(array({', '.join(map(repr, ODD_TEXTS))}), CAST(id % {len(ODD_TEXTS)} + 1 AS INT))"
    # The last files hold odd texts; some of them are an INT where a session does not follow ANSI.
    text = f"IF(id >= 3000, {odd}, CAST(id DIV 10 AS STRING))"
    js = f"to_json(named_struct('n', {text}, 'b', IF(id < 1000, 'true', 'no'))) AS js"
    spark.range(0, 4000, 1, 16).selectExpr("id", js).write.parquet(str(path))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_sketches_of_casts_of_texts(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    path = tmp_path / "t"
    casts_of_texts(spark, path)
    table, before = zskip.table(spark, str(path)), spark.conf.get("spark.sql.ansi.enabled")
    names = {cast: f"get_json_object(js, '$.{'b' if cast == 'BOOLEAN' else 'n'}')" for cast in CASTS}
    kinds = {cast: "values(9)" if cast == "BOOLEAN" else "ranges(8)" for cast in CASTS}
    table.index(sketches=[f"{kinds[cast]}:TRY_CAST({names[cast]} AS {cast})" for cast in CASTS])
    try:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        whole = spark.read.parquet(str(path))
        for cast, form in itertools.product(CASTS, ("try_cast", "cast")):
            term = f"{form}({names[cast]} AS {cast})"
            tests = [f"{term} = 12", f"{term} BETWEEN 100 AND 120", f"{term} IN (0, 7, 290)", f"{term} IS NULL"]
            if cast == "BOOLEAN":
                tests = [f"{term} = true", f"NOT {term}", f"{term} IS NULL"]
            for where in tests:
                try:
                    expected = rows_of(whole.where(where))
                except Exception:
                    assert (ansi, form) == ("true", "cast"), where
                    continue
                assert rows_of(table.df().where(where)) == expected, where
                with zskip.enabled(spark):
                    assert rows_of(spark.read.parquet(str(path)).where(where)) == expected, where
                (scan,) = zskip.scans(spark)
                is_other = (ansi, form) == ("false", "cast") and cast in ("INT", "BIGINT")
                assert scan.files == 16 if is_other else scan.files < 16, where
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_a_cast_of_a_text_is_a_key(spark: SparkSession, tmp_path: Path) -> None:
    casts_of_texts(spark, tmp_path / "t")
    table = zskip.table(spark, str(tmp_path / "t"))
    with pytest.raises(ColumnError, match="no expression that rows can be clustered by"):
        table.optimize(by=["CAST(get_json_object(js, '$.n') AS INT)"], curve="linear", files=8)
    key = "TRY_CAST(get_json_object(js, '$.n') AS INT)"
    assert table.optimize(by=[key.lower()], curve="linear", files=8).by == (key,)
    expected = rows_of(spark.read.parquet(str(tmp_path / "t")).where(f"{key} BETWEEN 100 AND 120"))
    assert rows_of(table.df().where(f"{key} BETWEEN 100 AND 120")) == expected
    assert table.last_scan is not None
    assert table.last_scan.files <= 2


@needs_variants
def test_paths_into_variants_that_a_scan_has_taken_in(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    v = 'parse_json(concat(\'{"a":\', id, \', "s": "x\', id DIV 100, \'", "b": {"c": [\', id DIV 10, \']}}\')) AS v'
    spark.range(0, 3200, 1, 16).selectExpr("id", v, "1 AS one").selectExpr(
        "id", "v", "named_struct('v', v) AS st"
    ).write.parquet(path)
    table = zskip.table(spark, path)
    paths = ["v:a::int", "v:s::string", "st.v:b.c[0]::bigint"]
    table.index(sketches=[f"ranges(4):{one}" for one in paths])
    wheres = {
        "variant_get(v, '$.a', 'int') >= 3000": 1,
        "v:a::int >= 1000 AND v:s::string = 'x12'": 2,
        "st.v:b.c[0]::bigint < 20 OR try_variant_get(v, '$.a', 'int') = 777": 2,
        "v:a::int = 5 AND v IS NOT NULL": 1,
        "try_variant_get(v, '$.s', 'string') IN ('x3', 'x31')": 3,
    }
    frame = spark.read.parquet(path)
    for where, files in wheres.items():
        for columns in (["id"], ["id", "v:s::string AS s", "st.v"], ["count(*)"]):
            expected = rows_of(frame.where(where).selectExpr(*columns))
            with zskip.enabled(spark):
                enabled = spark.read.parquet(path).where(where).selectExpr(*columns)
                assert rows_of(enabled) == expected, where
            (scan,) = zskip.scans(spark)
            assert scan.files <= files, where
            assert rows_of(table.df().where(where).selectExpr(*columns)) == expected
