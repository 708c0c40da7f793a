"""`zskip.sql` with Spark: the rows of plain Spark from fewer files, Delta's metrics, and clear refusals."""

from __future__ import annotations

import shutil
import uuid
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tables
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip import errors
from zskip.formats.parquet import log
from zskip.records import ScanReport
from zskip.spark.scan.rule import reports
from zskip.storage import Storage

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(spark: SparkSession) -> SparkSession:
    """A session of its own: temporary views of other tests would hide the tables."""
    return spark.newSession()


@pytest.fixture(scope="module")
def database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database of its own, which keeps its tables below a temporary directory."""
    name = f"zskip_{uuid.uuid4().hex[:8]}"
    home = tmp_path_factory.mktemp("warehouse")
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name} LOCATION '{home}'")
    spark.catalog.setCurrentDatabase(name)
    yield name
    spark.catalog.setCurrentDatabase(before)
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture(scope="module")
def plain(spark: SparkSession, database: str) -> str:
    """`plain`: a managed table without partitions, clustered by id and v into 8 files."""
    spark.range(4000).selectExpr("id", "pmod(hash(id), 100) AS v", "array(id) AS l").write.saveAsTable("plain")
    zskip.sql(spark, "OPTIMIZE plain ZORDER BY (id, v) WITH (files = 8)")
    return "plain"


@pytest.fixture(scope="module")
def parts(spark: SparkSession, database: str) -> str:
    """`parts`: a managed table, its partitions in the catalog, clustered by id and v into 15 files."""
    rows = spark.range(3000).selectExpr("id", "pmod(hash(id), 100) AS v", "concat('0', id % 5) AS k")
    rows.write.partitionBy("k").saveAsTable("parts")
    zskip.sql(spark, "OPTIMIZE parts ZORDER BY (id, v) WITH (files = 15)")
    return "parts"


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tables.make_events(tmp_path_factory.mktemp("sql ä`b") / 'it\'s "t"')
    zskip.table(spark, str(path)).optimize(by=["id", "user"], files=8)
    return path


def name_of(path: Path) -> str:
    return "parquet.`" + str(path).replace("`", "``") + "`"


def read(spark: SparkSession, text: str) -> tuple[list[Any], list[ScanReport]]:
    """The rows of a statement, and what zskip's scans of it read."""
    reports._scans = reports._Latest(reports._SCAN_BYTES)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.ZskipWarning)
        rows = zskip.sql(spark, text).collect()
    return rows, list(zskip.scans(spark))


def same(spark: SparkSession, text: str, scans: int) -> list[ScanReport]:
    """Check that a query gives plain Spark's rows, and that all of its tables skip files."""
    rows, found = read(spark, text)
    assert sorted(map(repr, rows)) == sorted(map(repr, spark.sql(text).collect()))
    assert rows
    assert len(found) == scans
    assert all(scan.files < scan.files_total for scan in found)
    return found


QUERIES = [
    ("SELECT count(*), sum(v) FROM plain WHERE id < 100", 1),
    ("SELECT * FROM plain p WHERE p.id BETWEEN 10 AND 20 AND size(l) = 1", 1),
    ("SELECT count(*) FROM parts WHERE k = '03' AND id < 500", 1),
    ("SELECT DISTINCT k FROM parts WHERE id < 300", 1),
    ("SELECT a.id, b.v FROM plain a JOIN parts b ON a.id = b.id WHERE a.id < 50 AND b.id < 60", 2),
    ("WITH x AS (SELECT * FROM plain WHERE id < 90) SELECT count(*) FROM x UNION ALL SELECT max(id) FROM x", 1),
    ("SELECT count(*) FROM range(100) r WHERE r.id IN (SELECT id FROM plain WHERE id < 40)", 1),
    ("SELECT id FROM plain WHERE id < 300 AND id = (SELECT max(id) FROM parts WHERE id < 200)", 2),
    (
        "SELECT count(*) FROM plain p WHERE id < 200 AND EXISTS (SELECT 1 FROM parts q WHERE q.id = p.id AND q.id < 9)",
        2,
    ),
    ("SELECT id, (SELECT max(v) FROM parts WHERE id < 10) AS m FROM plain WHERE id < 20", 2),
    ("SELECT id, _metadata.row_index FROM plain WHERE id < 20 ORDER BY id", 1),
    ("SELECT id, rank() OVER (PARTITION BY v ORDER BY id) r FROM plain WHERE id < 400", 1),
    ("SELECT v, count(*) FROM plain WHERE id < 100 GROUP BY ROLLUP (v)", 1),
    ("FROM plain SELECT id WHERE id < 10", 1),
    ("TABLE few", 1),
    ("SELECT * FROM few f JOIN temp_few t USING (id)", 2),
    ("SELECT * FROM VALUES (1), (2) AS t(a) LATERAL VIEW explode(array(a, 3)) e AS b", 0),
]


