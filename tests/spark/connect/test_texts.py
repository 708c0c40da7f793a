"""Texts of SQL and temporary views under Spark Connect: their tables skip files, and their rows stay the same."""

from __future__ import annotations

import random
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import query_fuzz
import random_queries
import random_rows
import tiers
from connect_server import connect_server
from connected_queries import write_table

pytest.importorskip("grpc")
pytest.importorskip("pyspark", minversion="4.0")  # Before, a request with a text brings nothing along.
from pyspark.sql.connect import functions as F
from pyspark.sql.connect.plan import SQL
from pyspark.sql.connect.session import SparkSession

import zskip
from zskip.records import Field
from zskip.spark.connect.expressions import Dialect
from zskip.spark.connect.relations import Opened, Plan
from zskip.types import DataType

describe = runpy.run_path(str(Path(__file__).parents[2] / "predicate" / "test_fixtures.py"))["describe"]
PLAIN = Dialect(double_quoted_identifiers=False, escaped_string_literals=False, is_replaced=lambda name: name == "mine")
FIELDS = [
    Field(name="a", type=DataType("integer")),
    Field(name="b", type=DataType("long")),
    Field(name="s", type=DataType("string")),
    Field(name="st", type=DataType("nested", (("q", DataType("integer")),))),
]


@pytest.fixture(scope="module")
def session():
    spark = SparkSession("sc://localhost:1")  # Nothing is sent.
    spark.client.set_retry_policies([])
    yield spark
    spark.client.close()


def plan_of_message(session, relation):
    """The plan of a message, to which all reads by paths and the view `v` are known."""
    view = session.read.parquet("/v")._plan.plan(session.client)
    return Plan(
        relation,
        lambda read: Opened(table="", fields=FIELDS, in_order=True),
        PLAIN,
        case_sensitive=False,
        find_view=lambda names: view if names == ("v",) else None,
    )


def conditions_of(plan):
    """What is true of the rows of each read."""
    return [describe(read.predicate(number, "UTC")) for number, read in enumerate(plan.reads)]


@pytest.fixture
def plan_of(session):
    """The reads of a text's tables `/t` and `v`, by their conditions, and the text when all of them are changed."""

    def plan(text, **arguments):
        columns = {name: F.lit(value) for name, value in arguments.items()}
        relation = SQL(text, None, columns).plan(session.client)
        reads_of = plan_of_message(session, relation)
        conditions = conditions_of(reads_of)
        for read in reads_of.reads:
            read.relation.read.data_source.options["changed"] = "yes"
        reads_of.finish()
        names = [one.subquery_alias.alias for one in relation.with_relations.references]
        sent = relation.with_relations.root.sql.query or relation.sql.query
        for number, name in enumerate(names):
            sent = sent.replace(name, f"${number}")
        return SimpleNamespace(conditions=conditions, text=sent)

    return plan


