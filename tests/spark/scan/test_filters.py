"""Filters of scans as predicates: what Catalyst's trees mean is what their text means, and each is read once."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiers
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from random_queries import row_test

import zskip
from zskip.predicate import And, Attributes, In, Not, Or, Predicate, Unknown, nodes, parse
from zskip.predicate.sql import catalyst
from zskip.records import Field
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.filters import Filters, read_filters
from zskip.types import DataType

FIELDS = [Field(name="a", type=DataType("long")), Field(name="B", type=DataType("string"))]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "predicates.txt"
TYPES = {
    "a": "int",
    "b": "long",
    "by": "byte",
    "sh": "short",
    "f": "float",
    "x": "double",
    "d": "decimal(12,2)",
    "w": "decimal(38,10)",
    "s": "string",
    "bi": "binary",
    "bo": "boolean",
    "dt": "date",
    "ts": "timestamp",
    "n": "timestamp_ntz",
    "st": "struct<q: int, r: struct<`odd name`: string>>",
    "`odd name`": "int",
    "`o``k`": "int",
}
MORE = [
    "s LIKE 'x%' AND NOT s LIKE '%y' OR s LIKE '%z%'",
    "s IN ('it\\'s', 'back\\\\slash', 'ä€😀', '\\n', '')",
    f"s IN ({', '.join(repr(f'n{i}') for i in range(60))})",
    f"a NOT IN ({', '.join(map(str, range(30)))}) OR b > 3",
    f"b IN ({', '.join(map(str, range(30)))}, NULL)",
    f"d IN ({', '.join(f'{i}.25' for i in range(40))})",
    f"dt IN ({', '.join(f'''DATE '2024-01-{i:02}' ''' for i in range(1, 28))}) AND dt > DATE '0001-01-01'",
    f"ts IN ({', '.join(f'''TIMESTAMP '2024-01-{i:02} 01:02:03.5' ''' for i in range(1, 28))})",
    f"n IN ({', '.join(f'''TIMESTAMP_NTZ '2024-01-{i:02} 01:02:03' ''' for i in range(1, 28))})",
    f"bi IN ({', '.join(f'''X'{i:02x}00' ''' for i in range(30))})",
    f"f IN ({', '.join(f'CAST({i}.5 AS FLOAT)' for i in range(30))})",
    f"x IN ({', '.join(f'{i}.5D' for i in range(30))}, CAST('NaN' AS DOUBLE), -0.0D)",
    f"year(dt) IN ({', '.join(map(str, range(1990, 2020)))})",
    f"a * b IN ({', '.join(map(str, range(50)))})",
    f"hash(a) IN ({', '.join(map(str, range(50)))})",
    "x > CAST('Infinity' AS DOUBLE) OR x < CAST('-Infinity' AS DOUBLE) OR x = CAST('NaN' AS DOUBLE)",
    "x = 1.0E300D AND f < CAST('1.1' AS FLOAT) AND x > -0.0D",
    "w > 0.0000000001 AND w < 12345678901234567890.0123456789 AND d = 7 AND d <> 1.50",
    "bo AND NOT st.q > 3 AND st.r.`odd name` = 'x' AND bo = false",
    "CAST(by AS BIGINT) < b AND CAST(a AS DECIMAL(12,2)) = d AND CAST(f AS DOUBLE) = x",
    "CAST(ts AS DATE) = dt AND dt <= ts AND dt > TIMESTAMP '2024-01-01 10:00:00'",
    "TRY_CAST(s AS INT) = 3 OR CAST(a AS STRING) = '7' OR CAST(dt AS STRING) = '2024-01-01'",
    "hash(a, 5) % 7 = 3 AND xxhash64(a, b) % 1000 <> 3 AND CAST(hash(a) AS BIGINT) % 7 > 1 AND hash(hash(a)) = 3",
    "pmod(CAST(a AS BIGINT), 7) IN (1, 2) AND a % 7 = 0 AND a % -7 = 0 AND a % b = 0 AND pmod(hash(a) % 7, 3) <> 1",
    "hash(a, b) % 7 = 3 AND pmod(a, 7) < 3 AND a / 2 > 1.5 AND a DIV 2 = 3 AND abs(a) > 3 AND sqrt(x) > 7",
    "coalesce(a, 3) = 3 OR if(bo, a, 4) > 5 OR CASE WHEN bo THEN a ELSE 3 END < 4 OR s RLIKE '^[0-9]+'",
    "pow(x, 2) > 3 OR exp(x) > 3 OR ln(x) > 1 OR xxhash64(a) > 3 OR regexp_replace(s, 'a', 'b') = 'x'",
    "regexp_extract(s, '(a)', 1) = 'x' OR size(split(s, ',')) > 3 OR element_at(split(s, ','), 1) IN ('x', 'y')",
    "a <=> 3 AND NOT (a <=> b) AND (a > 3) IS NULL AND (a > 3 OR bo) IS NOT TRUE",
    "ts + INTERVAL 3 DAYS > TIMESTAMP '2024-01-01 00:00:00' AND lower(s) = 'x' AND a + 1 > 3",
    " OR ".join(f"(a = {i} AND b > {i})" for i in range(200)),
    "NOT (NOT (a > 3 AND NOT bo))",
]


def described(*trees: object, zone: str = "UTC", foreign: tuple[int, ...] = (), **columns: str) -> Filters:
    names = {f"t.{name}": column for name, column in (columns or {"a": "a", "B": "B"}).items()}
    return Filters(described=json.dumps({"zone": zone, "trees": trees, "columns": names, "foreign": foreign}))


def greater(number: int) -> list[object]:
    return ["compare", f"(t.a > {number})", ">", ["column", "t.a"], ["literal", "long", number]]


def test_a_filter_that_comes_again_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def count(tree: list[str], *arguments: object, **options: object) -> object:
        seen.append(tree[1])
        return parse(tree[1], *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(catalyst, "from_catalyst", count)
    first = described(greater(71), greater(72)).predicate(FIELDS, case_sensitive=False)
    assert described(greater(71), greater(72)).predicate(list(FIELDS), case_sensitive=False) is first
    assert seen == ["(t.a > 71)", "(t.a > 72)"]


def test_what_a_filter_means_depends_on_more_than_the_filter() -> None:
    time = ["sql", "t.a > TIMESTAMP '2024-01-01 00:00:00'"]
    times = [Field(name="a", type=DataType("timestamp"))]
    zones = ("UTC", "Asia/Tokyo")
    here, there = (described(time, zone=zone).predicate(times, case_sensitive=False) for zone in zones)
    assert here != there
    tree = described(greater(1))
    assert tree.predicate(FIELDS, case_sensitive=False) != tree.predicate(
        [Field(name="a", type=DataType("double"))], case_sensitive=False
    )
    foreign = described(greater(1), foreign=(0,))
    assert isinstance(foreign.predicate(FIELDS, case_sensitive=False), Unknown)
    upper = described(["true", "t.b", ["column", "t.b"]], b="b")
    fields = [Field(name="B", type=DataType("boolean"))]
    assert isinstance(upper.predicate(fields, case_sensitive=True), Unknown)
    assert not isinstance(upper.predicate(fields, case_sensitive=False), Unknown)


@pytest.fixture(params=["UTC", "America/Los_Angeles"])
def frame(spark: SparkSession, request: pytest.FixtureRequest) -> DataFrame:
    """No rows with columns of all types."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", request.param)
    ddl = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    return session.createDataFrame([], ddl).alias("t")


