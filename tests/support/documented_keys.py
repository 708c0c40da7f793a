"""The keys of the table in `docs/keys.md`, each with a filter that one file in eight holds, and a table to ask.

Rows lie by every key at once: each column is made so that its key rises from file to file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyspark

import zskip
from zskip.index import key_specs
from zskip.predicate import Columns, find_key
from zskip.table.version import read_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 8
SPARK = tuple(map(int, pyspark.__version__.split(".")[:2]))
ROWS = """
    WITH hashes AS (SELECT id AS h1, row_number() OVER (ORDER BY hash(id)) AS n FROM range(800)),
    longs AS (SELECT id AS h2, row_number() OVER (ORDER BY xxhash64(id, id)) AS n FROM range(800)),
    buckets AS (SELECT id AS h3, row_number() OVER (ORDER BY pmod(hash(id), 64), id) AS n FROM range(800)),
    rests AS (SELECT id AS h4, row_number() OVER (ORDER BY id % 64, id) AS n FROM range(800))
    SELECT n AS id, CAST(n AS INT) AS `a b`, n > 700 AS flag, CAST(n AS DECIMAL(20, 2)) AS m, n / 3D AS x,
        DATE '2024-01-01' + CAST(n AS INT) AS d, timestamp_seconds(1704067200 + n * 86400) AS ts,
        CAST(timestamp_seconds(1704067200 + n * 86400) AS TIMESTAMP_NTZ) AS tn,
        concat('N', lpad(n, 4, '0')) AS s, concat(repeat('x', CAST(n DIV 100 AS INT)), 'y') AS long,
        CAST(lpad(n, 4, '0') AS BINARY) AS b, h1, h2, h3, h4,
        named_struct('a', n, 'c', named_struct('d', concat('K', lpad(n, 4, '0')))) AS st,
        to_json(named_struct('a', lpad(n, 4, '0'), 'n', n, 'd', DATE '2024-01-01' + CAST(n AS INT),
                             'z', n > 700)) AS js,
        map('k', n, 'other', 1L) AS kv, timestamp_seconds(1704067200 + n DIV 100 * 3600) AS hours,
        IF(n DIV 100 = 2, n - 1, n) AS low{more}
    FROM hashes JOIN longs USING (n) JOIN buckets USING (n) JOIN rests USING (n) ORDER BY n