T = "parquet.`/t`"
CONDITIONS = {
    f"SELECT * FROM {T} WHERE a > 3 AND f(b) < 2": ["(a > 3 AND ?)"],
    f"SELECT x.b, count(*) FROM {T} x WHERE x.a > 3 AND st.q = 1 GROUP BY x.b HAVING x.b > 7 LIMIT 3": [
        "(a > 3 AND st.q = 1)"
    ],
    "SELECT v.a FROM v WHERE v.a > 3": ["a > 3"],
    "SELECT a FROM v WHERE s LIKE '%x%y' AND s LIKE '%!%%' ESCAPE '!' AND s NOT LIKE 'x!_' ESCAPE '!'": [
        "(s LIKE '%x%y' AND contains(s, '%') AND NOT s = 'x_')"
    ],
    f"SELECT * FROM {T} x, v WHERE x.a > 3 AND v.b = 1 AND a < 9": ["(a > 3 AND ? AND ?)", "(? AND b = 1L AND ?)"],
    f"SELECT * FROM {T} x JOIN other o ON x.a = o.a AND x.b = 1 WHERE o.b = 2": ["((? AND b = 1L) AND ?)"],
    f"SELECT * FROM {T} x LEFT JOIN v ON x.a = 1 AND v.a = 2 WHERE x.b = 1 AND v.b = 2": [
        "(b = 1L AND ?)",
        "(? AND a = 2)",
    ],
    f"SELECT * FROM {T} x RIGHT JOIN v ON x.a = 1 WHERE x.b = 1 AND v.b = 2": ["a = 1", "(? AND b = 2L)"],
    f"SELECT * FROM {T} x FULL JOIN v ON x.a = 1 WHERE x.b = 1": ["true", "true"],
    f"SELECT * FROM {T} x LEFT ANTI JOIN v ON x.a = 1 AND v.a = 2 WHERE x.b = 1": ["b = 1L", "(? AND a = 2)"],
    f"SELECT * FROM {T} x NATURAL JOIN v WHERE x.b = 1": ["true", "true"],
    f"SELECT * FROM (SELECT a AS k, b FROM {T} WHERE b = 1) d WHERE d.k > 3": ["(b = 1L AND a > 3)"],
    f"SELECT * FROM (SELECT a, row_number() OVER (ORDER BY b) b FROM {T} WHERE s = 'x') WHERE a > 3": ["s = 'x'"],
    f"SELECT * FROM (SELECT * FROM {T} LIMIT 5) WHERE a > 3": ["true"],
    f"WITH v AS (SELECT * FROM {T} WHERE b = 1) SELECT * FROM v WHERE a > 3": ["b = 1L"],
    f"SELECT * FROM v WHERE a IN (SELECT b FROM {T} WHERE a > v.b AND b = 1)": ["?", "(? AND b = 1L)"],
    f"SELECT * FROM {T} WHERE a > 3 UNION ALL SELECT * FROM v WHERE a < 2": ["a > 3", "a < 2"],
    f"SELECT * FROM {T} TABLESAMPLE (10 PERCENT) WHERE a > 3": [],
    f"SELECT * FROM {T} x TABLESAMPLE (10 PERCENT) WHERE a > 3": [],
    f"SELECT * FROM {T} VERSION AS OF 3 WHERE a > 3": [],
    f"SELECT * FROM {T}@v3 WHERE a > 3": [],
    f"SELECT * FROM {T} PIVOT (max(b) FOR s IN ('x')) WHERE a > 3": [],
    f"SELECT * FROM {T} AS x(b, a) WHERE a > 3": [],
    f"SELECT * FROM {T} |> WHERE a > 3": [],
    f"SELECT * FROM {T} LATERAL VIEW explode(array(b)) e AS x WHERE a > 3 AND x = 1": ["(a > 3 AND ?)"],
    f"SELECT * FROM {T} WHERE mine(a) > 3 AND a > 3": [],
    f"SELECT * FROM {T} WHERE a > ${{limit}}": [],
    f"SELECT * FROM {T} WHERE a >": [],
    f"SELECT * FROM {T}; SELECT 1": [],
    "SELECT * FROM catalog.db.v WHERE a > 3": [],
    "SELECT * FROM orc.`/t` WHERE a > 3": [],
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_of_texts(plan_of, text):
    assert plan_of(text).conditions == CONDITIONS[text]


def test_arguments_and_names(plan_of):
    """The rest of a text stays as it is, with its comments, its case and its letters of any length."""
    text = "select '/t', \u00e9.a /* {} */ FROM  {} AS \u00e9, o join {} ON v.a = :n -- v\nwhere \u00e9.b = :m"
    plan = plan_of(text.format(T, "Parquet . `/t`", "v"), n=3, m=4)
    assert plan.conditions == ["(? AND b = 4L)", "(a = 3 AND ?)"]
    assert plan.text == text.format(T, "$0", "$1 AS `v`")


def test_frames_in_a_text(session):
    """`spark.sql("... {frame}", frame=frame)`: the request brings the frames along."""
    reference = session.read.parquet("/t").alias("frame_1")._plan
    relation = SQL("SELECT * FROM frame_1, v WHERE frame_1.a > 3 AND v.b = 1", views=[reference]).plan(session.client)
    plan = plan_of_message(session, relation)
    assert conditions_of(plan) == ["(a > 3 AND ?)", "(? AND b = 1L)"]
    plan.reads[1].relation.read.data_source.options["changed"] = "yes"
    plan.finish()
    aliases = [one.subquery_alias.alias for one in relation.with_relations.references]
    assert aliases[0] == "frame_1"
    assert f", {aliases[1]} AS `v` WHERE" in relation.with_relations.root.sql.query


QUERIES = 12
"""Random queries of a test."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with connect_server(tmp_path_factory.mktemp("server"), query_fuzz.QUICK) as running:
        yield running


@pytest.fixture
def sessions(server):
    """A session that sends queries as they are, and one whose queries skip files."""
    plain, enabled = (server.session() for _ in range(2))
    zskip.enable(enabled)
    return plain, enabled


@pytest.mark.slow
@pytest.mark.parametrize("seed", tiers.seeds(range(84)))
def test_random_texts(sessions, tmp_path, seed):
    """Joins, subqueries, groups and limits, over views and over paths."""
    rng, skipping = random.Random(seed), 0
    tables = [random_rows.table(rng, f"t{i}") for i in range(3)]
    for table in tables:
        random_rows.write(table, tmp_path / table.name)
        zskip.open(str(tmp_path / table.name)).index()
        for spark in sessions:
            spark.read.parquet(str(tmp_path / table.name)).createOrReplaceTempView(table.name)
    for number in range(QUERIES):
        query = random_queries.query(rng, tables)
        texts = [query.sql(limited=limited) for limited in (False, True)]
        if number % 2:
            texts = [re.sub(r"(FROM|JOIN) (t\d)\b", rf"\1 parquet.`{tmp_path}/\2`", text) for text in texts]
        try:
            expected = query_fuzz.rows_of(sessions[0].sql(texts[0]))
        except Exception:  # Spark refuses it.
            continue
        rows = query_fuzz.rows_of(sessions[1].sql(texts[1]))
        assert query_fuzz.difference(query, rows, expected) is None, texts[1]
        skipping += any(scan.files < scan.files_total for scan in zskip.scans(sessions[1]))
    assert skipping


@pytest.mark.slow
def test_what_is_read_of_texts_and_views(sessions, tmp_path):
    plain, enabled = sessions
    for i, name in enumerate("tu"):
        write_table(tmp_path / name, i, partitioned=i == 0)
        zskip.open(str(tmp_path / name)).index()
    path, t = str(tmp_path / "u"), f"parquet.`{tmp_path / 't'}`"

    def read(frame):
        """The rows of a query of one number, and the files that its scans read."""
        count = frame.first()[0]
        return count, *(scan.files for scan in zskip.scans(enabled))

    assert read(enabled.sql(f"SELECT count(*) FROM {t} WHERE id < 50")) == (50, 2)
    assert read(enabled.sql(f"SELECT count(*) FROM {t} WHERE id < :most", {"most": 30})) == (30, 1)
    assert read(enabled.sql(f"SELECT * FROM {t}").where("id < 50").selectExpr("count(*)")) == (50, 2)
    frame = enabled.read.parquet(path)
    assert read(enabled.sql("SELECT count(*) FROM {u} WHERE id < 30", u=frame)) == (30, 1)
    frame.where(frame.id < 90).createOrReplaceTempView("v")
    assert read(enabled.sql("SELECT count(*) FROM v")) == (90, 3)
    assert read(enabled.table("V").where("id < 30").selectExpr("count(*)")) == (30, 1)
    assert read(enabled.sql(f"SELECT count(*) FROM v JOIN {t} t USING (id) WHERE v.id < 50 AND t.id > 30")) == (
        19,
        2,
        2,
    )
    view = enabled.table("v")  # Of the frame, whose columns are meant here beside its own.
    assert read(view.join(frame, frame.id == view.id + 400).where(frame.id < 440).selectExpr("count(*)")) == (40, 3, 11)
    before = zskip.scans(enabled)

    def stays(count, query="SELECT count(*) FROM v WHERE id < 30"):
        """The view is read as it is, which says what it stands for now."""
        assert enabled.sql(query).first()[0] == count
        assert zskip.scans(enabled) == before

    few = enabled.read.parquet(path).where("id < 3")
    with pytest.raises(Exception, match="already exists"):
        few.createTempView("v")
    stays(30)
    frame.createOrReplaceTempView("v")
    with pytest.raises(Exception, match="nothing"):
        frame.where("nothing = 1").createOrReplaceTempView("v")
    stays(30)
    frame.createOrReplaceTempView("v")
    (tmp_path / "u" / "part-99.parquet").write_bytes((tmp_path / "u" / "part-00.parquet").read_bytes())
    zskip.open(path).index()
    stays(30)
    enabled.read.parquet(path).createOrReplaceTempView("v")
    assert read(enabled.sql("SELECT count(*) FROM v WHERE id < 30")) == (60, 2)
    before = zskip.scans(enabled)
    enabled.sql(f"CREATE OR REPLACE TEMPORARY VIEW v AS\nSELECT * FROM {t} WHERE id < 50")
    assert read(enabled.sql("SELECT count(*) FROM v WHERE id >= 40")) == (10, 1)
    with pytest.raises(Exception, match="already exists"):
        enabled.sql("CREATE TEMP VIEW v AS SELECT 1 AS id")
    before = zskip.scans(enabled)
    assert enabled.sql("SELECT count(*) FROM v WHERE id >= 40").first()[0] == 10
    assert zskip.scans(enabled) == before
    enabled.sql("CREATE OR REPLACE TEMP VIEW w AS SELECT * FROM v")
    enabled.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT 1 AS id")
    stays(1)
    with pytest.raises(Exception, match="INCOMPATIBLE_VIEW_SCHEMA_CHANGE"):
        enabled.sql("SELECT * FROM w WHERE id < 30").collect()
    enabled.read.parquet(path).createOrReplaceTempView("v")
    enabled.catalog.dropTempView("v")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        enabled.sql("SELECT count(*) FROM v WHERE id < 30").first()
    enabled.read.parquet(path).createOrReplaceTempView("v")
    enabled.conf.set("spark.sql.caseSensitive", "true")
    stays(60)
    assert plain.sql(f"SELECT count(*) FROM {t} WHERE id < 30").first()[0] == 30
    assert zskip.scans(plain) == ()
    assert zskip.sql(plain, f"SELECT count(*) FROM {t} WHERE id < 30").first()[0] == 30
    assert zskip.scans(plain)[0].files == 1
    kept = enabled.sql(f"SELECT * FROM {t} WHERE id < 30").persist()
    assert kept.count() == 30
    assert "InMemoryTableScan" in kept._explain_string()


@pytest.mark.slow
def test_a_view_of_one_snapshot(sessions, tmp_path):
    """`Table.df()` skips files without `enable`, in a view as elsewhere, and keeps to its snapshot."""
    plain, path = sessions[0], str(tmp_path / "t")
    write_table(tmp_path / "t", 0, partitioned=False)
    zskip.open(path).index()
    table = zskip.table(plain, path)
    table.df().createOrReplaceTempView("pinned")
    (tmp_path / "t" / "part-99.parquet").write_bytes((tmp_path / "t" / "part-00.parquet").read_bytes())
    for count, query in (
        (30, "SELECT count(*) FROM pinned WHERE id < 30"),
        (7, "SELECT max(id) FROM pinned WHERE s = 'n007'"),
    ):
        assert plain.sql(query).first()[0] == count
        assert (table.last_scan.files, table.last_scan.files_total) == (1, 12)