def fixtures() -> Iterator[str]:
    lines = FIXTURES.read_text(encoding="utf-8").split("# lenient")[0].splitlines()
    return (line for line in lines if line and not line.startswith(("#", "->")))


@pytest.mark.scaled
def test_trees_of_texts_that_are_understood(frame: DataFrame) -> None:
    texts = list(fixtures())
    checked = check(frame, texts[:: tiers.count(1, quick=8)])
    assert checked > tiers.count(150, quick=15)


def test_trees_of_all_shapes(frame: DataFrame) -> None:
    assert check(frame, MORE) == len(MORE)


def test_hashes_and_remainders_are_not_printed(frame: DataFrame) -> None:
    condition = condition_of(frame, "xxhash64(a, b) % 7 = 3 OR pmod(hash(a), 5) IN (1, 2)")
    assert condition is not None
    described = read_filters(Jvm.of(frame.sparkSession), Jvm.of(frame.sparkSession).seq_of(condition)).described
    assert described.count('["call"') == 4
    assert '["sql"' not in described
    assert '["side"' not in described


@pytest.mark.scaled
def test_trees_of_random_conditions(frame: DataFrame) -> None:
    chance = random.Random(5)
    scope = [("a", "int"), ("b", "bigint"), ("x", "double"), ("s", "string"), ("dt", "date"), ("ts", "timestamp")]
    texts = [" AND ".join(row_test(chance, scope) for _ in range(4)) for _ in range(tiers.count(150, quick=20))]
    assert check(frame, texts) > len(texts) // 2