@pytest.fixture(scope="module")
def views(spark: SparkSession, plain: str, parts: str) -> None:
    """`few` of `plain`, and `temp_few` of `parts`."""
    spark.sql("CREATE VIEW few AS SELECT id, v AS w FROM plain WHERE id < 30")
    spark.sql("CREATE TEMPORARY VIEW temp_few AS SELECT id FROM parts WHERE id BETWEEN 5 AND 50")


@pytest.mark.parametrize(("text", "scans"), QUERIES, ids=[text for text, _ in QUERIES])
def test_queries_give_the_rows_of_spark_from_fewer_files(
    spark: SparkSession, views: None, text: str, scans: int
) -> None:
    rows, found = read(spark, text)
    assert sorted(map(repr, rows)) == sorted(map(repr, spark.sql(text).collect()))
    assert rows
    assert all(scan.files < scan.files_total for scan in found)
    assert len({scan.files_total for scan in found}) <= scans
    assert len(found) >= scans


def test_paths_and_temporary_views_over_them(spark: SparkSession, events: Path) -> None:
    name = name_of(events)
    same(spark, f"SELECT id, user FROM {name} WHERE id < 40 AND name > 'name-1'", 1)
    spark.read.parquet(str(events)).createOrReplaceTempView("seen")
    same(spark, "SELECT count(*) FROM seen WHERE id < 40", 1)
    frame = zskip.sql(spark, f"SELECT * FROM {name}")
    assert frame.schema == spark.read.parquet(str(events)).schema


def test_schema_and_order_of_a_query_stay(spark: SparkSession, parts: str) -> None:
    text = "SELECT k AS K, * FROM parts WHERE id < 7 ORDER BY id DESC LIMIT 5"
    frame = zskip.sql(spark, text)
    assert frame.schema == spark.sql(text).schema
    assert frame.collect() == spark.sql(text).collect()
    assert "ZskipFiles" in frame._jdf.queryExecution().toString()
    assert frame.filter("id = 3").count() == 1


def test_a_catalog_s_types_of_partitions_stay(spark: SparkSession, parts: str) -> None:
    # The directories look like numbers; the table says strings.
    rows, scans = read(spark, "SELECT DISTINCT k FROM parts WHERE k = '01' AND id < 300")
    assert [row.k for row in rows] == ["01"]
    assert scans[0].files < scans[0].files_total
    assert spark.table("parts").schema["k"].dataType.typeName() == "string"


def test_commands_run_once(spark: SparkSession, database: str, plain: str) -> None:
    zskip.sql(spark, "CREATE TABLE made USING parquet AS SELECT id FROM plain WHERE id < 10")
    assert zskip.sql(spark, "SELECT count(*) FROM made").first()[0] == 10
    zskip.sql(spark, "INSERT INTO made SELECT id FROM plain WHERE id < 5")
    zskip.sql(spark, "WITH x AS (SELECT 1L AS id) INSERT INTO made SELECT * FROM x").collect()
    assert spark.table("made").count() == 16
    assert zskip.sql(spark, "SET spark.sql.shuffle.partitions").first()[1] == "4"
    assert "id" in [row.col_name for row in zskip.sql(spark, "DESCRIBE made").collect()]
    zskip.sql(spark, "DROP TABLE made")
    assert not spark.catalog.tableExists("made")


