"""Messages of the protocol: expressions become the predicates of SQL texts, and conditions reach their reads."""

from __future__ import annotations

import datetime as dt
import decimal
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlglot
from sqlglot import exp

pytest.importorskip("grpc")
from pyspark.sql.connect import functions as F
from pyspark.sql.connect.session import SparkSession

from zskip.errors import ZskipError
from zskip.predicate import parse
from zskip.records import Field
from zskip.spark.connect.expressions import Dialect, condition_texts
from zskip.spark.connect.relations import Opened, Plan
from zskip.types import DataType

FIXTURES = runpy.run_path(str(Path(__file__).parents[2] / "predicate" / "test_fixtures.py"))
COLUMNS, FIELDS, cases, describe = (FIXTURES[name] for name in ("COLUMNS", "FIELDS", "cases", "describe"))
NESTED = [*FIELDS, Field(name="stn", type=DataType("nested", (("q", DataType("integer")),)))]
PLAIN = Dialect(double_quoted_identifiers=False, escaped_string_literals=False, is_replaced=lambda _: False)


@pytest.fixture(scope="module")
def session():
    spark = SparkSession("sc://localhost:1")  # Nothing is sent.
    spark.client.set_retry_policies([])
    yield spark
    spark.client.close()


def message(column, session):
    return column._expr.to_plan(session.client)


def predicate(column, session, timezone="UTC", dialect=PLAIN):
    texts = condition_texts(message(column, session), dialect)
    return describe(parse(" AND ".join(texts) or "TRUE", COLUMNS, timezone=timezone))


FUNCTIONS = {
    exp.EQ: "==", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "and", exp.Or: "or", exp.Not: "not",
    exp.NullSafeEQ: "<=>", exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%", exp.Neg: "negative",
    exp.Year: "year", exp.Upper: "upper", exp.Lower: "lower", exp.Length: "length", exp.StartsWith: "startsWith",
    exp.EndsWith: "endsWith", exp.Contains: "contains", exp.IsNan: "isNaN", exp.Substring: "substr", exp.Like: "like",
    exp.Floor: "floor", exp.Ceil: "ceil", exp.Hex: "hex", exp.MD5: "md5", exp.UnixSeconds: "unix_seconds",
}  # fmt: skip


