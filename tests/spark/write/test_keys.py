"""Keys and file ids that Spark computes are those of the layout, row by row."""

from __future__ import annotations

import numpy as np
import placing
import pyspark.sql.functions as F
import pytest
from pyspark.sql import DataFrame, SparkSession
from session_settings import settings

from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.layout.predict import sample_ranks
from zskip.layout.workload import synthetic_workload
from zskip.spark.write.keys import place

pytestmark = pytest.mark.spark
ROWS = 700
GROUPS = [placing.TYPES[i::3] for i in range(3)]


def fitted(types: tuple[str, ...], curve: str, build: str, partitions: int, seed: int, nulls: float = 0.1) -> tuple:
    columns = [placing.values_of(kind, ROWS, seed, nulls=nulls) for kind in types]
    ordinals = np.random.default_rng(seed).integers(0, partitions, ROWS).tolist()
    sample = placing.sample_of(types, columns, ordinals)
    rows = np.bincount(ordinals, minlength=partitions)
    layout = fit(sample, np.full(partitions, 7), partition_rows=rows, curve=curve, build=build, seed=seed)
    return columns, ordinals, sample, layout


def placed(frame: DataFrame, layout: Layout) -> list:
    made = place(frame, layout, ordinal="p", key="key", file_id="file")
    assert dict(made.dtypes)["file"] == "int"
    return made.select("key", "file").collect()


@pytest.mark.slow
@pytest.mark.parametrize("types", GROUPS, ids=["first", "second", "third"])
@pytest.mark.parametrize(
    ("curve", "build"),
    [("zorder", "sample"), ("linear", "sample"), ("hilbert", "sample"), ("zorder", "direct"), ("hilbert", "direct")],
)
def test_every_row_is_where_the_layout_says(
    spark: SparkSession, types: tuple[str, ...], curve: str, build: str
) -> None:
    columns, ordinals, sample, layout = fitted(types, curve, build, 3, 5)
    rows = placed(placing.frame_of(spark, types, columns, ordinals), layout)
    keys, _ = placing.placed_by(layout, sample, np.zeros(ROWS, np.uint64))
    got = [bytes(r.key) if layout.key_is_bytes else r.key for r in rows]
    assert got == keys
    firsts = layout.first_file[
        (
            at := layout.segment(layout.keys(sample.columns, sample.nulls), sample.partition)
            + layout.cut_starts[sample.partition]
            + sample.partition
        )
    ]
    offset = np.array([r.file for r in rows]) - firsts
    assert (offset >= 0).all()
    assert (offset < layout.spread[at]).all()


def test_files_are_the_same_where_nothing_is_spread(spark: SparkSession) -> None:
    columns, ordinals, sample, layout = fitted(("long", "string", "double"), "zorder", "sample", 4, 8, nulls=0)
    assert layout.spread.max() == 1
    rows = placed(placing.frame_of(spark, ("long", "string", "double"), columns, ordinals), layout)
    assert [r.file for r in rows] == placing.placed_by(layout, sample, np.zeros(ROWS, np.uint64))[1]


def test_a_tree_places_rows_where_its_walk_ends(spark: SparkSession) -> None:
    types = ("long", "string", "double")
    columns, ordinals, sample, _ = fitted(types, "zorder", "sample", 3, 4)
    workload = synthetic_workload(sample_ranks(sample), queries=50)
    rows = np.bincount(ordinals, minlength=3)
    layout = fit(sample, np.array([5, 9, 1]), partition_rows=rows, curve="fitted", workload=workload)
    assert layout.spread.max() == 1
    found = placed(placing.frame_of(spark, types, columns, ordinals), layout)
    keys, files = placing.placed_by(layout, sample, np.zeros(ROWS, np.uint64))
    assert [r.key for r in found] == keys
    assert [r.file for r in found] == files


def test_sql_keys_without_code_generation(spark: SparkSession) -> None:
    types = ("long", "string", "double", "binary")
    columns, ordinals, sample, layout = fitted(types, "zorder", "sample", 2, 9)
    frame = placing.frame_of(spark, types, columns, ordinals)
    with settings(spark, codegen__wholeStage="false", codegen__factoryMode="NO_CODEGEN"):
        got = [r.key for r in placed(frame, layout)]
    assert got == placing.placed_by(layout, sample, np.zeros(ROWS, np.uint64))[0]


def test_one_key_for_all_rows_is_spread_the_same_way_each_time(spark: SparkSession, tmp_path) -> None:
    spark.range(4_000).selectExpr("id", "7L AS a", "7L AS b", "0 AS p").write.parquet(str(tmp_path / "t"))
    frame = spark.read.parquet(str(tmp_path / "t"))
    sample = placing.sample_of(("long", "long"), [[7] * 4_000, [7] * 4_000], [0] * 4_000)
    layout = fit(sample, np.array([8]), partition_rows=np.array([4_000]))
    layout = Layout.from_json(
        layout.to_json().replace('"name":"c0"', '"name":"a"').replace('"name":"c1"', '"name":"b"')
    )
    files = layout.file_count
    assert files > 4
    made = place(frame, layout, ordinal="p", key="k", file_id="f").select("id", "f")
    first = {r.id: r.f for r in made.collect()}
    again = {r.id: r.f for r in made.repartition(3).collect()}
    assert first == again
    counts = np.bincount(list(first.values()), minlength=files)
    assert len(counts) == files
    assert np.ptp(counts) < 0.3 * 4_000 / files
    kernel = Layout.from_json(layout.to_json().replace('"curve":"zorder"', '"curve":"hilbert"'))
    assert {r.id: r.f for r in place(frame, kernel, ordinal="p", key="k", file_id="f").collect()} == first


def test_a_thousand_partitions(spark: SparkSession) -> None:
    rng = np.random.default_rng(3)
    rows, partitions = 20_000, 1_000
    ordinals = rng.integers(0, partitions, rows)
    columns = [rng.integers(0, 10**6, rows).tolist(), rng.integers(0, 10**6, rows).tolist()]
    sample = placing.sample_of(("long", "long"), columns, ordinals.tolist())
    layout = fit(sample, np.full(partitions, 4), partition_rows=np.bincount(ordinals, minlength=partitions))
    frame = placing.frame_of(spark, ("long", "long"), columns, ordinals.tolist())
    got = [r.file for r in placed(frame, layout)]
    assert got == placing.placed_by(layout, sample, np.zeros(rows, np.uint64))[1]


def test_arrays_stand_in_the_plan_as_literals(spark: SparkSession) -> None:
    columns, ordinals, _, layout = fitted(("long", "string"), "zorder", "sample", 2, 4)
    made = place(
        placing.frame_of(spark, ("long", "string"), columns, ordinals), layout, ordinal="p", key="k", file_id="f"
    )
    plan = made._jdf.queryExecution().optimizedPlan().toString()
    assert "from_json" not in plan
    assert "python" not in plan.lower()
    assert made.where(F.col("f").isNull()).count() == 0


def test_the_kernel_runs_once_for_a_row(spark: SparkSession) -> None:
    types = ("long", "string")
    columns, ordinals, _, layout = fitted(types, "hilbert", "sample", 2, 4)
    made = place(placing.frame_of(spark, types, columns, ordinals), layout, ordinal="p", key="k", file_id="f")
    plan = made.select("k", "f")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1
    assert plan.count("place_rows(") == plan.count("ArrowEvalPython [place_rows(")
