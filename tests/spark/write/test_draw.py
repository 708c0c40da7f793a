"""The sample: forms, weights, and both ways to draw."""

from __future__ import annotations

import uuid

import numpy as np
import placing
import pytest
from job_groups import job_group
from pyspark.sql import DataFrame, SparkSession

from zskip.layout.sampling import ReservoirPlan
from zskip.records import Field, Sample
from zskip.spark.write.draw import draw_bernoulli, draw_reservoir
from zskip.types import DataType

pytestmark = pytest.mark.spark
ID = (Field(name="id", type=DataType("long")),)


def everything(frame: DataFrame, fields: tuple[Field, ...], sampling: str) -> Sample:
    if sampling == "bernoulli":
        return draw_bernoulli(frame, fields, "p", 1.0, 1)
    return draw_reservoir(frame, fields, "p", 1)


@pytest.mark.parametrize("sampling", ["bernoulli", "reservoir"])
def test_a_sample_of_everything_is_the_table(spark: SparkSession, sampling: str) -> None:
    rows = 400
    columns = [placing.values_of(kind, rows, 2) for kind in placing.TYPES]
    ordinals = (np.arange(rows) % 5).tolist()
    frame = placing.frame_of(spark, placing.TYPES, columns, ordinals)
    expected = placing.sample_of(placing.TYPES, columns, ordinals)
    sample = everything(frame, expected.fields, sampling)
    assert sample.partition.dtype == np.int32
    assert sample.partition.tolist() == ordinals
    assert (sample.weights == 1).all()
    for i, kind in enumerate(placing.TYPES):
        assert sample.columns[i].dtype == expected.columns[i].dtype, kind
        assert sample.nulls[i].tolist() == expected.nulls[i].tolist(), kind
        known = ~expected.nulls[i]
        got, want = sample.columns[i][known], expected.columns[i][known]
        assert all(a == b or (a != a and b != b) for a, b in zip(got.tolist(), want.tolist(), strict=True)), kind


@pytest.mark.parametrize("sampling", ["bernoulli", "reservoir"])
def test_a_table_without_rows(spark: SparkSession, sampling: str) -> None:
    sample = everything(
        spark.range(0).selectExpr("id", "'x' AS s", "0 AS p"), (*ID, Field(name="s", type=DataType("string"))), sampling
    )
    assert len(sample) == 0
    assert [c.dtype for c in sample.columns] == [np.int64, object]


def test_bernoulli_draws_evenly_and_repeatably_in_one_job(spark: SparkSession) -> None:
    rows = 100_000
    frame = spark.range(0, rows, 1, 7).selectExpr("id", "CAST(id % 3 AS INT) AS p")
    group = uuid.uuid4().hex
    with job_group(spark.sparkContext, group):
        sample = draw_bernoulli(frame, ID, "p", 0.05, 9)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == 1
    again = draw_bernoulli(frame, ID, "p", 0.05, 9)
    other = draw_bernoulli(frame, ID, "p", 0.05, 10)
    assert sample.columns[0].tolist() == again.columns[0].tolist()
    assert sample.columns[0].tolist() != other.columns[0].tolist()
    assert sample.weights.sum() == pytest.approx(rows, rel=0.1)
    assert sample.columns[0].mean() == pytest.approx(rows / 2, rel=0.05)
    assert (sample.columns[0] % 3 == sample.partition).all()


def test_reservoirs_weigh_uneven_partitions_by_their_rows(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    large, small = 60_000, 300
    frame = spark.range(0, 6 * large, 1, 6).where(f"id < {large} OR id % {large} < {small}")
    frame = frame.selectExpr(
        f"IF(id < {large}, id, {large} + (id DIV {large} - 1) * {small} + id % {large}) AS id", "0 AS p"
    )
    plan = ReservoirPlan(sample_size=3_000, rows_per_partition=500)
    assert plan.imbalanced(np.array([large, *[small] * 5])).tolist() == [True, *[False] * 5]
    monkeypatch.setattr(ReservoirPlan, "of", lambda partitions: plan)
    sample = draw_reservoir(frame, ID, "p", 4)
    ids = sample.columns[0]
    assert len(np.unique(ids)) == len(ids)
    assert sorted(ids[ids >= large].tolist()) == list(range(large, large + 5 * small))
    assert (sample.weights[ids >= large] == 1).all()
    assert sample.weights[ids < large].sum() == pytest.approx(large, rel=0.1)
    assert ids[ids < large].mean() == pytest.approx(large / 2, rel=0.05)


def test_a_full_reservoir_is_uniform(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 50_000
    frame = spark.range(0, rows, 1, 2).selectExpr("id", "0 AS p")
    plan = ReservoirPlan(sample_size=3_000, rows_per_partition=2_000)
    monkeypatch.setattr(ReservoirPlan, "of", lambda partitions: plan)
    sample = draw_reservoir(frame, ID, "p", 4)
    ids = sample.columns[0]
    assert len(np.unique(ids)) == len(ids) == 4_000
    assert sample.weights.tolist() == [rows / 4_000] * 4_000
    tenths = np.bincount(ids * 10 // rows, minlength=10)
    assert tenths.min() > 320
    assert tenths.max() < 480
