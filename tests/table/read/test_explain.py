"""Explain: what is left after each step, what each leaf skipped and why not, and what was read for nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tables
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, InputError, PredicateError

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def clustered(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tables.make_partitioned(tmp_path_factory.mktemp("explain") / "t")
    zskip.table(spark, str(path)).optimize(by=["id", "user"], files=40)
    return path


def test_steps_narrow_from_the_table_to_what_a_query_reads(clustered: Path) -> None:
    table = zskip.open(str(clustered))
    where = "id < 1000 AND y = 2023 AND (user > 450 OR user IS NULL)"
    found = table.explain(where)
    assert [step.step for step in found.steps][:2] == ["table", "partitions"]
    assert found.steps[2].step.startswith("id < 1000")
    files = [step.files for step in found.steps]
    assert files == sorted(files, reverse=True)
    assert len(set(files)) == 4, "each of the steps leaves something out"
    scan = table.prune(where)
    assert (found.steps[0].files, found.steps[0].bytes, found.steps[0].rows) == (
        scan.files_total,
        scan.bytes_total,
        scan.rows_total,
    )
    last = found.steps[-1]
    assert (last.files, last.bytes, last.rows) == (scan.files, scan.bytes, scan.rows)


def test_each_step_counts_what_its_conjuncts_alone_keep(clustered: Path) -> None:
    table = zskip.open(str(clustered))
    kept = set(table.files())
    parts = ["y = 2023", "id < 1000", "user > 300"]
    for step, part in zip(table.explain(" AND ".join(parts)).steps[1:], parts, strict=True):
        kept &= set(table.files(part))
        assert step.files == len(kept)


def test_a_leaf_that_skips_nothing_says_why(clustered: Path, tmp_path: Path) -> None:
    table = zskip.open(str(clustered))
    where = "id >= 0 AND bit_count(id) = 3 AND size(tags) > 0 AND id = 3"
    reasons = {leaf.sql: (leaf.skipped, leaf.reason) for leaf in table.explain(where).leaves}
    assert reasons.popitem()[1][0] > 0
    assert [reason for _, reason in reasons.values()] == [
        "every file's range holds a match",
        "not supported",
        "not supported",
    ]
    path = tables.make_events(tmp_path / "stale")
    with pytest.warns(zskip.errors.ZskipWarning, match="no index"):
        bare = zskip.open(str(path)).explain("id = 1")
    assert [leaf.reason for leaf in bare.leaves] == ["no statistics of id"]
    zskip.open(str(path)).index()
    pq.write_table(tables.events(10), path / "part-99999.parquet")
    with pytest.warns(zskip.errors.ZskipWarning, match="knows nothing of 1"):
        stale = zskip.open(str(path)).explain("id >= 0")
    assert [leaf.reason for leaf in stale.leaves] == ["the index is stale: it knows nothing of 1 of 7 files"]


def test_regret_counts_the_files_that_held_no_match(spark: SparkSession, clustered: Path) -> None:
    table = zskip.table(spark, str(clustered))
    where = "id BETWEEN 10 AND 40 AND user % 2 = 1"
    found = table.explain(where, analyze=True)
    kept = table.files(where)
    match = (pc.field("id") >= 10) & (pc.field("id") <= 40) & (pc.bit_wise_and(pc.field("user"), 1) == 1)
    matching = {file: pq.ParquetFile(file).read().filter(match).num_rows for file in kept}
    idle = [file for file, rows in matching.items() if not rows]
    assert found.regret is not None
    assert found.regret.files == len(idle)
    assert 0 < found.regret.files < len(kept)
    assert found.regret.bytes == sum(Path(f).stat().st_size for f in idle)
    assert found.regret.rows == sum(pq.read_metadata(f).num_rows for f in idle)
    assert found.regret.matching_rows == sum(matching.values())


def test_the_text_has_a_line_for_each_step_and_leaf(clustered: Path) -> None:
    text = str(zskip.open(str(clustered)).explain("y = 2023 AND id < 10 AND hash(id) = 1"))
    assert "WHERE y = 2023" in text.splitlines()[0]
    assert len(text.splitlines()) == 1 + 4 + 3


def test_bad_input(clustered: Path) -> None:
    table = zskip.open(str(clustered))
    with pytest.raises(ColumnError, match='did you mean "user"'):
        table.explain("usr = 1")
    with pytest.raises(PredicateError):
        table.explain("id <")
    with pytest.raises(InputError, match="analyze=True needs Spark"):
        table.explain("id = 1", analyze=True)


def test_info_tells_the_clustering_of_the_columns_asked_for(clustered: Path) -> None:
    table = zskip.open(str(clustered))
    assert [column.column for column in table.info().clustering] == ["id", "user"]
    by_id, by_region, by_price = table.info(["ID", "region", "price"]).clustering
    assert by_id.files == len(table.files())
    assert by_id.average_depth < by_price.average_depth
    assert by_region.constant_files == by_region.files
    with pytest.raises(ColumnError, match="usr"):
        table.info("usr")
    with pytest.raises(InputError, match="no order"):
        table.info("tags")
