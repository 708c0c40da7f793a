"""`sketches="auto"`: what is built pays, what does not is left out, and what nobody needs any more goes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import InputError
from zskip.records import IndexInfo, SketchChoice
from zskip.rows import blocks, to_text

pytestmark = pytest.mark.spark

FILES, ROWS = 12, 2_000
LOOKUPS = [f"user = {n}" for n in range(3, 24_000, 1_111)]
CITIES = [f"get_json_object(js, '$.city') = 'city {n}'" for n in range(0, 12, 2)]


def make_logs(path: Path) -> Path:
    """Files of one service each, whose users are random, with a text and a document in JSON."""
    rng = np.random.default_rng(1)
    users = rng.permutation(FILES * ROWS)
    path.mkdir()
    for i in range(FILES):
        at = users[i * ROWS : (i + 1) * ROWS]
        # Bounds do not help: each file has a small and a large value of everything.
        user = np.concatenate([[-1, FILES * ROWS], at[2:]])
        note = [f"took {n % 97} ms" for n in at.tolist()]
        note[0], note[1] = "aaa", "zzz"
        note[7] = f"timeout in service{i}" if i % 4 == 0 else "a long wait"
        city = [json.dumps({"city": f"city {i}" if n % 2 else "city -1"}) for n in at.tolist()]
        columns = {"id": np.arange(i * ROWS, (i + 1) * ROWS), "user": user, "note": note, "js": city}
        pq.write_table(pa.table(columns), path / f"part-{i:02d}.parquet")
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return make_logs(tmp_path / "logs")


def chosen(index: IndexInfo, action: str) -> list[str]:
    assert index.choices is not None
    return [choice.spec for choice in index.choices if choice.action == action]


def text_of(index: IndexInfo) -> str:
    return to_text(blocks(index))


def files_kept(table: zskip.Table, queries: Sequence[str]) -> float:
    return float(np.mean([table.prune(where).files for where in queries]))


def test_what_a_workload_needs_is_built_and_skips_files(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    table.index()
    workload = [*LOOKUPS, *CITIES, "note LIKE '%service%'", "id < 100"]
    before = {where: sorted(map(tuple, table.df(where).collect())) for where in [*LOOKUPS[:3], *CITIES[:2]]}
    index = table.index(sketches="auto", workload=workload)
    built = chosen(index, "build")
    assert any(spec.endswith(":user") for spec in built)
    assert any("get_json_object(js, '$.city')" in spec for spec in built)
    assert not any(spec.endswith((":id", "matches:id < 100")) for spec in built)
    assert files_kept(table, LOOKUPS) < 3
    assert files_kept(table, CITIES) < 3
    assert {where: sorted(map(tuple, table.df(where).collect())) for where in before} == before
    assert index.choices is not None
    assert all(choice.saves > choice.bytes and 0 < choice.share <= 1 for choice in index.choices)
    assert all(sketch.automatic for sketch in index.sketches)
    assert "chosen by the workload" in text_of(index)
    assert "saves a query" in text_of(index)


def test_a_text_that_was_asked_twice_is_fast_the_third_time(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    table.index()
    table.record()
    where = "note LIKE '%timeout%service%'"
    counts = [table.df().where(where).count() for _ in range(2)]
    assert table.prune(where).files == FILES
    index = table.index(sketches="auto")
    assert chosen(index, "build")
    assert table.prune(where).files == FILES // 4
    assert [*counts, table.df().where(where).count()] == [3, 3, 3]


def test_what_zskip_does_not_understand_is_chosen_whatever_queries_call_the_table(
    spark: SparkSession, logs: Path
) -> None:
    table = zskip.table(spark, str(logs))
    table.index()
    table.record()
    query = (
        "SELECT count(*) AS n FROM {t} AS `my t` WHERE `my t`.note RLIKE 'time.?out' AND id % 7 < length(`my t`.note)"
    )
    with zskip.enabled(spark):
        rows = [spark.sql(query.format(t=f"parquet.`{logs}`")).collect() for _ in range(3)]
        index = table.index(sketches="auto")
        assert "matches:note RLIKE 'time.?out'" in chosen(index, "build"), text_of(index)
        assert spark.sql(query.format(t=f"parquet.`{logs}`")).collect() == rows[0]
        assert zskip.scans(spark)[0].files == 3


def test_nothing_is_built_where_nothing_is_saved(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    index = table.index(sketches="auto", workload=["note LIKE '%took%'", "user > -5", "id = 7"])
    assert index.choices == ()
    assert index.sketches == ()
    assert "no sketch is worth its bytes" in text_of(index)


def test_a_budget_is_respected(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    free = table.index(sketches="auto", workload=[*LOOKUPS, *CITIES])
    assert sum(sketch.bytes for sketch in free.sketches) > 4_000
    index = table.index(sketches="auto", workload=[*LOOKUPS, *CITIES], total_budget=4_000)
    assert 0 < sum(sketch.bytes for sketch in index.sketches) <= 4_000
    assert any(spec.endswith(":user") for spec in chosen(index, "drop"))


@pytest.mark.nightly
def test_thousands_of_conditions_cost_what_dozens_do(spark: SparkSession, logs: Path) -> None:
    """As many as are recorded at most, each of them twice; no more sketches are tried and built for them."""
    table = zskip.table(spark, str(logs))
    table.index()
    workload = [f"note LIKE '%took {n // 97}%{n % 97} ms%'" for n in range(10_000)]
    index = table.index(sketches="auto", workload=workload)
    assert 0 < len(index.sketches) <= 24 + 40
    assert sum(sketch.bytes for sketch in index.sketches) <= 1_000_000
    asked = workload[::1_000]
    assert [table.df().where(where).count() for where in asked] == [
        spark.read.parquet(str(logs)).where(where).count() for where in asked
    ]


def test_what_nobody_needs_any_more_is_dropped_but_never_what_the_user_named(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    table.index(sketches=["values(9):note", "ranges(4):user"])
    (first,) = chosen(table.index(sketches="auto", workload=LOOKUPS), "build")
    index = table.index(sketches="auto", workload=LOOKUPS)
    assert chosen(index, "keep") == [first]
    assert chosen(index, "build") == []
    index = table.index(sketches="auto", workload=CITIES)
    assert chosen(index, "drop") == [first]
    assert {"values(9):note", "ranges(4):user"} <= {sketch.spec for sketch in index.sketches}
    assert first not in {sketch.spec for sketch in index.sketches}
    (city,) = chosen(index, "build")
    assert not next(s for s in table.index(sketches=[city]).sketches if s.spec == city).automatic
    index = table.index(sketches="auto", workload=["id = 7"])
    assert index.choices == ()
    assert city in {sketch.spec for sketch in index.sketches}


def test_what_a_sketch_has_saved_is_told(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    table.record()
    for where in LOOKUPS:
        table.files(where)
    choices = table.index(sketches="auto").choices
    assert choices is not None
    assert [choice.saved for choice in choices] == [None]
    for where in LOOKUPS[:10]:
        table.files(where)
    (choice,) = table.index(sketches="auto").choices or ()
    size = sum(path.stat().st_size for path in logs.glob("*.parquet"))
    assert choice.action == "keep"
    assert choice.saved is not None
    assert 0.7 * 10 * size < choice.saved < 10 * size


def test_without_queries_the_way_out_is_named(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    with pytest.raises(InputError, match=r"none that can be used is recorded: call record\(\)"):
        table.index(sketches="auto")
    with pytest.raises(InputError, match="none that can be used"):
        table.maintain(by=["id", "user"], sketches="auto")
    with pytest.raises(InputError, match="needs Spark"):
        zskip.open(str(logs)).index(sketches="auto", workload=LOOKUPS)
    with pytest.raises(InputError, match='only with sketches="auto"'):
        table.index(workload=LOOKUPS)
    with pytest.raises(InputError, match='unknown sketches "all"; choose "auto"'):
        table.maintain(by=["id", "user"], sketches="all")
    with pytest.raises(InputError, match="total_budget"):
        table.index(sketches="auto", workload=LOOKUPS, total_budget="much")


def test_maintenance_advice_and_lakes_choose_the_same(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    table.index()
    table.record()
    for where in LOOKUPS:
        table.files(where)
    dry = table.maintain(by=["id", "js"], sketches="auto", dry_run=True)
    assert dry.sketches
    assert not table.info().index.sketches  # type: ignore[union-attr]
    spec = dry.sketches[0].spec
    assert any(spec in text for text in table.advise(columns=["id", "js"]).suggestions)
    lake = zskip.lake(spark, str(logs.parent))
    kept = lake.maintain(sketches="auto", min_gain=1e9)
    assert [line.decisions[0].partition(",")[0] for line in kept.tables] == [f"build {spec}"]
    done = table.maintain(by=["id", "js"], target_file_size="20kB", sketches="auto")
    assert [(choice.spec, choice.action) for choice in done.sketches or ()] == [(spec, "keep")]


def test_sql_chooses_too(spark: SparkSession, logs: Path) -> None:
    table = zskip.table(spark, str(logs))
    table.record()
    for where in LOOKUPS:
        table.files(where)
    (row,) = zskip.sql(spark, f"CREATE SKIPPING INDEX ON '{logs}' AUTO").collect()
    assert (row.action, row.sketch.endswith(":user"), row.saved) == ("build", True, None)
    assert isinstance((table.index(sketches=["auto"]).choices or ())[0], SketchChoice)