def test_new_files_are_read(spark: SparkSession, database: str) -> None:
    spark.range(1000).selectExpr("id", "id % 7 AS v").write.saveAsTable("grows")
    zskip.sql(spark, "OPTIMIZE grows ZORDER BY (id, v) WITH (files = 4)")
    assert zskip.sql(spark, "SELECT count(*) FROM grows").first()[0] == 1000
    spark.sql("INSERT INTO grows VALUES (5, 1), (5000, 2)")
    with pytest.warns(errors.ZskipWarning, match="index knows nothing of"):
        assert zskip.sql(spark, "SELECT count(*) FROM grows WHERE id = 5").first()[0] == 2
    # Without a BY: as it was clustered last. Spark sees the new files at once.
    metrics = zskip.sql(spark, "OPTIMIZE grows WITH (files = 3)").first().metrics
    assert metrics.numFilesAdded == 3
    assert spark.sql("SELECT count(*) FROM grows").first()[0] == 1002


def test_what_files_lack_by_default(spark: SparkSession, database: str) -> None:
    """Old files do not hold null where the catalog has a default."""
    spark.range(100).selectExpr("id", "id % 7 AS v").write.saveAsTable("older")
    zskip.sql(spark, "OPTIMIZE older ZORDER BY (id, v) WITH (files = 4)")
    spark.sql("ALTER TABLE older ADD COLUMNS (c INT DEFAULT 5, d INT)")
    for where in ("c = 5", "c IS NOT NULL", "d IS NULL", "c = 5 AND id < 10"):
        text = f"SELECT count(*) FROM older WHERE {where}"
        rows, scans = read(spark, text)
        assert rows == spark.sql(text).collect() != [(0,)]
        assert len(scans) == 1
    assert read(spark, "SELECT count(*) FROM older WHERE d = 1")[1][0].files == 0


