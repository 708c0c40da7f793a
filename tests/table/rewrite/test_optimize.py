"""The main job: cluster a table, and read it back whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest
import tables
import tiers
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.errors import PredicateError
from zskip.table.optimize_request import check_request

pytestmark = pytest.mark.spark


def rows_of(frame: DataFrame) -> list[int]:
    """All rows of a frame as sorted hashes, to which NaN and null are equal to themselves."""
    return sorted(row.hash for row in frame.selectExpr("xxhash64(*) AS hash").collect())


@pytest.mark.parametrize(
    ("curve", "build"),
    tiers.nightly(
        [
            ("zorder", "sample"),
            ("hilbert", "direct"),
            ("linear", "sample"),
            ("zorder", "direct"),
            ("hilbert", "sample"),
            ("linear", "direct"),
        ],
        daily=3,
    ),
)
def test_every_curve_keeps_every_row(spark: SparkSession, tmp_path: Path, curve: str, build: str) -> None:
    path = tables.make_events(tmp_path / "t")
    before = rows_of(spark.read.parquet(str(path)))
    table = zskip.table(spark, str(path))
    result = table.optimize(by=["user", "day", "name"], curve=curve, build=build, files=8)
    assert rows_of(spark.read.parquet(str(path))) == before
    assert rows_of(table.df()) == before
    assert result.rows == tables.ROWS
    assert result.files_before == 6
    assert result.files_after == len(tables.visible(path))
    assert 6 <= result.files_after <= 10
    assert result.bytes_after == sum(f.stat().st_size for f in tables.visible(path))


def test_the_reservoir_process_gives_a_layout_as_good(spark: SparkSession, tmp_path: Path) -> None:
    shares = {}
    for sampling in ("bernoulli", "reservoir"):
        path = tables.make_events(tmp_path / sampling)
        result = zskip.table(spark, str(path)).optimize(by=["user", "id"], files=16, sampling=sampling)
        shares[sampling] = result.predicted_share_after
        assert tables.ids(path) == list(range(tables.ROWS))
    assert shares["reservoir"] == pytest.approx(shares["bernoulli"], rel=0.35)


def test_clustering_skips_files_that_plain_order_cannot(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t", files=16)
    table = zskip.table(spark, str(path))
    table.index()
    where = "id BETWEEN 100 AND 200"
    before = len(table.files(where))
    result = table.optimize(by=["id", "user"], files=16)
    assert before == 16
    assert len(table.files(where)) <= 8
    assert result.predicted_share_after < result.predicted_share_before


def test_into_leaves_the_source_alone(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tables.make_events(tmp_path / "t"), tmp_path / "new"
    names = [f.name for f in tables.visible(source)]
    result = zskip.table(spark, str(source)).optimize(by=["user", "id"], files=4, into=str(target))
    assert [f.name for f in tables.visible(source)] == names
    assert tables.ids(target) == list(range(tables.ROWS))
    assert result.path == str(target)
    assert zskip.open(str(target)).info().index.files == result.files_after


def test_partitions_stay_apart_and_awkward_values_survive(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    before = rows_of(spark.read.parquet(str(path)))
    directories = {str(f.parent.relative_to(path)) for f in tables.visible(path)}
    table = zskip.table(spark, str(path))
    result = table.optimize(by=["user", "id"], files=16)
    assert rows_of(spark.read.parquet(str(path))) == before
    assert {str(f.parent.relative_to(path)) for f in tables.visible(path)} == directories
    assert result.files_after == 16
    assert rows_of(table.df().where("region = 'a=b/c%' AND id < 500")) == rows_of(
        spark.read.parquet(str(path)).where("region = 'a=b/c%' AND id < 500")
    )


def test_where_rewrites_only_the_partitions_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    before = rows_of(spark.read.parquet(str(path)))
    untouched = {f for f in tables.visible(path) if "y=2023" in str(f)}
    table = zskip.table(spark, str(path))
    result = table.optimize(by=["user", "id"], files=4, where="y = 2024 AND region IS NOT NULL")
    after = set(tables.visible(path))
    assert untouched <= after
    assert result.files_after == 4
    assert rows_of(spark.read.parquet(str(path))) == before


@pytest.mark.slow
def test_where_may_name_what_is_constant_in_a_statement(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    days = spark.range(0, 120, 1, 4).selectExpr("id", "id % 7 v", "date_sub(current_date(), int(id % 3)) day")
    days.write.partitionBy("day").parquet(path)
    before, table = rows_of(spark.read.parquet(path)), zskip.table(spark, path)
    (today, yesterday, _) = sorted({file.parent for file in Path(path).rglob("*.parquet")}, reverse=True)
    for where, changed in {
        "day = current_date()": [today],
        "day >= current_date() - INTERVAL 1 DAY AND day < current_timestamp()": [today, yesterday],
        "year(day) < year(current_date()) - 1": [],
        "1 = 1": None,
        "current_date() < DATE '2000-01-01'": [],
    }.items():
        for verb in (
            lambda where: table.optimize(by=["id", "v"], files=1, where=where),
            lambda where: table.optimize(by=["id", "v"], where=where, max_batch="1MB", target_file_size="1MB"),
            lambda where: table.compact(target_file_size="1MB", min_file_size="1MB", where=where),
        ):
            files = set(Path(path).rglob("day=*/*.parquet"))
            verb(where)
            touched = {file.parent for file in files ^ set(Path(path).rglob("day=*/*.parquet"))}
            assert touched <= ({file.parent for file in files} if changed is None else set(changed)), where
    zskip.sql(spark, f"OPTIMIZE '{path}' WHERE day = current_date() ZORDER BY (id, v)")
    assert rows_of(spark.read.parquet(path)) == before
    for where, says in {
        "day > date_sub(current_date(), int(rand() * 9))": r"rand\(\) is random",
        "day = foo(1)": "foo",
    }.items():
        with pytest.raises(PredicateError, match=says):
            table.optimize(by=["id", "v"], where=where)


def test_where_that_selects_nothing_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    names = tables.visible(path)
    result = zskip.table(spark, str(path)).optimize(by=["user", "id"], files=4, where="y = 1999")
    assert tables.visible(path) == names
    assert (result.files_before, result.files_after, result.rows) == (0, 0, 0)


def test_a_second_optimize_and_an_append_in_between(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    table = zskip.table(spark, str(path))
    first = table.optimize(by=["user", "id"], files=4)
    spark.read.parquet(str(path)).limit(100).write.mode("append").parquet(str(path))
    second = table.optimize(by=["day", "id"], files=4)
    assert second.version == first.version + 1
    assert len(tables.ids(path)) == tables.ROWS + 100
    assert table.info().layout.by == ("day", "id")


def test_a_table_without_rows_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(0).selectExpr("id", "id AS other").write.parquet(str(path))
    result = zskip.table(spark, str(path)).optimize(by=["id", "other"], files=4)
    assert result.rows == 0
    assert zskip.table(spark, str(path)).df().count() == 0


def test_no_session_setting_is_left_changed(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "t")
    settings = dict(spark.sparkContext.getConf().getAll())
    sql = {r.key: r.value for r in spark.sql("SET").collect()}
    zskip.table(spark, str(path)).optimize(by=["user", "id"], files=4)
    assert dict(spark.sparkContext.getConf().getAll()) == settings
    assert {r.key: r.value for r in spark.sql("SET").collect()} == sql
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def test_files_are_written_as_the_source_was(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "t"
    path.mkdir()
    pq.write_table(tables.events(), path / "a.parquet", compression="gzip")
    schema = spark.read.parquet(str(path)).schema
    zskip.table(spark, str(path)).optimize(by=["user", "id"], files=2)
    assert spark.read.parquet(str(path)).schema == schema
    codecs = {pq.ParquetFile(f).metadata.row_group(0).column(0).compression for f in tables.visible(path)}
    assert codecs == {"GZIP"}


@pytest.mark.slow
def test_files_are_written_in_the_codec_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    path = tmp_path / "t"
    path.mkdir()
    pq.write_table(tables.events(), path / "a.parquet", compression="snappy")
    table = zskip.table(spark, str(path))
    sizes = {}
    for asked, codec in [("keep", "SNAPPY"), ("uncompressed", "UNCOMPRESSED"), ("gzip:1", "GZIP"), ("gzip:9", "GZIP")]:
        result = table.optimize(by=["user", "id"], files=2, compression=asked, into=str(tmp_path / asked))
        files = tables.visible(tmp_path / asked)
        assert {pq.ParquetFile(f).metadata.row_group(0).column(0).compression for f in files} == {codec}
        assert result.compression == ("snappy" if asked == "keep" else asked)
        sizes[asked] = result.bytes_after
    assert sizes["gzip:9"] < sizes["gzip:1"] < sizes["keep"] < sizes["uncompressed"]
    levels = [
        table.optimize(by=["user", "id"], files=2, compression=f"zstd:{level}", into=str(tmp_path / f"z{level}"))
        for level in (1, 19)
    ]
    assert levels[1].bytes_after < levels[0].bytes_after


def test_result_is_a_record_that_json_takes(spark: SparkSession, tmp_path: Path) -> None:
    import dataclasses

    path = tables.make_events(tmp_path / "t")
    result = zskip.table(spark, str(path)).optimize(by=["user", "id"], files=3)
    told = json.loads(json.dumps(dataclasses.asdict(result)))
    assert told["by"] == ["user", "id"]
    assert {"sample", "fit", "rewrite", "commit", "index"} <= set(told["seconds"])
    assert 0 < told["predicted_share_after"] <= 1
    assert 0 < told["predicted_share_before"] <= 1


def test_the_same_seed_places_every_row_alike(spark: SparkSession, tmp_path: Path) -> None:
    def contents(name: str) -> list[list[int]]:
        path = tmp_path / name
        zskip.table(spark, str(source)).optimize(by=["user", "id"], files=5, into=str(path), seed=3)
        return sorted(
            sorted(ds.dataset([str(f)]).to_table(columns=["id"])["id"].to_pylist()) for f in tables.visible(path)
        )

    source = tables.make_events(tmp_path / "t")
    assert contents("a") == contents("b")


def test_default_is_a_file_size() -> None:
    request = check_request(by="a", curve="zorder")
    assert request.target_file_size == 128_000_000
    assert request.files is None


def test_queries_decode_few_rows_of_a_sorted_file(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from scans import rows_decoded

    rng = np.random.default_rng(3)
    (tmp_path / "t").mkdir()
    table = pa.table({"a": rng.permutation(40_000), "b": rng.integers(0, 1 << 60, 40_000)})
    pq.write_table(table, tmp_path / "t" / "a.parquet")
    table = zskip.table(spark, str(tmp_path / "t"))
    table.optimize(["a"], curve="linear", files=1)
    assert rows_decoded(table.df().where("a = 20000")) <= 4_000