def to_column(node):
    """The API's column of a parsed text; KeyError where this test knows none."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return F.col(".".join(f"`{part.name}`" for part in node.parts))
    if isinstance(node, exp.Null | exp.Boolean):
        return F.lit(None if isinstance(node, exp.Null) else bool(node.this))
    if isinstance(node, exp.Literal):
        if node.is_string:
            return F.lit(node.this)
        number = decimal.Decimal(node.this) if "." in node.this and "e" not in node.this.lower() else None
        return F.lit(int(node.this) if number is None else number)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        if node.to.this == exp.DataType.Type.DATE:
            return F.lit(dt.date.fromisoformat(node.this.this))
        raise KeyError
    if isinstance(node, exp.Cast):
        return to_column(node.this).cast(node.to.sql("spark"))
    if isinstance(node, exp.NEQ):
        return to_column(node.this) != to_column(node.expression)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        return to_column(node.this).between(to_column(node.args["low"]), to_column(node.args["high"]))
    if isinstance(node, exp.In) and node.expressions:
        return to_column(node.this).isin(*map(to_column, node.expressions))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return to_column(node.this).isNull()
    if {key for key, value in node.args.items() if value} - {"this", "expression", "start", "length"}:
        raise KeyError
    parts = [part for key in ("this", "expression", "start", "length") if (part := node.args.get(key)) is not None]
    return F.call_function(FUNCTIONS[type(node)], *map(to_column, parts))


def api_cases():
    for _, sql, timezone, lenient, expected in cases():
        if lenient or "Error" in expected or "\\" in sql or sql in ("a != a", "`o``k` = 3"):
            continue  # Escapes and doubled quotes are sqlglot's here.
        try:
            yield pytest.param(to_column(sqlglot.parse_one(sql, dialect="spark")), timezone, expected, id=sql)
        except (sqlglot.errors.SqlglotError, KeyError, ValueError, ArithmeticError, AttributeError):
            continue


@pytest.mark.parametrize(("column", "timezone", "expected"), list(api_cases()))
def test_fixtures_through_the_api(session, column, timezone, expected):
    assert predicate(column, session, timezone) == expected


def test_most_fixtures_can_be_said_by_the_api():
    assert len(list(api_cases())) > 150


@pytest.mark.parametrize(
    ("sql", "column"),
    [
        (
            "ts > TIMESTAMP '2024-01-01 05:00:00Z'",
            lambda: F.col("ts") > F.lit(dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC)),
        ),
        ("x = CAST('NaN' AS DOUBLE) OR x < -0.5D", lambda: (F.col("x") == float("nan")) | (F.col("x") < -0.5)),
        (
            "s = 'it\\'s \\\\ \"' AND bi = X'00FF'",
            lambda: (F.col("s") == "it's \\ \"") & (F.col("bi") == F.lit(b"\x00\xff")),
        ),
        (
            "ts - INTERVAL 3 DAYS < TIMESTAMP '2024-01-01'",
            lambda: F.col("ts") - dt.timedelta(3) < dt.datetime(2024, 1, 1),
        ),
        ("st.q > 3", lambda: F.col("st.q") > 3),
        ("`odd name` = 1 AND `o``k` = 2", lambda: (F.col("odd name") == 1) & (F.col("`o``k`") == 2)),
        ("a = 1 AND (b > 2 OR s LIKE 'a%')", lambda: F.expr("a = 1") & F.expr("b > 2 or s like 'a%' -- or true")),
    ],
)
def test_literals(session, sql, column):
    assert predicate(column(), session) == describe(parse(sql, COLUMNS))


def test_what_may_mean_something_else_is_unknown(session):
    quotes = Dialect(
        double_quoted_identifiers=True, escaped_string_literals=True, is_replaced=lambda name: name == "floor"
    )
    texts = [F.expr('a = "b"'), F.expr("s = 'a\\\\b'"), F.floor("x") == 3, F.col("a") < 3]
    assert [predicate(column, session, dialect=quotes) for column in texts] == ["?", "?", "true", "a < 3"]
    strange = F.when(F.col("a") > 3, 1).otherwise(2) == 1
    assert predicate(strange & (F.col("a") > 3), session) == "(? AND a > 3)"


def test_long_and_deep_conditions(session):
    chain = F.col("a") == 0
    for i in range(1, 45):  # PySpark sends no deeper ones.
        chain = chain | (F.col("a") == i)
    assert predicate(chain, session).count("a = ") == 45
    names = condition_texts(message(F.col("a").isin(list(range(5000))), session), PLAIN)
    assert len(parse(names[0], COLUMNS).values) == 5000


@pytest.fixture
def conditions(session):
    """What the reads of a frame's paths must fulfil, as SQL."""

    def of(frame, case_sensitive=False):
        def open_read(read):
            path = read.data_source.paths[0]
            known = path.startswith("/known")
            return Opened(table=path, fields=NESTED, in_order=True) if known else None

        plan = Plan(frame._plan.plan(session.client), open_read, PLAIN, case_sensitive=case_sensitive)
        return [describe(read.predicate(number, "UTC")) for number, read in enumerate(plan.reads)]

    return SimpleNamespace(of=of, known=session.read.parquet("/known"), other=session.read.parquet("/other"))


ANY = "true"


def plan_column(frame, name):
    """`frame.name`, which the API gives only where the server tells the columns."""
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.expressions import ColumnReference

    return Column(ColumnReference(name, frame._plan._plan_id))


