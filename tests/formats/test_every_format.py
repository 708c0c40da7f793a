"""What every table format must keep: one suite, run on each of them.

Nothing is lost or doubled, whoever writes at the same time and whenever a process dies; what other engines read is
asked, not what zskip believes.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
from pathlib import Path

import format_tables
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from format_tables import Maker, content, opened, rewrite, rows_of, stage_all
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ConflictError, InputError, ZskipError
from zskip.formats import StagedFile, list_data_files
from zskip.formats.hive import is_hidden
from zskip.storage import LocalStorage


@pytest.fixture(params=[False, True], ids=["flat", "partitioned"])
def partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


partitioned_first = pytest.mark.parametrize("partitioned", tiers.nightly([True, False]), ids=["partitioned", "flat"])
"""For tests of verbs through Spark, which take seconds each."""
spark_first = pytest.mark.parametrize("maker", tiers.nightly(format_tables.FORMATS), ids=lambda maker: maker.name)
"""For those that differ little from format to format: all go through the same commit."""


@pytest.fixture
def table(maker: Maker, partitioned: bool, tmp_path: Path) -> Path:
    """A table of two appends."""
    path = tmp_path / "t ä"
    maker.append(path, content(40), partitioned=partitioned)
    maker.append(path, content(20, 40), partitioned=partitioned)
    return path


def orphans(maker: Maker, path: Path) -> set[str]:
    """Data files that the format knows nothing of, and whatever lies in staging."""
    files = {file.path for file in LocalStorage(str(path)).walk(is_hidden)}
    staged = {f.relative_to(path).as_posix() for f in (path / "_zskip" / "staging").rglob("*") if f.is_file()}
    return (files - maker.known_files(path)) | staged


def test_a_snapshot_has_the_rows_and_partitions(maker: Maker, partitioned: bool, table: Path) -> None:
    snapshot = opened(table).snapshot()
    assert snapshot.paths == tuple(sorted(snapshot.paths))
    sizes = [(table / path).stat().st_size for path in snapshot.paths]
    assert snapshot.sizes.tolist() == sizes
    assert sum(pq.read_metadata(table / path).num_rows for path in snapshot.paths) == 60
    has_columns = partitioned and not maker.hidden
    names = {field.name: str(field.type) for field in snapshot.fields}
    assert names == {"id": "long", "v": "double", "name": "string"} | ({} if has_columns else {"region": "string"})
    values = {p.values for p in snapshot.partitions}
    expected = {(None if v is None else v.encode(),) for v in format_tables.PARTITIONS} if has_columns else {()}
    assert values == expected
    assert len(snapshot.partitions) == (4 if partitioned else 1)
    if snapshot.known is not None:
        rows = [pq.read_metadata(table / path).num_rows for path in snapshot.paths]
        assert snapshot.known.rows.tolist() == rows


def test_a_report_counts_all_files(maker: Maker, table: Path, tmp_path: Path) -> None:
    opened_table = zskip.open(str(table))
    opened_table.index(collect="footers")
    page = opened_table.report(
        tmp_path / "report.html", workload=["id < 5", "region = 'eu' AND v > 0"], by=["id", "region"]
    )
    text = page.read_text("utf-8")
    data = json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)[0])
    files = opened_table.info().files
    assert sum(data["figures"]["sizes"]["data"][0]["y"]) == files == len(data["files"])
    assert len(data["figures"]["reads"]["data"][0]["y"]) == 2
    assert f"{opened_table.info().format}, version" in text


def test_a_rewrite_keeps_every_row(maker: Maker, table: Path) -> None:
    before, old = rows_of(maker.read(table)), opened(table).snapshot()
    version = rewrite(opened(table))
    after = opened(table).snapshot()
    assert rows_of(maker.read(table)) == before
    assert after.version == version > old.version
    assert not set(after.paths) & set(old.paths)
    assert {p.rpartition("/")[2][:3] for p in after.paths} == {"new"}
    assert {p.values for p in after.partitions} == {p.values for p in old.partitions}
    assert orphans(maker, table) == set()
    latest = opened(table).last_operation()
    assert latest is not None
    assert (latest[0], latest[1]["operation"], latest[1]["by"]) == (version, "optimize", ["id"])


def test_one_partition_is_rewritten_alone(maker: Maker, partitioned: bool, table: Path) -> None:
    before, form = rows_of(maker.read(table)), opened(table)
    base = form.snapshot()
    removed = base.partition_of == 0
    form.replace(base, removed, stage_all(form, base, "one", [0]))
    after = form.snapshot()
    assert rows_of(maker.read(table)) == before
    kept = {path for path, is_removed in zip(base.paths, removed.tolist(), strict=True) if not is_removed}
    assert kept < set(after.paths)
    assert len(after) == len(kept) + 1


def test_the_table_before_a_rewrite_is_still_there(maker: Maker, table: Path) -> None:
    if not maker.time_travel:
        pytest.skip("a directory of files has no versions")
    before, version = rows_of(maker.read(table)), opened(table).snapshot().version
    rewrite(opened(table))
    assert rows_of(maker.read(table, version)) == before


def test_an_append_meanwhile_is_kept(maker: Maker, partitioned: bool, table: Path) -> None:
    before, more = rows_of(maker.read(table)), content(9, 1000)
    rewrite(opened(table), between=lambda: maker.append(table, more, partitioned=partitioned))
    assert rows_of(maker.read(table)) == before + rows_of(more)
    assert orphans(maker, table) == set()


def test_a_delete_meanwhile_wins(maker: Maker, table: Path) -> None:
    before = rows_of(maker.read(table))
    with pytest.raises(ConflictError, match="call again"):
        rewrite(opened(table), between=lambda: maker.delete_some(table))
    after = rows_of(maker.read(table))
    assert after < before
    assert after.total() == before.total() - 1
    assert orphans(maker, table) == set()


def test_of_two_rewrites_of_the_same_files_one_wins(maker: Maker, table: Path) -> None:
    before = rows_of(maker.read(table))

    def first() -> None:
        rewrite(opened(table), "first")

    with pytest.raises(ConflictError):
        rewrite(opened(table), "late", between=first)
    assert rows_of(maker.read(table)) == before
    assert {p.rpartition("/")[2][:5] for p in opened(table).snapshot().paths} == {"first"}
    assert orphans(maker, table) == set()


def test_rewrites_of_different_partitions_do_not_meet(maker: Maker, partitioned: bool, table: Path) -> None:
    if not partitioned:
        pytest.skip("there is one partition")
    before, form = rows_of(maker.read(table)), opened(table)
    base = form.snapshot()
    staged = [stage_all(form, base, f"n{number}", [number]) for number in (0, 1)]
    for number in (0, 1):
        form.replace(base, base.partition_of == number, staged[number])
    assert rows_of(maker.read(table)) == before
    assert len(form.snapshot()) == len(base) - 2


def test_an_aborted_rewrite_leaves_nothing(maker: Maker, table: Path) -> None:
    form, before = opened(table), opened(table).snapshot()
    added = stage_all(form, before, "x")
    form.abort(added[0].path.rpartition("/")[0])
    assert form.snapshot().paths == before.paths
    assert orphans(maker, table) == set()


def test_a_column_that_came_later(maker: Maker, partitioned: bool, table: Path) -> None:
    more = content(8, 500).append_column("late", pa.array(range(8), pa.int32()))
    maker.append(table, more, partitioned=partitioned)
    before = rows_of(maker.read(table))
    rewrite(opened(table))
    assert rows_of(maker.read(table)) == before


def test_staged_files_are_listed_without_the_hidden_ones(maker: Maker, table: Path) -> None:
    form = opened(table)
    added = stage_all(form, form.snapshot(), "x")
    staging = added[0].path.rpartition("/")[0]
    assert [file.path for file in list_data_files(LocalStorage(str(table)), staging)] == sorted(
        file.path for file in added
    )


def test_a_staged_file_that_is_gone_fails_before_the_commit(maker: Maker, table: Path) -> None:
    form, before = opened(table), rows_of(maker.read(table))
    base = form.snapshot()
    added = stage_all(form, base, "x")
    if maker.name == "parquet":
        pytest.skip("the log of plain Parquet stops at it, see parquet/test_crash.py")
    (table / added[0].path).unlink()
    with pytest.raises((ZskipError, FileNotFoundError)):
        form.replace(base, np.ones(len(base), bool), added)
    form.abort(added[0].path.rpartition("/")[0])
    assert rows_of(maker.read(table)) == before
    assert orphans(maker, table) == set()


@pytest.mark.slow  # A process and a table for each step. parquet/test_crash.py asks the same of plain Parquet.
@pytest.mark.parametrize("maker", format_tables.FORMATS[1:], ids=lambda maker: maker.name)
@pytest.mark.parametrize("after", tiers.nightly([True, False]), ids=["after", "before"])
@partitioned_first
def test_killed_at_every_step(maker: Maker, partitioned: bool, tmp_path: Path, after: bool) -> None:
    # Not a plain fork: the threads of libraries do not survive it.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(format_tables.PRELOADED)
    for step in range(1, 100):
        path = tmp_path / str(step)
        maker.append(path, content(8), partitioned=partitioned)
        maker.append(path, content(4, 8), partitioned=partitioned)
        before = rows_of(maker.read(path))
        child = context.Process(target=format_tables.die_in_rewrite, args=(str(path), step, after))
        child.start()
        child.join(60)
        assert child.exitcode in (0, -signal.SIGKILL)
        live = opened(path).snapshot()
        assert {p.rpartition("/")[2][:3] == "new" for p in live.paths} in ({False}, {True}), "as before or as after"
        assert rows_of(maker.read(path)) == before
        rewrite(opened(path), "two")
        assert rows_of(maker.read(path)) == before
        assert orphans(maker, path) == set()
        if child.exitcode == 0:
            assert step > 5
            return
    pytest.fail("the rewrite never ended")


@pytest.mark.spark
@partitioned_first
def test_optimize_and_everything_else(maker: Maker, partitioned: bool, table: Path, spark: SparkSession) -> None:
    before = rows_of(maker.read(table))
    opened_table = zskip.table(spark, maker.address(table))
    result = opened_table.optimize(["id", "name"], files=6)
    assert rows_of(maker.read(table)) == before
    assert result.rows == 60
    assert len(opened(table).snapshot()) == result.files_after >= 4
    assert opened_table.df().count() == 60
    assert {row.id for row in opened_table.df().where("id < 5").collect()} == {0, 1, 2, 3, 4}
    assert opened_table.last_scan is not None
    assert opened_table.last_scan.files < opened_table.last_scan.files_total
    assert opened_table.df().where("region IS NULL").count() == sum("region" not in row for row in before.elements())
    assert len(zskip.open(maker.address(table)).files("id = 3")) < result.files_after
    assert opened_table.explain("id = 3").steps[-1].files < result.files_after
    info = opened_table.info()
    assert (info.format, info.files, info.rows) == (maker.name, result.files_after, 60)
    assert info.layout is not None
    assert info.layout.by == ("id", "name")
    checked = opened_table.verify(queries=2)
    assert checked.ok, checked.mismatches
    assert orphans(maker, table) == set()
    old = opened(table).snapshot()
    one = opened_table.optimize(["id", "v"], files=2, where="region = 'us east'" if partitioned else None)
    assert one.version > result.version
    assert rows_of(maker.read(table)) == before
    if partitioned:
        assert (one.partitions, one.files_after) == (1, 2)
        assert len(set(old.paths) & set(opened(table).snapshot().paths)) == len(old) - one.files_before > 0


@pytest.mark.spark
@partitioned_first
@spark_first
def test_compact(maker: Maker, table: Path, spark: SparkSession) -> None:
    maker.delete_some(table)
    before = rows_of(maker.read(table))
    opened_table = zskip.table(spark, maker.address(table))
    result = opened_table.compact()
    assert result.files_after == result.added.files + result.files_before - result.removed.files < result.files_before
    assert (result.batches, result.version) == (1, opened_table.info().version)
    assert rows_of(maker.read(table)) == before
    assert opened_table.info().files == result.files_after
    assert opened_table.verify(queries=1).ok
    assert opened_table.compact().batches == 0


@pytest.mark.spark
@partitioned_first
@spark_first
def test_maintain(maker: Maker, partitioned: bool, table: Path, spark: SparkSession) -> None:
    maker.append(table, content(3000, 60), partitioned=partitioned)
    before = rows_of(maker.read(table))
    opened_table = zskip.table(spark, maker.address(table))
    planned = opened_table.maintain(by=["id", "v"], target_file_size=4000, dry_run=True)
    assert planned.dry_run
    assert planned.version == opened_table.info().version
    first = opened_table.maintain(by=["id", "v"], target_file_size=4000)
    assert (first.batches, first.files_removed) == (planned.batches, planned.files_removed)
    assert first.version == opened_table.info().version > planned.version
    assert first.kept_after < first.kept_before
    assert rows_of(maker.read(table)) == before
    layout = opened_table.info().layout
    assert layout is not None
    assert layout.files is not None
    assert layout.files_since is not None
    assert (layout.by, layout.files + layout.files_since) == (("id", "v"), opened_table.info().files)
    assert 0 < layout.files <= first.files_added
    maker.append(table, content(600, 5000), partitioned=partitioned)
    maker.delete_some(table)
    before = rows_of(maker.read(table))
    second = opened_table.maintain()
    assert second.by == ("id", "v")
    assert rows_of(maker.read(table)) == before
    assert {of.operation for of in opened_table.history()} == {"maintain"}
    assert len(opened_table.history()) == first.batches + second.batches
    assert opened_table.verify(queries=1).ok


@pytest.mark.spark
@partitioned_first
@spark_first
def test_an_index_of_sketches_and_row_groups(maker: Maker, partitioned: bool, table: Path, spark: SparkSession) -> None:
    opened_table = zskip.table(spark, maker.address(table))
    info = opened_table.index(sketches=["bloom(0.01):name"], granularity="row_group")
    assert (info.files, info.granularity) == (info.files_total, "row_group")
    maker.append(table, content(12, 700), partitioned=partitioned)
    assert opened_table.info().index is not None
    assert {row.id for row in opened_table.df().where("id >= 700").collect()} == set(range(700, 712))
    info = opened_table.index()
    assert info.files == info.files_total == len(opened(table).snapshot())
    assert info.sketches[0].files == info.files
    alone = zskip.open(maker.address(table))
    assert len(alone.files("name = 'nobody'")) < info.files
    kept = alone.files("id = 3")
    assert kept
    assert all(file.row_groups is not None for file in kept)


@pytest.mark.slow
@pytest.mark.spark
@spark_first
@partitioned_first
def test_statements_name_a_format_and_a_path(maker: Maker, table: Path, spark: SparkSession) -> None:
    before = rows_of(maker.read(table))
    for target in maker.targets(table):
        zskip.sql(spark, f"OPTIMIZE {target} ZORDER BY (id, v)")
        assert rows_of(maker.read(table)) == before
    assert zskip.sql(spark, f"VERIFY {maker.targets(table)[-1]}").collect()[0]["ok"]


@pytest.mark.slow
@pytest.mark.spark
@spark_first
def test_optimize_of_files_with_different_columns(maker: Maker, tmp_path: Path, spark: SparkSession) -> None:
    maker.append(tmp_path / "t", content(20), partitioned=False)
    more = content(8, 500).append_column("late", pa.array(range(8), pa.int32()))
    maker.append(tmp_path / "t", more, partitioned=False)
    before = rows_of(maker.read(tmp_path / "t"))
    merging = spark.newSession()
    merging.conf.set("spark.sql.parquet.mergeSchema", "true")
    opened_table = zskip.table(merging, maker.address(tmp_path / "t"))
    opened_table.optimize(["id", "v"], files=3)
    assert rows_of(maker.read(tmp_path / "t")) == before
    assert opened_table.df().where("late >= 4").count() == 4
    assert opened_table.verify(queries=2).ok


@pytest.mark.spark
def test_a_refused_optimize_writes_nothing(maker: Maker, table: Path, spark: SparkSession) -> None:
    before = sorted(table.rglob("*"))
    with pytest.raises(InputError):
        zskip.table(spark, maker.address(table)).optimize(["nope"], curve="linear")
    assert sorted(table.rglob("*")) == before


def test_a_staged_file_of_a_partition_that_is_not_replaced(maker: Maker, partitioned: bool, table: Path) -> None:
    if maker.name == "parquet" or not partitioned:
        pytest.skip("plain Parquet takes any directory")
    form, before = opened(table), rows_of(maker.read(table))
    base = form.snapshot()
    added = stage_all(form, base, "x")
    wrong = [StagedFile(path=f.path, directory="region=other", size=f.size) for f in added]
    with pytest.raises(ConflictError, match="region=other"):
        form.replace(base, np.ones(len(base), bool), wrong)
    with pytest.raises(ConflictError, match="rows"):
        form.replace(base, np.ones(len(base), bool), added[1:])
    assert rows_of(maker.read(table)) == before
