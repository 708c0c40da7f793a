"""The master property through Spark: a pruned scan gives the rows of a full one, whatever the predicate."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import scans
import tiers
from pyspark.sql import SparkSession
from session_settings import settings
from typed_tables import random_table, write_files

from zskip.formats.parquet import ParquetFormat
from zskip.index import refresh
from zskip.records import ScanReport
from zskip.spark.scan.relation import Pruning, scan
from zskip.spark.schema import read_schema
from zskip.storage import LocalStorage

PREDICATES = tiers.count(80, quick=40)

LITERALS: dict[str, list[str]] = {
    "i": ["0", "-50", "7", "3.5", "99999999999", "'12'", "NULL", "-7Y"],
    "l": ["0", "1099511627776", "-21990232555520L", "1e13", "NULL", "9223372036854775807"],
    "h": ["0", "127", "64S", "200", "1000000", "NULL"],
    "f": ["0", "-0.0D", "1.5", "1e300", "double('NaN')", "double('Infinity')", "3", "NULL"],
    "g": ["0", "1", "1.3333334F", "0.1", "float('NaN')", "NULL"],
    "d": ["DATE '2024-01-01'", "'2024-01-20'", "DATE '1500-02-03'", "TIMESTAMP '2024-01-05 12:00:00'", "NULL"],
    "t": ["TIMESTAMP '2024-03-31 01:30:00'", "'2024-03-30'", "DATE '2024-03-31'", "TIMESTAMP '2024-03-31 02:30:00'"],
    "n": ["TIMESTAMP_NTZ '2024-03-31 02:00:00'", "TIMESTAMP '2024-03-31 02:30:00'", "'2024-03-30 05:00:00'"],
    "m": ["0", "2.5", "2.501", "-12.50BD", "1e2", "7", "NULL"],
    "w": ["0", "100000000000000000000", "-4000000000000000000000.0", "1e21", "NULL"],
    "s": ["''", "'a'", "'ab1'", "'é0'", "'z''q1'", "'日本2'", "'x\\\\\\\\y0'", "'zzz'", "NULL"],
    "y": ["X''", "X'61'", "X'C3A9'", "X'FF'"],
    "b": ["true", "false", "NULL"],
    "k": ["0", "1e32", "999999999999999999999999999999999.99999BD", "-999999999999999999999999999999999.99999BD"],
    "e": ["DATE '0001-01-01'", "DATE '9999-12-31'", "'1900-01-01'", "DATE '1700-05-05'", "NULL"],
    "x": ["X''", "X'FF'", "X'FFFFFF00'", "X'FFFFFFFFFFFFFFFFFFFFFF'"],
    "q": ["'long '", f"'{'long ' * 30}+007'", f"'{'long ' * 30}'", "'m'"],
    "u.v": ["0", "-7", "12.5", "99999999999", "NULL"],
    "u.w.z": ["'z1'", "'z-2'", "''", "NULL"],
    "v": ["0", "17", "NULL"],
}
FUNCTIONS = [
    "CAST(t AS DATE) = DATE '2024-03-31'",
    "to_date(t) < DATE '2024-03-30'",
    "date_trunc('day', t) = TIMESTAMP '2024-03-31 00:00:00'",
    "date_trunc('HOUR', n) >= TIMESTAMP_NTZ '2024-03-31 02:00:00'",
    "trunc(d, 'MM') = DATE '2024-01-01'",
    "year(d) = 2023",
    "year(t) >= 2024",
    "year(e) < 1900",
    "unix_seconds(t) > 1711843200",
    "unix_date(d) <= 19723",
    "floor(f) = 3",
    "ceil(m) > 10",
    "floor(m) <= -3",
    "substring(s, 1, 1) = 'a'",
    "left(s, 2) IN ('a0', 'ab', 'é1')",
    "i + 1 > 10",
    "l - 5 < 0",
    "10 + i <= -30",
    "-i >= 20",
    "d + INTERVAL '1' DAY < DATE '2024-01-01'",
    "date_add(d, 10) >= DATE '2024-02-01'",
    "date_sub(d, 3) = DATE '2024-01-05'",
    "t + INTERVAL '2' HOUR > TIMESTAMP '2024-03-31 03:00:00'",
    "CAST(i AS BIGINT) < 5",
    "CAST(i AS DOUBLE) >= 4.5",
    "CAST(i AS DECIMAL(20,2)) = 7.00",
    "CAST(d AS TIMESTAMP) < TIMESTAMP '2024-01-02 00:00:00'",
    "CAST(t AS STRING) < '2024-03-31'",
    "CAST(l AS INT) = 0",
    "abs(i) > 40",
    "i % 3 = 1",
    "i * 2 > 90",
    "upper(s) = 'A1'",
    "length(s) = 1",
    "coalesce(i, 0) = 0",
    "hash(i) % 5 = 1",
    "CAST(NULL AS BOOLEAN)",
]
OTHERS = [
    "s LIKE 'a%'",
    "s LIKE 'ab_'",
    "s LIKE '%1'",
    "s LIKE '%b%'",
    "s LIKE 'b\\\\%%'",
    "s LIKE 'b/%%' ESCAPE '/'",
    "s NOT LIKE 'é%'",
    "s RLIKE '^a'",
    "startswith(s, '日')",
    "endswith(s, '2')",
    "contains(s, 'b')",
    "b",
    "NOT b",
    "b IS TRUE",
    "b = (i > 3)",
    "isnan(f)",
    "NOT isnan(f)",
    "i = h",
    "i = v",
    "i < v",
    "i >= v",
    "i <=> v",
    "i <> v",
    "d < e",
    "f = f",
    "u.v = i",
    "u IS NULL",
    "u.v IS NULL",
    "u.w.z IS NOT NULL",
    "`U`.V > 3",
    "I = 3",
]


def random_leaf(rng: random.Random) -> str:
    column = rng.choice(list(LITERALS))
    values = LITERALS[column]
    form = rng.random()
    if form < 0.35:
        op = rng.choice(["=", "<=>", "<>", "<", "<=", ">", ">="])
        return f"{column} {op} {rng.choice(values)}"
    if form < 0.42:
        return f"{rng.choice(values)} {rng.choice(['<', '>=', '='])} {column}"
    if form < 0.52:
        return f"{column} {rng.choice(['', 'NOT '])}IN ({', '.join(rng.choices(values, k=rng.choice([1, 3, 14])))})"
    if form < 0.57:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    if form < 0.65:
        return f"{column} BETWEEN {rng.choice(values)} AND {rng.choice(values)}"
    return rng.choice(FUNCTIONS if rng.random() < 0.5 else OTHERS)


def random_predicate(rng: random.Random, depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.4:
        return random_leaf(rng)
    if rng.random() < 0.25:
        return f"NOT ({random_predicate(rng, depth - 1)})"
    joined = f" {rng.choice(['AND', 'OR'])} "
    return joined.join(f"({random_predicate(rng, depth - 1)})" for _ in range(rng.choice([2, 3])))


@pytest.mark.scaled
@pytest.mark.parametrize(
    ("seed", "zone"), tiers.nightly([(1, "Europe/Berlin"), (2, "UTC"), (1, "UTC"), (2, "Europe/Berlin")])
)
def test_pruned_is_full(spark: SparkSession, tmp_path: Path, seed: int, zone: str) -> None:
    numbers = np.random.default_rng(seed)
    write_files(random_table(numbers), tmp_path / "t", numbers)
    rng = random.Random(seed)
    predicates = [random_predicate(rng) for _ in range(PREDICATES)]
    conf = {
        "spark.sql.session.timeZone": zone,
        "spark.sql.ansi.enabled": "false",
        # Spark itself skips row groups by bounds that pyarrow takes without regard to NaN, and then misses `NaN > x`.
        "spark.sql.parquet.filterPushdown": "false",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    }
    with settings(spark, **conf):
        found = check(spark, tmp_path / "t", predicates)
    assert sum(found) > PREDICATES // 4, "hardly any predicate skipped files: the test says nothing"


def check(spark: SparkSession, path: Path, predicates: list[str]) -> list[bool]:
    """Compare each predicate's rows with those of a full scan; returns which of them skipped files."""
    plain = spark.read.parquet(str(path))
    # As a column, a predicate is not pushed down: one job answers for all, from every row.
    truth = plain.selectExpr("id", *(f"({p}) IS TRUE" for p in predicates)).collect()
    storage = LocalStorage(str(path))
    schema = read_schema(spark, ParquetFormat(storage).snapshot())
    stats = refresh(storage, schema.snapshot).bind(schema.snapshot)
    reports: list[ScanReport] = []

    frame = scan(spark, schema, Pruning(index=stats, case_sensitive=False, on_scan=reports.append))
    skipped = []
    for k, predicate in enumerate(predicates):
        reports.clear()
        rows = sorted(r.id for r in frame.where(predicate).select("id").collect())
        assert rows == sorted(r[0] for r in truth if r[k + 1]), (predicate, reports)
        scans.report(spark)
        skipped.append(any(r.files < r.files_total for r in reports))
    return skipped
