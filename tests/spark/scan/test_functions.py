"""What zskip takes a monotone function to be is what Spark computes, in every zone, at the edges of each type."""

import math

import numpy as np
import pandas as pd
import pytest
import tiers
from call_values import value_of
from calls import NAMES, ZONES, calls_of, values
from clock_changes import NEAR, SKIPPING, calls_of_times, changes_of_zones, check_bounds
from pyspark.sql import Column
from pyspark.sql.functions import col
from session_settings import settings

from zskip.predicate import Attributes, Columns, IsNull, Or, Unknown, column_of, nodes, parse, to_sql
from zskip.predicate.casts import strip_casts
from zskip.predicate.functions.clocks import DAY, clock_of
from zskip.predicate.text import term_sql
from zskip.records import Field
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.versions import compare_zones
from zskip.spark.scan.bridge.filters import read_filters
from zskip.table import table
from zskip.types import DataType, decode_decimal

SPARK_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def spark_name(data_type):
    return SPARK_NAMES.get(data_type.name, data_type.name)


def written(value, data_type):
    """A value in its form as text that a JSON reader of longs, doubles and strings takes."""
    if data_type.is_decimal:
        return str(decode_decimal(value, data_type))
    if isinstance(value, bytes):
        return value.hex()
    return repr(value)


def read(data_type):
    """An expression of the text `v` that gives the value."""
    name = data_type.name
    if name == "date":
        return "date_from_unix_date(CAST(v AS INT))"
    if name == "timestamp":
        return "timestamp_micros(CAST(v AS BIGINT))"
    if name == "timestamp_ntz":
        seconds = "CAST(pmod(CAST(v AS BIGINT), 86400000000L) AS DECIMAL(18, 0)) / 1000000"
        days = "CAST(floor(CAST(v AS DECIMAL(20, 0)) / 86400000000) AS INT)"
        return f"TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval({days}, 0, 0, {seconds})"
    if name == "string":
        return "CAST(unhex(v) AS STRING)"
    if data_type.is_decimal:
        places = data_type.scale
        point = f"regexp_replace(lpad(regexp_replace(v, '-', ''), 50, '0'), '(.{{{places}}})$', '.$1')"
        return f"CAST(concat(if(v LIKE '-%', '-', ''), {point}) AS {name})"
    return f"CAST(v AS {spark_name(data_type)})"


def shown(expression, data_type):
    """An expression of the text of a value in its form."""
    name = data_type.name
    if name == "date":
        return f"CAST(unix_date({expression}) AS STRING)"
    if name == "timestamp":
        return f"CAST(unix_micros({expression}) AS STRING)"
    if name == "timestamp_ntz":
        parts = [
            f"{part}({expression}) * {micros}L" for part, micros in (("hour", 3600 * 10**6), ("minute", 60 * 10**6))
        ]
        seconds = f"CAST(extract(SECOND FROM {expression}) * 1000000 AS BIGINT)"
        return f"CAST(unix_date(CAST({expression} AS DATE)) * 86400000000L + {' + '.join(parts)} + {seconds} AS STRING)"
    if name == "string":
        return f"lower(hex({expression}))"
    if data_type.is_decimal:
        return f"regexp_replace(CAST({expression} AS STRING), '[.]', '')"
    return f"CAST(CAST({expression} AS DOUBLE) AS STRING)" if name == "float" else f"CAST({expression} AS STRING)"


def same(text, value, data_type):
    """Whether the text that Spark gave is that of a value."""
    if data_type.is_decimal:
        return int(text) == decode_decimal(value, data_type)
    if isinstance(value, bytes):
        return text == value.hex()
    if isinstance(value, float):
        number = float(text)
        return number == value or (math.isnan(number) and math.isnan(value))
    return int(text) == value


@pytest.fixture(scope="module", params=ZONES)
def zone(request, spark):
    with settings(spark, session__timeZone=request.param, ansi__enabled="false"):
        yield request.param