def test_partitions_that_the_catalog_does_not_know(spark: SparkSession, database: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = spark.range(500).selectExpr("id", "id % 7 AS v", "id % 5 AS k")
    rows.write.partitionBy("k").parquet(str(path))
    zskip.sql(spark, f"OPTIMIZE '{path}' ZORDER BY (id, v)")
    spark.sql(f"CREATE TABLE outside (id LONG, v LONG, k LONG) USING parquet PARTITIONED BY (k) LOCATION '{path}'")
    spark.sql("ALTER TABLE outside ADD PARTITION (k = 1)")
    assert read(spark, "SELECT count(*) FROM outside")[0] == [(100,)]
    with pytest.raises(errors.UnsupportedError, match="MSCK REPAIR TABLE"):
        zskip.sql(spark, "OPTIMIZE outside ZORDER BY (id, v)")
    spark.sql("MSCK REPAIR TABLE outside")
    rows, scans = read(spark, "SELECT id FROM outside WHERE k = 2")
    assert (len(rows), scans[0].files) == (100, 1)
    elsewhere = tmp_path / "elsewhere"
    shutil.move(path / "k=3", elsewhere)
    spark.sql(f"ALTER TABLE outside PARTITION (k = 3) SET LOCATION '{elsewhere}'")
    assert read(spark, "SELECT count(*) FROM outside")[0] == [(500,)]
    assert len(read(spark, "SELECT id FROM outside WHERE k = 3 AND id < 50")[0]) == 10


def test_a_rewrite_that_crashed_is_finished_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    spark.range(1000).selectExpr("id", "id % 7 AS v").write.parquet(str(path))
    zskip.table(spark, str(path)).index()

    def crash(storage: Storage, entry: log.Entry) -> None:
        storage.rename(entry.removed[0].path, f"{log.TRASH}/{entry.version:020d}/crashed")
        raise KeyboardInterrupt

    monkeypatch.setattr(log, "_finish_by_renames", crash)
    with pytest.raises(KeyboardInterrupt):
        zskip.table(spark, str(path)).optimize(by=["id", "v"], files=4)
    monkeypatch.undo()
    assert spark.read.parquet(str(path)).count() < 1000
    assert zskip.sql(spark, f"SELECT sum(id) FROM {name_of(path)} WHERE id < 900").first()[0] == 404550
    assert spark.read.parquet(str(path)).count() == 1000


def test_cached_tables_stay_cached(spark: SparkSession, plain: str, parts: str) -> None:
    spark.sql("CACHE TABLE plain")
    try:
        rows, scans = read(spark, "SELECT count(*) FROM plain a JOIN parts b USING (id) WHERE id < 50")
        assert rows[0][0] == 50
        assert [scan.files_total for scan in scans] == [15]
    finally:
        spark.sql("UNCACHE TABLE plain")


def test_optimize_gives_the_metrics_of_delta(spark: SparkSession, tmp_path: Path) -> None:
    path = tables.make_partitioned(tmp_path / "t")
    sizes = [file.stat().st_size for file in tables.visible(path) if "y=2023" in str(file)]
    row = zskip.sql(spark, f"OPTIMIZE '{path}' WHERE y = 2023 HILBERT BY (id, user) WITH (files = 9, seed = 4)").first()
    assert row.path == str(path)
    found = row.metrics
    assert (found.numFilesAdded, found.numFilesRemoved) == (9, len(sizes))
    removed = found.filesRemoved
    assert (removed.min, removed.max, removed.totalFiles, removed.totalSize) == (
        min(sizes),
        max(sizes),
        len(sizes),
        sum(sizes),
    )
    assert removed.avg == pytest.approx(sum(sizes) / len(sizes))
    new = [file.stat().st_size for file in tables.visible(path) if "y=2023" in str(file)]
    assert (found.filesAdded.min, found.filesAdded.max, found.filesAdded.totalSize) == (min(new), max(new), sum(new))
    assert found.partitionsOptimized == 4
    assert found.totalConsideredFiles == len(sizes)
    assert zskip.open(str(path)).info().layout.curve == "hilbert"
    # Nothing to do.
    empty = zskip.sql(spark, f"OPTIMIZE '{path}' WHERE y = 1999").first().metrics
    assert (empty.numFilesAdded, empty.filesAdded.min, empty.partitionsOptimized) == (0, None, 0)
    # One column is a linear order.
    zskip.sql(spark, f"OPTIMIZE {name_of(path)} ZORDER BY id")
    assert zskip.open(str(path)).info().layout.by == ("id",)


def test_explain_skipping(spark: SparkSession, plain: str, parts: str) -> None:
    text = "SELECT count(*) FROM parts JOIN plain USING (id) WHERE k = '02' AND id < 900 AND bit_count(parts.v) != 4"
    rows = zskip.sql(spark, f"EXPLAIN SKIPPING {text};").collect()
    of_parts = [row for row in rows if row.table.endswith("parts")]
    assert (of_parts[0].step, of_parts[0].files) == ("table", 15)
    assert of_parts[1].step.startswith("partitions: ")
    assert (of_parts[1].files, of_parts[1].skipped) == (3, 12)
    (step,) = [row for row in of_parts if row.step == "id < 900L"]
    assert step.skipped > 0
    (unknown,) = [row for row in of_parts if "BIT_COUNT" in row.step.upper()]
    assert "not supported" in unknown.reason
    assert of_parts[-1].step == "read"
    assert of_parts[-1].files == step.files
    _, scans = read(spark, text)
    (scan,) = [scan for scan in scans if scan.table.endswith("/parts")]
    assert (scan.files, scan.bytes, scan.rows) == (of_parts[-1].files, of_parts[-1].bytes, of_parts[-1].rows)


def test_explain_skipping_runs_nothing(spark: SparkSession, plain: str, tmp_path: Path) -> None:
    for command in (
        "INSERT INTO plain SELECT * FROM plain",
        "DROP TABLE plain",
        "CREATE TABLE z USING parquet AS SELECT 1 AS a",
    ):
        with pytest.raises(errors.PredicateError, match="is a command"):
            zskip.sql(spark, f"EXPLAIN SKIPPING {command}")
    assert spark.table("plain").count() == 4000
    assert not spark.catalog.tableExists("z")
    bad = zskip.sql(spark, "EXPLAIN SKIPPING SELECT raise_error('it ran') FROM plain WHERE id < 10").collect()
    assert [row.step for row in bad] == ["table", "id IS NOT NULL", "id < 10L", "read"]
    spark.range(3).write.parquet(str(tmp_path / "raw"))
    (row,) = zskip.sql(spark, f"EXPLAIN SKIPPING SELECT * FROM parquet.`{tmp_path / 'raw'}`").collect()
    assert "not indexed" in row.reason
    with pytest.raises(ParseException, match=r"line 2, pos 1\b"):
        zskip.sql(spark, "EXPLAIN SKIPPING\n SELEC 1")


@pytest.mark.parametrize(
    ("query", "step", "skips", "reason"),
    [
        ("SELECT * FROM plain WHERE id > 5 ORDER BY id DESC LIMIT 3", "top 3 by id DESC", True, ""),
        ("SELECT * FROM plain WHERE id > 5 LIMIT 3", "limit 3", True, ""),
        ("SELECT * FROM plain LIMIT 100000", "limit 100000", False, "fewer files might not hold enough matching rows"),
        ("SELECT count(*), max(id) FROM plain WHERE id > 5", "counted by the index: count(*), max(id)", True, ""),
        ("SELECT * FROM plain JOIN parts USING (id) WHERE k = '02'", "join with parts on id", False, "not worth it: "),
        (
            "SELECT * FROM plain LEFT SEMI JOIN few_ids USING (id)",
            "join with a table on id",
            False,
            "known when the query",
        ),
    ],
)
def test_every_kind_of_pruning_is_explained(
    spark: SparkSession, plain: str, parts: str, query: str, step: str, skips: bool, reason: str
) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW few_ids AS SELECT k AS id FROM VALUES (3L), (5L) AS t(k)")
    spark.conf.set("spark.zskip.joins", "always" if "few_ids" in query else "auto")
    try:
        rows = zskip.sql(spark, f"EXPLAIN SKIPPING {query}").collect()
    finally:
        spark.conf.unset("spark.zskip.joins")
    (found,) = [row for row in rows if row.step == step]
    assert (found.skipped > 0) == skips
    assert reason in found.reason
    assert rows[-1].step == "read"
    assert {row.table.rpartition(".")[2]: row.files for row in rows}[found.table.rpartition(".")[2]] == found.files
    if " JOIN " not in query:
        _, scans = read(spark, query)
        assert sum(scan.files for scan in scans) == found.files


def test_subqueries_are_explained(spark: SparkSession, plain: str, parts: str) -> None:
    text = "EXPLAIN SKIPPING SELECT * FROM plain WHERE id = (SELECT max(id) FROM parts WHERE id < 20)"
    rows = zskip.sql(spark, text).collect()
    assert {row.table.rpartition(".")[2] for row in rows} == {"plain", "parts"}
    df = zskip.table(spark, zskip.sql(spark, "OPTIMIZE plain WITH (files = 8)").first().path).df()
    df.createOrReplaceTempView("own")
    rows = zskip.sql(spark, "EXPLAIN SKIPPING SELECT * FROM own WHERE id < 20").collect()
    assert rows[-1].files < rows[0].files


def test_optimize_without_columns_merges_small_files(spark: SparkSession, database: str) -> None:
    rows = spark.range(900).selectExpr("id", "concat('k', id % 2) AS k").repartition(6)
    rows.write.partitionBy("k").saveAsTable("small")
    before = spark.table("small").inputFiles()
    (first,) = zskip.sql(spark, "OPTIMIZE small WHERE k = 'k1'").collect()
    assert (first.metrics.numFilesRemoved, first.metrics.numFilesAdded, first.metrics.partitionsOptimized) == (6, 1, 1)
    assert (first.metrics.totalConsideredFiles, first.metrics.totalFilesSkipped) == (6, 0)
    assert first.metrics.numBatches == 1
    assert first.metrics.filesRemoved.totalSize > first.metrics.filesAdded.totalSize > 0
    (both,) = zskip.sql(spark, "OPTIMIZE small WITH (target_file_size = '1GB', min_file_size = 1000000)").collect()
    assert (both.metrics.numFilesRemoved, both.metrics.numFilesAdded, both.metrics.totalFilesSkipped) == (6, 1, 1)
    (none,) = zskip.sql(spark, "OPTIMIZE small").collect()
    assert (none.metrics.numFilesAdded, none.metrics.numBatches) == (0, 0)
    after = spark.table("small")
    assert (len(before), len(after.inputFiles())) == (12, 2)
    assert after.selectExpr("count(*)", "sum(id)", "sum(CAST(substr(k, 2) AS int))").first() == (900, 404550, 450)


def test_optimize_incremental(spark: SparkSession, database: str) -> None:
    spark.range(900).selectExpr("id", "pmod(hash(id), 50) AS v").repartition(3).write.saveAsTable("grown")
    with pytest.raises(errors.InputError, match="never clustered"):
        zskip.sql(spark, "OPTIMIZE grown INCREMENTAL")
    statement = "OPTIMIZE grown INCREMENTAL ZORDER BY (id, v) WITH (target_file_size = '1kB', dry_run = {})"
    (planned,) = zskip.sql(spark, statement.format("true")).collect()
    (done,) = zskip.sql(spark, statement.format("false")).collect()
    assert (planned.batches, planned.files_removed, planned.dry_run) == (1, 3, True)
    assert (done.batches, done.files_removed, done.dry_run) == (1, 3, False)
    assert done.files_added == len(spark.table("grown").inputFiles())
    assert done.kept_after < done.kept_before
    assert spark.table("grown").selectExpr("count(*)", "sum(id)").first() == (900, 404550)
    (told,) = zskip.table(spark, "grown").history()
    assert (told.operation, told.by, told.rows, told.files_removed) == ("maintain", ("id", "v"), 900, 3)


REFUSED: list[tuple[str, type[Exception], str]] = [
    ("OPTIMIZE parts ZORDER BY (id, k)", errors.ColumnError, '"k" is a partition column'),
    ("OPTIMIZE plain ZORDER BY (id, l)", errors.ColumnError, '"l" of type'),
    ("OPTIMIZE plain ZORDER BY (id, nope)", errors.ColumnError, 'no column "nope"'),
    ("OPTIMIZE parts WHERE id = 3 ZORDER BY (id, v)", errors.PredicateError, '"id" .* not a partition column'),
    ("OPTIMIZE parts WHERE kk = 3", errors.ColumnError, '"kk"'),
    ("OPTIMIZE parts WHERE k = = 3", errors.PredicateError, r"PARSE_SYNTAX_ERROR.*near '='.*line 1, pos 25"),
    ("OPTIMIZE parts\nWHERE k = 3 3", errors.PredicateError, r"near '3'.*line 2, pos 12"),
    ("OPTIMIZE parts WHERE k = 'a' ZORDER id, v", errors.PredicateError, "PARSE_SYNTAX_ERROR"),
    ("OPTIMIZE nowhere ZORDER BY (a, b)", errors.TableNotFoundError, 'no table "nowhere"'),
    ("OPTIMIZE no_db.`it's`.t ZORDER BY (a, b)", errors.ZskipError, "it's"),
    ("OPTIMIZE '/no/such' ZORDER BY (a, b)", errors.TableNotFoundError, "/no/such"),
    ("OPTIMIZE '' ZORDER BY (a, b)", errors.InputError, "path is empty"),
    ("OPTIMIZE a_view ZORDER BY (id, v)", errors.UnsupportedError, '"a_view" is a view'),
    ("OPTIMIZE a_temp_view ZORDER BY (id, v)", errors.UnsupportedError, '"a_temp_view" is a view'),
    ("OPTIMIZE as_json ZORDER BY (id, v)", errors.UnsupportedError, "(?i)json, not parquet"),
    ("OPTIMIZE delta.`/data/t` ZORDER BY (id, v)", errors.InputError, "not a table of the format delta"),
    ("OPTIMIZE in_buckets ZORDER BY (id, v)", errors.UnsupportedError, "bucketed"),
    ("OPTIMIZE untouched WITH (files = 3)", errors.InputError, "never clustered.*ZORDER BY"),
    ("OPTIMIZE plain WITH (min_file_size = 3)", errors.InputError, "min_file_size.*merging small files"),
    ("OPTIMIZE untouched WITH (min_file_size = '1GB')", errors.InputError, "more than target_file_size"),
    ("OPTIMIZE plain INCREMENTAL WITH (files = 3)", errors.PredicateError, 'no option "files"; .*budget'),
    ("OPTIMIZE plain INCREMENTAL WHERE id = 3", errors.PredicateError, "expected ZORDER BY, WITH"),
    ("VERIFY a_view", errors.UnsupportedError, "is a view"),
    ("SELECT nope FROM plain", AnalysisException, "nope"),
    ("SELEC 1", ParseException, "SELEC"),
]


@pytest.fixture(scope="module")
def odd(spark: SparkSession, plain: str, parts: str) -> None:
    """Things that are no tables of zskip's."""
    spark.sql("CREATE OR REPLACE VIEW a_view AS SELECT * FROM plain")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW a_temp_view AS SELECT * FROM plain")
    rows = spark.range(20).selectExpr("id", "id % 3 AS v")
    rows.write.format("json").saveAsTable("as_json")
    rows.write.bucketBy(2, "id").saveAsTable("in_buckets")
    rows.write.saveAsTable("untouched")


@pytest.mark.parametrize(("text", "error", "says"), REFUSED, ids=[text for text, *_ in REFUSED])
def test_refusals(spark: SparkSession, odd: None, text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        zskip.sql(spark, text)


def test_other_readings_of_a_directory_are_left_to_spark(spark: SparkSession, events: Path) -> None:
    """Options that choose files are Spark's to follow; with those that change values the table is read in full."""
    spark.read.option("pathGlobFilter", "*-00000*").parquet(str(events)).createOrReplaceTempView("globbed")
    assert read(spark, "SELECT count(*) FROM globbed")[0] == spark.sql("SELECT count(*) FROM globbed").collect()
    spark.read.option("datetimeRebaseMode", "LEGACY").parquet(str(events)).createOrReplaceTempView("rebased")
    with pytest.warns(errors.ZskipWarning, match="read in full: it is read with the option datetimerebasemode"):
        frame = zskip.sql(spark, "SELECT count(*) FROM rebased")
    assert "ZskipFiles" not in frame._jdf.queryExecution().toString()
    spark.read.schema("id LONG, zzz STRING").parquet(str(events)).createOrReplaceTempView("narrow")
    same(spark, "SELECT id, zzz FROM narrow WHERE id < 10", 1)
    assert read(spark, "SELECT id FROM narrow WHERE zzz = 'x'")[0] == []


def test_no_other_query_of_the_session_prunes(spark: SparkSession, plain: str) -> None:
    def shown(frame: DataFrame) -> str:
        return str(frame._jdf.queryExecution().toString())

    text, mark = "SELECT * FROM plain WHERE id < 20", "Location: ZskipFiles"
    pruned, ordinary = zskip.sql(spark, text), spark.sql(text)
    assert mark not in shown(ordinary)
    assert mark in shown(pruned)
    assert mark not in shown(spark.sql(text))
    assert shown(pruned.join(ordinary, "id")).count(mark) == 1
    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(lambda i: shown(zskip.sql(spark, text) if i % 2 else spark.sql(text)), range(8)))
    assert [mark in plan for plan in plans] == [i % 2 == 1 for i in range(8)]


def test_views_of_a_pruned_query_prune(spark: SparkSession, plain: str) -> None:
    zskip.sql(spark, "SELECT id, v FROM plain WHERE id < 400").createOrReplaceTempView("pruned_view")
    assert spark.sql("SELECT * FROM pruned_view WHERE id < 20").count() == 20
    (scan,) = zskip.scans(spark)
    assert scan.files < scan.files_total