CONDITIONS = {
    "filters": (lambda t, o: t.where("a > 3").where(F.col("B") < 2), ["(a > 3 AND b < 2L)"]),
    "of its own alias": (lambda t, o: t.alias("x").where("x.a > 3 and y.a > 3"), ["(a > 3 AND ?)"]),
    "rows that stay": (lambda t, o: t.sort("a").repartition(3).dropna().distinct().where("a > 3"), ["a > 3"]),
    "a limit": (lambda t, o: t.limit(3).where("a > 3"), []),
    "a sample": (lambda t, o: t.where("b = 1").sample(0.5, seed=1).where("a > 3"), ["b = 1L"]),
    "a projection": (
        lambda t, o: t.select("a", F.col("b").alias("k")).where("a > 3 and k < 2"),
        ["(a > 3 AND b < 2L)"],
    ),
    "of a computed column": (
        lambda t, o: t.select((F.col("a") + 1).alias("a"), "b").where("a > 3 and b = 1"),
        ["(? AND b = 1L)"],
    ),
    "names exchanged": (lambda t, o: t.select(F.col("a").alias("b"), F.col("b").alias("a")).where("a > 3"), ["b > 3L"]),
    "a field of a struct": (lambda t, o: t.select(F.col("stn.q").alias("k")).where("k > 3"), ["stn.q > 3"]),
    "a window": (lambda t, o: t.selectExpr("a", "row_number() over (order by b) r").where("a > 3"), [ANY]),
    "a random column": (lambda t, o: t.withColumn("r", F.rand()).where("a > 3"), [ANY]),
    "a function of the user": (lambda t, o: t.withColumn("r", F.call_function("mine", "a")).where("a > 3"), [ANY]),
    "a column replaced": (lambda t, o: t.withColumn("a", F.col("a") + 1).where("a > 3 and b = 1"), ["(? AND b = 1L)"]),
    "a column renamed": (lambda t, o: t.withColumnRenamed("a", "k").where("k > 3 and a > 4"), ["(a > 3 AND ?)"]),
    "a column dropped": (lambda t, o: t.drop("a").where("a > 3"), ["?"]),
    "all renamed": (lambda t, o: t.select("a", "b").toDF("b", "a").where("a > 3"), ["b > 3L"]),
    "keys of groups": (
        lambda t, o: t.groupBy("a").agg(F.max("b").alias("b")).where("a > 3 and b > 3"),
        ["(a > 3 AND ?)"],
    ),
    "no groups": (lambda t, o: t.agg(F.max("a").alias("a")).where("a > 3"), [ANY]),
    "a rollup": (lambda t, o: t.rollup("a").count().where("a > 3"), [ANY]),
    "one of each key": (lambda t, o: t.dropDuplicates(["a"]).where("a > 3 and b = 1"), ["(a > 3 AND ?)"]),
    "a union": (lambda t, o: t.union(t.where("b = 1")).where("a > 3"), ["a > 3", "(b = 1L AND a > 3)"]),
    "a union with the unknown": (lambda t, o: t.union(o).where("a > 3"), [ANY]),
    "a union of other types": (lambda t, o: t.select("a").union(t.select("b")).where("a > 3"), [ANY, ANY]),
    "an inner join": (
        lambda t, o: (
            t.alias("x").join(o.alias("y"), F.col("x.a") == F.col("y.a")).where("x.b > 3 and y.b > 3 and d > 1")
        ),
        ["(? AND (b > 3L AND ? AND d > 1.00BD))"],
    ),
    "a left join": (
        lambda t, o: (
            t.alias("x").join(t.alias("y"), F.expr("x.a > 3 and y.a > 4"), "left").where("x.b = 1 and y.b = 2")
        ),
        ["(b = 1L AND ?)", "(? AND a > 4)"],
    ),
    "a full join": (lambda t, o: t.join(o, F.col("a") > 3, "full").where("b = 1"), [ANY]),
    "a semi join": (lambda t, o: t.join(o, F.col("a") > 3, "left_semi").where("b = 1"), ["(a > 3 AND b = 1L)"]),
    "an anti join": (lambda t, o: t.join(o, F.col("a") > 3, "left_anti").where("b = 1"), ["b = 1L"]),
    "one key of two": (lambda t, o: t.join(t, "a").where("a > 3 and b = 1"), ["(a > 3 AND ?)", "(a > 3 AND ?)"]),
    "a key of a right join": (lambda t, o: t.join(t, "a", "right").where("a > 3"), [ANY, "a > 3"]),
    "by the frame": (lambda t, o: t.join(o, "s").where(plan_column(t, "a") > 3), ["a > 3"]),
    "by a frame that stands twice": (lambda t, o: t.join(t, "s").where(plan_column(t, "a") > 3), ["?", "?"]),
    "by a frame under a projection": (
        lambda t, o: t.select(F.col("b").alias("a"), F.col("a").alias("k")).where(plan_column(t, "a") > 3),
        ["?"],
    ),
    "streams": (lambda t, o: t.sparkSession.readStream.schema("a int").parquet("/known").where("a > 3"), []),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_reach_their_reads(conditions, name):
    build, expected = CONDITIONS[name]
    assert conditions.of(build(conditions.known, conditions.other)) == expected


def test_case_of_names(conditions):
    frame = conditions.known.where("A > 3")
    assert conditions.of(frame, case_sensitive=True) == ["?"]


def test_texts_that_do_not_parse(conditions):
    assert conditions.of(conditions.known.where("a > 3").where("a >")) == ["a > 3"]
    with pytest.raises(ZskipError):
        parse("(a >\n)", COLUMNS)
