"""What Catalyst prints of an opaque function is read as what people write, and its canonical text means the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from zskip.predicate import And, Attributes, Columns, Compare, parse, term_sql
from zskip.records import Field
from zskip.types import DataType

TYPES = {"s": "string", "e": "string", "bi": "binary", "d": "date", "ts": "timestamp", "n": "timestamp_ntz"}
FIELDS = [Field(name=name, type=DataType(held)) for name, held in TYPES.items()]
COLUMNS, ATTRIBUTES = Columns(FIELDS), Attributes(FIELDS, {f"t.{name}": name for name in TYPES})
TEXTS = [
    *(f"{name}(s)" for name in ("lower", "lcase", "upper", "ucase", "trim", "ltrim", "rtrim", "reverse")),
    *(f"{name}(s)" for name in ("length", "char_length", "character_length", "len", "octet_length")),
    *(f"{name}({column})" for name in ("md5", "sha", "sha1", "crc32") for column in ("s", "bi")),
    "sha2(s, 256)",
    "get_json_object(s, '$.a')",
    "get_json_object(s, '$[\\'a\\'].b[0]')",
    "substring_index(s, '@', -1)",
    "concat(s, '-', e)",
    "concat(s, 'it\\'s \\\\ %')",
    *(f"{name}({column})" for name in ("hour", "minute", "second") for column in ("ts", "n")),
    *(
        f"{name}({column})"
        for name in ("month", "day", "dayofmonth", "quarter", "weekofyear", "dayofweek", "dayofyear", "weekday")
        for column in ("d", "ts", "n")
    ),
    "upper(trim(s))",
    "substring(lower(s), 1, 3)",
    "lower(substr(s, 1, 3))",
]


@pytest.mark.spark
def test_opaque_functions_are_read_as_spark_prints_them(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(50).selectExpr(
        "CASE id % 4 WHEN 0 THEN concat(' Some@Host ', id) WHEN 1 THEN '{\"a\": {\"b\": [1]}}' WHEN 2 THEN 'É' END s",
        "concat('E', id % 3) e",
        "cast(cast(id as string) as binary) bi",
        "date_add(DATE '2024-01-01', cast(id * 17 as int)) d",
        "timestamp_seconds(id * 123457) ts",
        "cast(timestamp_seconds(id * 1234567) as timestamp_ntz) n",
    ).write.parquet(str(tmp_path / "t"))
    frame = spark.read.parquet(str(tmp_path / "t"))
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    checks: list[str] = []
    for i, text in enumerate(TEXTS):
        term = parse(f"{text} IS NULL", COLUMNS, timezone=zone).term  # type: ignore[union-attr]
        literal = "'x'" if term.type.name == "string" else "5"
        condition = frame.alias("t").filter(f"{text} = {literal}")._jdf.queryExecution().optimizedPlan().condition()
        predicate = parse(condition.sql(), ATTRIBUTES, timezone=zone, lenient=True)
        leaves = predicate.children if isinstance(predicate, And) else (predicate,)
        assert any(isinstance(leaf, Compare) and leaf.term == term for leaf in leaves), (text, condition.sql())
        spark_type = {"integer": "int", "long": "bigint"}.get(term.type.name, term.type.name)
        checks += [
            f"bool_and({text} <=> {term_sql(term)}) AS same{i}",
            f"any_value(typeof({text})) = '{spark_type}' AS type{i}",
        ]
    (row,) = frame.selectExpr(*checks).collect()
    wrong = [(name, TEXTS[int(name[4:])]) for name, value in row.asDict().items() if value is not True]
    assert not wrong
