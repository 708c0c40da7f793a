"""Fields inside structs as clustering columns: in every verb; filters on them prune, and answers stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiers
from pyspark.sql import DataFrame, SparkSession
from written_by import written_by

import zskip
from zskip.errors import ColumnError, InputError
from zskip.table.optimize_request import check_request

pytestmark = pytest.mark.spark
ROWS = 4_000
EVENTS = """
    SELECT id,
           pmod(hash(id), 1000) AS plain,
           IF(id % 17 = 0, NULL, named_struct(
               'a', IF(id % 13 = 0, NULL, CAST(pmod(hash(id, 1), 1000) AS INT)),
               'c', named_struct('d', concat('k', lpad(CAST(pmod(hash(id, 2), 500) AS STRING), 3, '0')),
                                 'x.y', CAST(pmod(hash(id, 3), 300) AS DECIMAL(9, 2)) / 4))) AS st,
           array(CAST(id AS STRING)) AS tags
    FROM range({start}, {end}, 1, {files})
"""


def events(spark: SparkSession, start: int = 0, rows: int = ROWS, files: int = 8) -> DataFrame:
    return spark.sql(EVENTS.format(start=start, end=start + rows, files=files))


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Path:
    events(spark).write.parquet(str(tmp_path / "t"))
    return tmp_path / "t"


PREDICATES = [
    "st.a BETWEEN 100 AND 150",
    "st.c.d = 'k007'",
    "st.a < 100 AND st.c.d >= 'k400'",
    "NOT (st.a < 900)",
    "st.a IS NULL",
    "st IS NULL OR st.a = 3",
    "st.c.`x.y` > 70.25",
]


@pytest.mark.parametrize(
    ("writer", "curve"), tiers.nightly([("arrow", "zorder"), ("spark", "hilbert"), ("arrow", "hilbert")])
)
def test_files_are_clustered_by_nested_fields(spark: SparkSession, path: Path, writer: str, curve: str) -> None:
    before = {where: rows_of(spark.read.parquet(str(path)).where(where)) for where in ["true", *PREDICATES]}
    table = zskip.table(spark, str(path))
    with written_by(writer):
        result = table.optimize(by=["ST.a", "st.c.d"], files=16, curve=curve)
    assert (result.by, result.writer, result.rows) == (("st.a", "st.c.d"), writer, ROWS)
    assert result.predicted_share_after < 0.7 * result.predicted_share_before
    for where, rows in before.items():
        assert rows_of(table.df().where(where)) == rows
    assert len(table.files("st.a BETWEEN 100 AND 150")) <= 8
    assert len(table.files("st.a < 100 AND st.c.d >= 'k400'")) <= 4
    info = table.info()
    assert info.layout is not None
    assert info.layout.by == ("st.a", "st.c.d")
    assert [part.column for part in info.clustering] == ["st.a", "st.c.d"]
    assert table.verify().ok


@pytest.mark.slow
def test_rows_lie_as_by_plain_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = events(spark)
    files = {}
    for name, by in {"plain": ["a", "d"], "nested": ["st.a", "st.c.d"]}.items():
        rows = frame.selectExpr("*", "st.a AS a", "st.c.d AS d") if name == "plain" else frame
        rows.write.parquet(str(tmp_path / name))
        table = zskip.table(spark, str(tmp_path / name))
        table.optimize(by=by, files=8)
        counts = (len(table.files(f"{by[0]} BETWEEN {k} AND {k + 50}")) for k in range(0, 1000, 100))
        files[name] = [*counts, *(len(table.files(f"{by[1]} = 'k{k:03d}'")) for k in range(0, 500, 50))]
    assert files["nested"] == files["plain"]


@pytest.mark.slow
def test_new_rows_follow_the_layout(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    table.optimize(by=["st.a", "id"], files=8)
    result = table.append(events(spark, ROWS))
    assert result.by == ("st.a", "id")
    assert len(table.files(f"id >= {ROWS} AND st.a < 50")) < result.files
    maintenance = table.maintain()
    assert maintenance.by == ("st.a", "id")
    assert rows_of(table.df()) == rows_of(events(spark, 0, 2 * ROWS))
    layout = table.info().layout
    assert layout is not None
    assert layout.by == ("st.a", "id")
    table.compact()
    with pytest.raises(InputError, match=r"clustered by st\.a, id"):
        zskip.write(events(spark, 3 * ROWS, 10), str(path), by=["st.c.d"], curve="linear", mode="append")
    assert table.maintain(by=["ST.A", "id"]).by == ("st.a", "id")


@pytest.mark.slow
@pytest.mark.parametrize("format_name", tiers.nightly(["delta", "parquet"]))
def test_a_new_table_lies_by_nested_fields(spark: SparkSession, tmp_path: Path, format_name: str) -> None:
    path = str(tmp_path / "t")
    result = zskip.write(events(spark), path, by=["st.a", "st.c.d"], files=8, format=format_name)
    assert result.by == ("st.a", "st.c.d")
    table = zskip.table(spark, path)
    assert rows_of(table.df()) == rows_of(events(spark))
    assert len(table.files("st.a < 100 AND st.c.d >= 'k400'")) <= 3
    assert table.optimize(by=["st.c.d"], curve="linear", files=4).by == ("st.c.d",)
    assert len(table.files("st.c.d = 'k007'")) == 1
    assert table.append(events(spark, ROWS, 100)).rows == 100


@pytest.mark.slow
def test_a_tree_is_cut_for_queries_of_nested_fields(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    workload = [f"st.a BETWEEN {k} AND {k + 20}" for k in range(0, 1000, 50)] + ["st.c.d = 'k100'"]
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


def test_statements_name_nested_fields(spark: SparkSession, path: Path) -> None:
    zskip.sql(spark, f"OPTIMIZE '{path}' ZORDER BY (st.a, `st`.c.`x.y`)").collect()
    table = zskip.table(spark, str(path))
    layout = table.info().layout
    assert layout is not None
    assert layout.by == ("st.a", "st.c.`x.y`")
    assert [one.column for one in table.info(by=["st.c.`x.y`"]).clustering] == ["st.c.`x.y`"]
    zskip.sql(spark, f"CREATE TABLE '{path}2' CLUSTER BY (st.a, id) AS SELECT * FROM parquet.`{path}`")
    assert zskip.table(spark, f"{path}2").info().layout.by == ("st.a", "id")


@pytest.mark.slow
def test_a_name_with_a_dot_is_the_column_of_that_name(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    events(spark).selectExpr("*", "plain AS `st.a`").write.parquet(path)
    table = zskip.table(spark, path)
    for by, name in {"st.a": "st.a", "`st.a`": "st.a", "`st`.a": "`st`.`a`", "st.c.d": "st.c.d"}.items():
        assert table.optimize(by=[by], curve="linear", files=4).by == (name,)
        layout = table.info().layout
        assert layout is not None
        assert layout.by == (name,)
        assert table.maintain().by == (name,)
    assert len(table.files("st.c.d = 'k007'")) == 1


def test_bad_keys_are_named_with_the_way_out(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    before = sorted(file.name for file in path.glob("*.parquet"))
    for by, message in {
        "st.b": 'no column "st.b" in .*did you mean "st.',
        "sst.a": 'no column "sst.a" in .*did you mean "st.a"',
        "st": r'"st" of type nested: it has no order; choose its fields, such as st\.a',
        "st.c": r"choose its fields, such as st\.c\.d",
        "tags.element": '"tags.element" leads into what is no struct',
    }.items():
        for verb in (table.optimize, table.what_if, table.maintain):
            with pytest.raises(ColumnError, match=message):
                verb(by=["id", by])
    with pytest.raises(ColumnError, match=r"\"ST.`A`\", which is \"st.a\", is named twice"):
        table.optimize(by=["st.a", "ST.`A`"])
    assert sorted(file.name for file in path.glob("*.parquet")) == before
    assert check_request(by="st.a", curve="zorder").by == ("st.a",)