def check(frame: DataFrame, texts: list[str]) -> int:
    """Compare both ways of reading each condition; the number of those that a filter is left of."""
    spark = frame.sparkSession
    jvm, zone = Jvm.of(spark), spark.conf.get("spark.sql.session.timeZone")
    checked = 0
    for text in texts:
        condition = condition_of(frame, text)
        if condition is None:
            continue
        read = read_filters(jvm, jvm.seq_of(condition))
        if read.foreign:
            continue
        fields = fields_of(frame)
        tree = read.predicate(fields, case_sensitive=False)
        columns = {f"t.{text}": name for text, name in read.columns.items()}
        printed = parse(condition.sql(), Attributes(fields, columns), timezone=str(zone), lenient=True)
        assert agree(tree, printed), f"{text}: {condition.sql()}: {tree} is not {printed}"
        checked += 1
    return checked


def agree(tree: Predicate, printed: Predicate) -> bool:
    """Whether a tree says all that its text says; values may say more than their text."""
    if isinstance(printed, Unknown):
        return True
    if isinstance(printed, And) and any(
        isinstance(part, Unknown) and part.reason == "a pattern with any escape" for part in printed.children
    ):
        return True
    if type(tree) is not type(printed):
        return False
    if isinstance(tree, And | Or):
        assert isinstance(printed, And | Or)
        return len(tree.children) == len(printed.children) and all(map(agree, tree.children, printed.children))
    if isinstance(tree, Not) and isinstance(printed, Not):
        return agree(tree.child, printed.child)
    return repr(tree) == repr(printed)  # NaN is not equal to itself.


def condition_of(frame: DataFrame, text: str) -> JavaObject | None:
    """A condition after Catalyst's optimizer; None where Spark refuses it, or no filter is left."""
    try:
        plan = frame.where(text)._jdf.queryExecution().optimizedPlan()
    except PySparkException:
        return None
    while plan.nodeName() != "Filter":
        if not plan.children().size():
            return None
        plan = plan.children().apply(0)
    return plan.condition()


def fields_of(frame: DataFrame) -> list[Field]:
    from zskip.formats.schema import fields_from_json

    return list(fields_from_json(frame.schema.json()))


def test_values_of_lists_are_not_printed(frame: DataFrame) -> None:
    values = [f"value {i}" for i in range(500)]
    condition = condition_of(frame, f"s IN ({', '.join(map(repr, values))})")
    read = read_filters(Jvm.of(frame.sparkSession), Jvm.of(frame.sparkSession).seq_of(condition))
    (membership,) = (n for n in nodes(read.predicate(fields_of(frame), case_sensitive=False)) if isinstance(n, In))
    assert membership.values == tuple(sorted(value.encode() for value in values))
    assert len(read.sql[0]) < 500, "what people see is cut"


def test_bytes_that_are_no_text_are_not_taken_for_others(spark: SparkSession, tmp_path: Path) -> None:
    """Java shows them as U+FFFD, which is another text."""
    path = str(tmp_path / "t")
    spark.sql("SELECT CAST(X'FF' AS STRING) AS s").coalesce(1).write.parquet(path)
    zskip.table(spark, path).index()
    bad = "CAST(X'FF' AS STRING)"
    more = ", ".join(f"'x{i}'" for i in range(20))
    session = spark.newSession()
    # Spark itself does not find the row in the file, since it hands the text to Parquet.
    session.conf.set("spark.sql.parquet.filterPushdown", "false")
    table = zskip.table(session, path)
    for where in (f"s = {bad}", f"s >= {bad}", f"s IN ({bad}, 'x')", f"s IN ({bad}, {more})", f"startswith(s, {bad})"):
        assert table.df().where(where).count() == 1, where