def test_spark_computes_the_same(zone, spark, tmp_path):
    for name in NAMES if zone == "UTC" else ("date", "timestamp", "timestamp_ntz"):
        data_type = DataType(name)
        some = values(name, zone)
        source = tmp_path / name
        source.write_text("\n".join(written(value, data_type) for value in some))
        frame = spark.read.text(str(source)).selectExpr("value AS v")
        column = f"`c {name}`"
        calls = calls_of(name, zone)
        rows = frame.selectExpr("v", f"{read(data_type)} AS {column}").selectExpr(
            "v", *[f"{shown(term_sql(call), call.type)} AS r{i}" for i, call in enumerate(calls)]
        )
        known = {written(value, data_type): value for value in some}
        found = rows.collect()
        assert len(found) == len(some)
        for i, call in enumerate(calls):
            compared = 0
            for row in found:
                expected = value_of(call, known[row["v"]])
                if expected is None:
                    continue
                assert same(row[f"r{i}"], expected, call.type), (call, row["v"], row[f"r{i}"], expected)
                compared += 1
            assert compared or call.arguments[0] == 2**31 - 1, call


@pytest.mark.scaled
@pytest.mark.timeout(7200)
def test_bounds_hold_for_what_spark_computes_around_changes_of_the_clock(spark):
    checks = 0
    compare_zones(Jvm.of(spark))
    with settings(spark, session__timeZone="UTC"):
        changes = changes_of_zones()
        for name in SKIPPING[:2] if tiers.QUICK else changes:
            spark.conf.set("spark.sql.session.timeZone", name)
            points = changes[name][:, np.newaxis] + np.array(NEAR)
            days = np.unique(points // DAY)
            for of_days, ranges in ((False, points), (True, np.stack([days[:-1], days[1:]], 1))):
                calls = [c for c in calls_of_times(name) if (c.term.type.name == "date") == of_days]
                days_or_instants = "date_from_unix_date(CAST(v AS INT))" if of_days else "timestamp_micros(v)"
                read = f"{days_or_instants} AS `c {'date' if of_days else 'timestamp'}`"
                frame = spark.createDataFrame(pd.DataFrame({"v": np.unique(ranges)})).selectExpr("v", read)
                texts = [shown(term_sql(c), c.type) for c in calls]
                results = (f"CAST({text} AS BIGINT) AS r{i}" for i, text in enumerate(texts))
                rows = frame.selectExpr("v", *results).toPandas()
                for i, function_call in enumerate(calls):
                    computed = dict(zip(rows["v"].tolist(), rows[f"r{i}"].tolist(), strict=True))
                    checks += check_bounds(function_call, ranges, computed)
                    certain = clock_of(name) is not None
                    for one, result in computed.items() if certain else ():
                        if clock_of(name).first <= one * (DAY if of_days else 1) - 400 * DAY:
                            assert value_of(function_call, one) == result, (function_call, one)
    assert checks > 10_000
    print(f"{checks:,} bounds")


def test_types_are_those_of_spark(spark):
    for name in NAMES:
        data_type = DataType(name)
        frame = spark.range(0).selectExpr(f"CAST(NULL AS {spark_name(data_type)}) AS `c {name}`")
        for call in calls_of(name, "UTC"):
            if call.function != "add" or not data_type.is_decimal:
                given = frame.selectExpr(f"{term_sql(call)} AS r").schema[0].dataType.jsonValue()
                assert given == call.type.name, call


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_catalyst_prints_is_read_again(spark, ansi):
    """Each call, written by zskip and printed by Catalyst after its optimizer, is read as the same call."""
    with settings(spark, ansi__enabled=ansi):
        for name in NAMES:
            data_type = DataType(name)
            calls = calls_of(name, "UTC")
            columns = Columns([Field(name=f"c {name}", type=data_type)])
            frame = spark.createDataFrame([], f"`c {name}` {spark_name(data_type)}")
            for call in calls:
                own = parse(f"{term_sql(call)} IS NULL", columns)
                assert own == IsNull(strip_casts(call)[0]), to_sql(own)
            tests = " OR ".join(f"{term_sql(call)} IS NULL" for call in calls)
            attributes = Attributes(columns.fields, {f"`c {name}`": f"c {name}"})
            printed = parse(filter_of(frame.where(tests)).sql(), attributes, lenient=True)
            leaves = [node for node in nodes(printed) if not isinstance(node, Or)]
            assert not any(isinstance(node, Unknown) for node in leaves), to_sql(printed)
            found = {node.term for node in leaves}
            assert found <= {*calls, column_of(calls[0])}
            assert found >= {strip_casts(call)[0] for call in calls}


def test_functions_keep_the_zone_of_their_analysis(spark, tmp_path):
    """A query that was written in another time zone than the one it runs in is right all the same."""
    path = str(tmp_path / "t")
    hours = spark.range(0, 240).selectExpr(
        "id", "timestamp_seconds(1704067200 + id * 3600) AS ts", "DATE '2024-01-01' + CAST(id DIV 24 AS INT) AS d"
    )
    with settings(spark, parquet__outputTimestampType="TIMESTAMP_MICROS"):
        hours.repartitionByRange(10, "ts").write.parquet(path)
    opened = table(spark, path)
    opened.index()
    skipped = 0
    conditions = [
        "date_trunc('DAY', ts) = date_trunc('DAY', timestamp_seconds(1704240000))",
        "year(ts + INTERVAL 3 DAYS) = 2024 AND trunc(ts, 'WEEK') = DATE '2024-01-08'",
        "CAST(ts AS DATE) = d",
        "CAST(d AS TIMESTAMP) >= ts - INTERVAL 1 DAY AND id % 3 = 0",
    ]
    with settings(spark, session__timeZone="UTC"):
        for one, other in (
            ("Asia/Tokyo", "America/Los_Angeles"),
            ("America/Los_Angeles", "Asia/Tokyo"),
            ("UTC", "UTC"),
        ):
            for condition in conditions:
                spark.conf.set("spark.sql.session.timeZone", one)
                pruned, full = opened.df().where(condition), spark.read.parquet(path).where(condition)
                spark.conf.set("spark.sql.session.timeZone", other)
                assert sorted(pruned.collect()) == sorted(full.collect()), (condition, one, other)
                skipped += one == other and opened.last_scan.files < opened.last_scan.files_total
    assert skipped >= 2


def filters_of(spark, frame):
    jvm = Jvm.of(spark)
    return read_filters(jvm, jvm.seq_of(filter_of(frame)))


def test_functions_of_users_are_not_taken_for_those_of_spark(spark):
    spark = spark.newSession()  # Whose functions are its own.
    frame = spark.createDataFrame([], "d date, t timestamp, s string, x double, i int")
    mine = [
        "year(d) = 2024",
        "date_trunc('DAY', t) IS NULL",
        "substring(s, 1, 2) = 'a'",
        "floor(x) IN (1, 2)",
        "i + 1 > 3",
    ]
    mine += [
        " OR ".join(f"contains(s, '{i}')" for i in range(30)),
        "t + INTERVAL 3 HOURS > '2024-01-01'",
        "s LIKE 'a_b'",
    ]
    for condition in mine:
        assert not filters_of(spark, frame.where(condition)).foreign, condition
    invoke, classes = spark._jvm.java.lang.invoke, Jvm.of(spark).class_of
    proxies, returned = invoke.MethodHandleProxies, spark._jvm.java.lang.Integer.TYPE
    kind = invoke.MethodType.methodType(returned, classes("java.lang.Object"))
    function = invoke.MethodHandles.publicLookup().findStatic(classes("java.util.Objects"), "hashCode", kind)
    interface = Jvm.of(spark).class_of("org.apache.spark.sql.api.java.UDF1")
    integer = spark._jvm.org.apache.spark.sql.types.DataTypes.IntegerType
    user = spark._jvm.org.apache.spark.sql.functions.udf(proxies.asInterfaceInstance(interface, function), integer)
    year = Column(user.withName("year").apply(Jvm.of(spark).seq_of(col("d")._jc)))
    found = filters_of(spark, frame.where(year == 2024))
    assert "year(" in found.sql[0]
    assert found.foreign == {0}
    assert isinstance(found.predicate([Field(name="d", type=DataType("date"))], case_sensitive=False), Unknown)


def filter_of(frame):
    """The condition of a filter after Catalyst's optimizer."""
    found = frame._jdf.queryExecution().optimizedPlan()
    while found.nodeName() != "Filter":
        found = found.children().apply(0)
    return found.condition()
