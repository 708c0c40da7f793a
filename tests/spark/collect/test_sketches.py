"""Sketches in the index: built by Spark, kept up to date, used by every query, and left out with a reason."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, InputError, PredicateError, ZskipWarning
from zskip.predicate import register_function

pytestmark = pytest.mark.spark
FILES, ROWS = 12, 200
WORDS = [f"{a}{b}{c}ing" for a in "bcdfgh" for b in "aeiou" for c in "lmnr"]


def make(path: Path) -> Path:
    """Files whose columns range over the same values, each of them in few files."""
    rng = random.Random(3)
    path.mkdir()
    for file in range(FILES):
        keys = [FILES * rng.randrange(10**6) + file for _ in range(ROWS)]
        words = [rng.choice(WORDS[file * 10 : file * 10 + 10]) for _ in range(ROWS)]
        columns = {
            "key": keys,
            "note": [f"x {word} y" for word in words],
            "email": [f"U{k % 7}@Site{file}.org" if k % 5 else None for k in keys],
            "lat": np.array([10.0 * (file % 4) + rng.random() for _ in keys]),
            "lon": np.array([10.0 * (file // 4) + rng.random() for _ in keys]),
            "gap": [rng.choice([file, 10**6 + file]) for _ in keys],
        }
        pq.write_table(pa.table(columns), path / f"part-{file:02}.parquet")
    return path


SKETCHES = ["bloom(0.01):key", "ngram(3):note", "values(20):lower(email)", "geo(64):lat,lon", "ranges(8):gap"]
QUERIES = [
    ("key = {key}", 3),
    ("key IN ({key}, {other})", 5),
    ("note LIKE '%caling%'", 3),
    ("contains(note, 'caling')", 3),
    ("lower(email) = 'u3@site4.org'", 1),
    ("lat BETWEEN 9 AND 12 AND lon BETWEEN 9 AND 12", 3),
    ("gap = 500", 0),
    ("gap BETWEEN 500 AND 900000", 0),
    ("NOT key = {key}", FILES),
    ("key = {key} OR upper(note) = 'X'", FILES),
]


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make(tmp_path_factory.mktemp("sketches") / "t")
    zskip.table(spark, str(path)).index(sketches=SKETCHES)
    return path


def keys(path: Path) -> list[int]:
    return [pq.read_table(path / f"part-{file:02}.parquet")["key"][5].as_py() for file in (2, 7)]


def names(files: list[str]) -> set[str]:
    return {Path(file).name for file in files}


@pytest.mark.parametrize(("where", "most"), QUERIES)
def test_queries_skip_by_sketches_and_lose_nothing(spark: SparkSession, path: Path, where: str, most: int) -> None:
    key, other = keys(path)
    where = where.format(key=key, other=other)
    table = zskip.table(spark, str(path))
    full = spark.read.parquet(str(path)).where(where)
    holding = {row.f.rpartition("/")[2] for row in full.selectExpr("input_file_name() AS f").distinct().collect()}
    kept = names(zskip.open(str(path)).files(where))
    assert holding <= kept
    assert len(kept) <= most
    pruned = table.df().where(where)
    assert sorted(map(repr, pruned.collect())) == sorted(map(repr, full.collect()))
    assert table.last_scan is not None
    assert table.last_scan.files == len(kept)


def test_what_the_index_says_of_its_sketches(spark: SparkSession, path: Path) -> None:
    found = zskip.open(str(path)).info().index
    assert found is not None
    assert {sketch.spec: sketch.files for sketch in found.sketches} == dict.fromkeys(
        ["bloom(0.01):key", "ngram(3):note", "values(20):lower(email)", "geo(64):lat, lon", "ranges(8):gap"], FILES
    )
    assert all(sketch.bytes > 0 and sketch.left_out == 0 for sketch in found.sketches)
    said = zskip.open(str(path)).explain("key = 3 AND gap = 500")
    assert any("ranges(8)" in leaf.reason or leaf.skipped == FILES for leaf in said.leaves)


@pytest.mark.slow
def test_verify_runs_with_sketches(spark: SparkSession, path: Path) -> None:
    found = zskip.table(spark, str(path)).verify(queries=15, seed=2)
    assert found.mismatches == ()


def test_a_state_is_of_all_rows_of_its_file_however_spark_would_cut_it(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    keys = np.random.default_rng(1).integers(0, 10**9, 40_000)
    pq.write_table(pa.table({"key": keys}), tmp_path / "t" / "a.parquet", row_group_size=5_000)
    pq.write_table(pa.table({"key": [1, 2]}), tmp_path / "t" / "b.parquet")
    session = spark.newSession()
    for name, value in {"minPartitionNum": 64, "openCostInBytes": 1, "maxPartitionBytes": 50_000}.items():
        session.conf.set(f"spark.sql.files.{name}", value)
    assert session.read.parquet(str(tmp_path / "t")).rdd.getNumPartitions() > 4
    table = zskip.table(session, str(tmp_path / "t"))
    assert [(s.files, s.left_out) for s in table.index(sketches=["bloom(0.001):key"]).sketches] == [(2, 0)]
    assert all("a.parquet" in names(table.files(f"key = {key}")) for key in keys[::400].tolist())


def test_a_file_that_two_tasks_read_gets_no_state(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zskip.spark.collect import sketching

    path = make(tmp_path / "t")
    honest = sketching._collect_states
    monkeypatch.setattr(sketching, "_collect_states", lambda *args: pa.concat_tables([honest(*args)] * 2))
    info = zskip.table(spark, str(path)).index(sketches=["bloom:key"])
    assert [(s.files, s.left_out, s.reason) for s in info.sketches] == [(0, FILES, "more than one task read it")]


def test_only_new_files_are_sketched(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zskip.spark.collect import sketching

    path = make(tmp_path / "t")
    table = zskip.table(spark, str(path))
    built: list[int] = []
    honest = sketching.build_sketches

    def build(spark, schema, sketches, lacking, places, **rest):  # type: ignore[no-untyped-def]
        built.append(int(np.logical_or.reduce(lacking).sum()))
        return honest(spark, schema, sketches, lacking, places, **rest)

    monkeypatch.setattr(sketching, "build_sketches", build)
    table.index(sketches=["bloom:key"])
    assert built == [FILES]
    table.index()
    assert built == [FILES]
    rows = pq.read_table(path / "part-03.parquet")
    pq.write_table(rows.set_column(0, "key", pa.array(range(-ROWS, 0))), path / "part-03.parquet")
    (path / "part-04.parquet").unlink()
    with pytest.warns(ZskipWarning, match="knows nothing of 1"):
        assert "part-03.parquet" in names(table.files("key = -5")), "its old state says nothing of it"
    info = table.index()
    assert built == [FILES, 1]
    assert [(s.files, s.left_out) for s in info.sketches] == [(FILES - 1, 0)]
    assert names(table.files("key = -5")) == {"part-03.parquet"}
    table.optimize(by=["key", "gap"], files=4)
    info = table.index()
    assert built == [FILES, 1, 4], "a rewrite brings the sketches of its files"
    assert [s.files for s in info.sketches] == [4]
    info = table.index(sketches=["ngram(3):note"], drop=["bloom(0.01):key"])
    assert [s.spec for s in info.sketches] == ["ngram(3):note"]
    names_in_index = {p.name for p in (path / "_zskip" / "index").glob("sketch-*")}
    assert len(names_in_index) >= 2, "what older readers may need stays for some hours"


def test_users_functions_and_budgets(spark: SparkSession, tmp_path: Path) -> None:
    register_function("mail_host", "string", lambda email: pc.replace_substring_regex(email, "^.*@", ""))
    path = make(tmp_path / "t")
    table = zskip.table(spark, str(path))
    info = table.index(sketches=["values(5):mail_host(email)", "values(3):key"])
    assert [(s.files, s.left_out) for s in info.sketches] == [(FILES, 0), (0, FILES)]
    assert "values" in info.sketches[1].reason or "distinct" in info.sketches[1].reason
    assert names(table.files("mail_host(email) = 'Site4.org'")) == {"part-04.parquet"}
    info = table.index(sketches=["bloom(0.001):note"], budget=10)
    assert info.sketches[2].left_out == FILES
    assert "budget is 10" in info.sketches[2].reason
    taken = sum(sketch.bytes for sketch in info.sketches)
    info = table.index(sketches=["ngram(3):note"], total_budget=f"{taken + 1} B")
    assert info.sketches[3].left_out == FILES
    assert [s.bytes for s in info.sketches] == [taken, 0, 0, 0]
    assert names(table.files(f"note = 'x {WORDS[44]} zz'")) == {"part-04.parquet"}, "by its bounds alone"


def test_days_that_calendars_read_differently(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    for i, year in enumerate((1850, 1950, 2020)):
        days = [dt.date(year, 1, 1) + dt.timedelta(7 * k) for k in range(40)] + [dt.date(2024, 12, 31)]
        pq.write_table(pa.table({"d": days, "n": [None] * 41}), path / f"{i}.parquet")
    table = zskip.table(spark, str(path))
    info = table.index(sketches=["bloom(0.001):d", "values(60):year(d)"])
    assert [(s.files, s.left_out) for s in info.sketches] == [(2, 1), (2, 1)]
    assert "before 1900" in info.sketches[0].reason
    assert names(table.files("d = DATE '2023-05-05'")) == {"0.parquet"}
    assert names(table.files("year(d) = 2001")) == {"0.parquet"}


def test_damaged_states_keep_their_files(spark: SparkSession, tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    table = zskip.table(spark, str(path))
    table.index(sketches=["bloom:key"])
    assert len(table.files("key = -1")) == 0 or len(table.files("key = 77")) <= 2
    (file,) = (path / "_zskip" / "index").glob("sketch-*.zskip")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    key = keys(path)[0]
    with pytest.warns(ZskipWarning, match="damaged"):
        assert names(zskip.open(str(path)).files(f"key = {key}")) == {f"part-{i:02}.parquet" for i in range(FILES)}
    with pytest.warns(ZskipWarning, match="damaged"):
        table.index()
    assert len(zskip.open(str(path)).files(f"key = {key}")) <= 3


def test_statements(spark: SparkSession, tmp_path: Path) -> None:
    path = make(tmp_path / "it's t")
    name = "parquet.`" + str(path) + "`"
    created = zskip.sql(
        spark,
        f"CREATE SKIPPING INDEX ON {name} (`key` BLOOM(0.01), gap MINMAX, lower(email) VALUES(20), (lat, lon) GEO)",
    )
    specs = ["bloom(0.01):key", "values(20):lower(email)", "geo(64):lat, lon"]
    assert [(row.sketch, row.files, row.left_out) for row in created.collect()] == [(s, FILES, 0) for s in specs]
    assert len(zskip.open(str(path)).files("lower(email) = 'u3@site4.org'")) == 1
    (path / "part-03.parquet").unlink()
    assert [row.files for row in zskip.sql(spark, f"REFRESH SKIPPING INDEX ON {name};").collect()] == [FILES - 1] * 3
    left = zskip.sql(spark, f"drop skipping index on {name} (key BLOOM(0.01))").collect()
    assert [row.sketch for row in left] == specs[1:]
    told = zskip.sql(spark, f"DESCRIBE SKIPPING INDEX ON {name}").collect()
    assert [(row.column, row.kind) for row in told] == [
        *((column, "minmax") for column in ("key", "note", "email", "lat", "lon", "gap")),
        ("lower(email)", "values(20)"),
        ("lat, lon", "geo(64)"),
    ]
    assert [row.bytes for row in told[-2:]] == [row.bytes for row in left]
    assert {(row.files, row.left_out, row.files_total) for row in told} == {(FILES - 1, 0, FILES - 1)}
    assert {(row.version, row.index_bytes) for row in told} == {
        (info.version, info.bytes) for info in [zskip.open(str(path)).info().index]
    }
    assert zskip.sql(spark, f"DESC SKIPPING INDEX ON {name};").collect() == told
    assert zskip.sql(spark, f"DROP SKIPPING INDEX ON {name}").collect() == []
    for text, said in (
        (f"CREATE SKIPPING INDEX ON {name}", "expected AUTO, or a list"),
        (f"CREATE SKIPPING INDEX ON {name} (key)", "expected a column or expression and a sketch"),
        (f"CREATE SKIPPING INDEX ON {name} (key BLOOM(0.01)", "expected a comma and a sketch"),
        (f"DESC SKIPPING INDEX {name}", "expected ON"),
    ):
        with pytest.raises(PredicateError, match=said):
            zskip.sql(spark, text)
    with pytest.raises(InputError, match="did you mean"):
        zskip.sql(spark, f"CREATE SKIPPING INDEX ON {name} (key BLOM)")


def test_bad_input(spark: SparkSession, path: Path) -> None:
    table = zskip.table(spark, str(path))
    before = table.index().version
    for sketches, words in (
        (["bloom"], "names no column"),
        (["blom:key"], 'did you mean "bloom"'),
        (["bloom(7):key"], "bloom"),
    ):
        with pytest.raises(InputError, match=words):
            table.index(sketches=sketches)
    with pytest.raises(ColumnError, match="nope"):
        table.index(sketches=["bloom:nope"])
    with pytest.raises(InputError, match="as lists"):
        table.index(sketches="bloom:key")
    with pytest.raises(InputError, match="has no sketch"):
        table.index(drop=["prefix(4):note"])
    with pytest.raises(InputError, match="needs Spark"):
        zskip.open(str(path)).index(sketches=["bloom:key"])
    assert table.index().version == before


def test_a_sketch_to_drop_that_is_not_there_is_said_before_anything_is_written(tmp_path: Path) -> None:
    path = make(tmp_path / "t")
    table = zskip.open(str(path))
    before = table.index().version
    pq.write_table(pq.read_table(path / "part-00.parquet"), path / "part-99.parquet")
    with pytest.raises(InputError, match='no sketch "bloom:key"; it has none'):
        table.index(drop=["bloom:key"])
    assert [int(file.stem.rpartition("-")[2]) for file in sorted(path.glob("_zskip/index/manifest-*"))] == [before]