"""
MORE = {
    "c": (", CAST(concat('C', lpad(n, 4, '0')) AS STRING) COLLATE UTF8_LCASE AS c", (4, 0), ("parquet", "connect")),
    "v": (", parse_json(to_json(named_struct('a', named_struct('b', array(n))))) AS v", (4, 0), ("parquet", "connect")),
    "t": (", CAST(concat(n DIV 60, ':', lpad(n % 60, 2, '0'), ':00') AS TIME(3)) AS t", (4, 1), ("parquet", "connect")),
    "iv": (", make_dt_interval(CAST(n AS INT)) AS iv", (3, 5), ("parquet", "connect")),
}
"""Columns of types that not all have: their SQL, the first Spark, and the formats whose reader has them."""


class Key(NamedTuple):
    """A key, and a filter on it of which one file holds rows, or two."""

    key: str
    where: str
    column: str = ""
    """One of `MORE`, of which it is."""


KEYS = (
    Key("id", "id = 250"), Key("`a b`", "`a b` = 250"), Key("flag", "flag"), Key("m", "m = 250"), Key("x", "x = 90"),
    Key("d", "d = DATE '2024-09-07'"), Key("ts", "ts = TIMESTAMP '2024-09-07 00:00:00'"),
    Key("tn", "tn = TIMESTAMP_NTZ '2024-09-07 00:00:00'"), Key("s", "s = 'N0250'"), Key("b", "b = X'30323530'"),
    Key("t", "t = CAST('04:10:00' AS TIME(3))", "t"),
    Key("iv", "iv = INTERVAL '250' DAY", "iv"),
    Key("c", "c = 'c0250'", "c"),
    Key("st.a", "st.a = 250"), Key("st.c.d", "st.c.d = 'K0250'"),
    Key("date(ts)", "date(ts) = DATE '2024-09-07'"), Key("year(ts)", "year(ts) = 2026"),
    Key("substring(s, 1, 4)", "substring(s, 1, 4) = 'N025'"),
    Key("lower(s)", "lower(s) = 'n0250'"), Key("length(long)", "length(long) = 3"),
    Key("hour(hours)", "hour(hours) = 2"),
    Key("hash(h1)", "hash(h1) = 1546268258"), Key("xxhash64(h2, h2)", "xxhash64(h2, h2) = -7106661506518545637L"),
    Key("pmod(hash(h3), 64)", "pmod(hash(h3), 64) = 7"), Key("h4 % 64", "h4 % 64 = 7"),
    Key("get_json_object(js, '$.a')", "get_json_object(js, '$.a') = '0250'"),
    Key("CAST(get_json_object(js, '$.n') AS DOUBLE)", "CAST(get_json_object(js, '$.n') AS DOUBLE) = 250"),
    Key("CAST(get_json_object(js, '$.d') AS DATE)", "CAST(get_json_object(js, '$.d') AS DATE) = DATE '2024-09-07'"),
    Key("CAST(get_json_object(js, '$.z') AS BOOLEAN)", "CAST(get_json_object(js, '$.z') AS BOOLEAN)"),
    Key("CAST(get_json_object(js, '$.n') AS DECIMAL(9,2))", "CAST(get_json_object(js, '$.n') AS DECIMAL(9,2)) = 250"),
    Key("try_cast(get_json_object(js, '$.n') AS INT)", "try_cast(get_json_object(js, '$.n') AS INT) = 250"),
    Key("try_cast(get_json_object(js, '$.n') AS BIGINT)", "try_cast(get_json_object(js, '$.n') AS BIGINT) = 250"),
    Key("element_at(kv, 'k')", "element_at(kv, 'k') = 250"), Key("kv['k']", "kv['k'] = 250"),
    Key("v:a.b[0]::int", "v:a.b[0]::int = 250", "v"),
    Key("variant_get(v, '$.a.b[0]', 'int')", "variant_get(v, '$.a.b[0]', 'int') = 250", "v"),
    Key("s LIKE '%N%2_0%'", "s LIKE '%N%2_0%' AND id > 240 AND id < 260"),
    Key("id > low", "id > low"),
)  # fmt: skip


def forms(text: str) -> set[str]:
    """What tells keys apart: functions, types and operators, without the names of columns."""
    return set(re.findall(r"\w+(?=\()|(?<=AS )\w+|(?<=or `)[A-Z]\w+|::\w+|[%>]|LIKE|\['\w+'\]", text))


def in_docs() -> set[str]:
    """The forms of keys that the table has."""
    page = (Path(__file__).parents[2] / "docs" / "keys.md").read_text()
    rows = page.partition("| key | how it is written")[2].partition("\n\n")[0].splitlines()[2:]
    return set().union(*(forms(row.split("|")[2]) for row in rows))


def has(key: Key, format_name: str) -> bool:
    """Whether the tables of a format have the key here."""
    if not key.column:
        return True
    _, spark, formats = MORE[key.column]
    return spark <= SPARK and format_name in formats


def rows(spark: SparkSession, format_name: str) -> DataFrame:
    """800 rows in eight partitions."""
    more = "".join(sql for sql, first, formats in MORE.values() if first <= SPARK and format_name in formats)
    return spark.sql(ROWS.format(more=more)).repartitionByRange(FILES, "id").sortWithinPartitions("id")


def index_keys(table: zskip.Table, format_name: str) -> None:
    """Give the index what a rewrite by each of the keys gives it."""
    handle = table._handle
    columns = Columns(read_snapshot(handle).fields)
    fields = [find_key(columns, key.key, timezone="UTC") for key in KEYS if has(key, format_name)]
    table.index(sketches=list(dict.fromkeys(spec for field in fields for spec in key_specs(columns, field))))


def misses(frame: DataFrame, expected: Mapping[str, list[str]], files: Callable[[], int]) -> list[str]:
    """The filters that read more than two files; their rows are the expected ones. files: of the last query."""
    failed = []
    for where, rows_of_it in expected.items():
        assert answer(frame, where) == rows_of_it, where
        if files() > 2:
            failed.append(where)
    return failed


def answers(plain: DataFrame, format_name: str) -> dict[str, list[str]]:
    """The rows of each filter, as a session without zskip reads them."""
    found = {key.where: answer(plain, key.where) for key in KEYS if has(key, format_name)}
    assert all(0 < len(rows_of_it) <= 200 for rows_of_it in found.values()), found
    return found


def answer(frame: DataFrame, where: str) -> list[str]:
    """The rows of a filter, in one order."""
    return sorted(map(str, frame.where(where).select("id").collect()))
