"""What one session indexes and another one asks: a state counts only where all that it depends on is the same."""

from __future__ import annotations

import bisect
import datetime as dt
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from calls import NAMES, calls_of
from pyspark.sql import SparkSession

import zskip
from zskip.errors import UnsupportedError, ZskipWarning
from zskip.formats.schema import fields_from_json
from zskip.index import Index
from zskip.predicate import Columns, term_sql, zones
from zskip.predicate.functions.clocks import clock_of
from zskip.records import Field
from zskip.sketch import parse_sketch_on
from zskip.spark.jvm import compat, versions
from zskip.spark.jvm.compat import private_session
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.versions import SessionVersions, zone_data
from zskip.spark.scan.bridge.terms import find_misread
from zskip.storage import LocalStorage
from zskip.table import refresh_index
from zskip.types import DataType

pytestmark = pytest.mark.spark
ESCAPES = {"spark.sql.parser.escapedStringLiterals": "true"}
NOON = dt.datetime(2024, 5, 31, 12)


def write(path: Path, *tables: pa.Table) -> str:
    path.mkdir(exist_ok=True)
    for number, table in enumerate(tables, len(list(path.glob("*.parquet")))):
        pq.write_table(table, path / f"{number}.parquet")
    return str(path)


def check_rows(spark: SparkSession, path: str, where: str, files: int | None = None) -> None:
    """Whether a session has the rows of Spark's own scan, from so many files; only those that hold one, by default."""
    table = zskip.table(spark, path)
    expected = spark.read.parquet(path).where(where)
    assert sorted(table.df().where(where).collect()) == sorted(expected.collect())
    holding = {row[0] for row in expected.selectExpr("input_file_name()").collect()}
    kept = {Path(file).name for file in table.files(where)}
    assert kept >= {name.rpartition("/")[2] for name in holding}
    assert len(kept) == (len(holding) if files is None else files)


def sketched_files(path: str) -> int:
    """The states of the first sketch, of whatever session."""
    index = Index.load(LocalStorage(path))
    assert index is not None
    return sum(segment.files for segment in index.manifest.sketches[0].segments)


@pytest.fixture
def reversing(spark: SparkSession) -> SparkSession:
    """A session with functions of its own."""
    session = private_session(spark, {})
    for name in ("lower", "upper", "substring"):
        session.udf.register(name, lambda text, *_: None if text is None else text[::-1], "string")
    return session


@pytest.mark.slow
@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_states_of_names_in_another_case_do_not_count(spark: SparkSession, tmp_path: Path, sensitive: str) -> None:
    one = private_session(spark, {"spark.sql.caseSensitive": sensitive})
    other = private_session(spark, {"spark.sql.caseSensitive": "false" if sensitive == "true" else "true"})
    path = write(tmp_path / "t", pa.table({"A": [2, 4, 8]}), pa.table({"a": [1, 5, 9]}), pa.table({"A": [1, 5, 9]}))
    zskip.table(one, path).index(sketches=["values(100):A"])
    for where in ("A = 5", "A = 4", "A IS NULL", "NOT A = 5"):
        check_rows(one, path, where)
        zskip.table(other, path).files(where)
        expected = other.read.parquet(path).where(where).collect()
        assert sorted(zskip.table(other, path).df().where(where).collect()) == sorted(expected)
    zskip.table(other, path).index()
    check_rows(other, path, "A = 5")
    check_rows(other, path, "A = 3", 0)


ODD_KEY = "get_json_object(s, '$[\\'a b\\']')"


def test_sketches_mean_the_same_where_strings_have_no_escapes(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "t", *(pa.table({"s": [f'{{"a b": {n}}}']}) for n in range(3)))
    session = private_session(spark, ESCAPES)
    zskip.table(session, path).index(sketches=[f"values(9):{ODD_KEY}", "values(9):substring_index(s, '\\\\', 1)"])
    check_rows(spark, path, f"{ODD_KEY} = '1'")


def test_the_session_reads_predicates_as_it_does(spark: SparkSession, tmp_path: Path, reversing: SparkSession) -> None:
    path = write(tmp_path / "t", *(pa.table({"s": [text]}) for text in ("a\\b", "a\\\\b", "AB")))
    zskip.table(spark, path).index(sketches=["values(9):lower(s)"])
    check_rows(spark, path, "s = 'a\\\\b'", 1)
    check_rows(private_session(spark, ESCAPES), path, "s = 'a\\\\b'", 3)
    check_rows(spark, path, "lower(s) = 'ab'", 1)
    check_rows(reversing, path, "lower(s) = 'BA'", 3)
    check_rows(reversing, path, "reverse(s) = 'BA' AND s = 'AB'", 1)


def test_functions_of_users_are_not_sketched_as_those_of_spark(
    spark: SparkSession, tmp_path: Path, reversing: SparkSession
) -> None:
    path = write(tmp_path / "t", *(pa.table({"s": [text]}) for text in ("AB", "CD")))
    with pytest.raises(UnsupportedError, match=r'"lower\(s\)" means something else in this session'):
        zskip.table(reversing, path).index(sketches=["values(9):lower(s)"])
    assert not (tmp_path / "t" / "_zskip").exists()
    zskip.table(spark, path).index(sketches=["values(9):lower(s)", "values(9):reverse(s)"])
    write(tmp_path / "t", pa.table({"s": ["EF"]}))
    with pytest.warns(ZskipWarning, match=r'sketches were not built: "lower\(s\)" means something else'):
        zskip.table(reversing, path).index()
    check_rows(spark, path, "reverse(s) = 'BA'")
    check_rows(spark, path, "lower(s) = 'ab'", 2)
    check_rows(reversing, path, "lower(s) = 'BA'", 3)
    zskip.table(spark, path).index()
    check_rows(spark, path, "lower(s) = 'ab'", 1)
    with pytest.raises(UnsupportedError, match="means something else in this session"):
        zskip.table(reversing, path).index(collect="scan")


TYPES = {
    **dict.fromkeys("se", "string"), "bi": "binary", "d": "date", "ts": "timestamp", "n": "timestamp_ntz", "i": "int",
    "l": "bigint", "m": "map<string,int>", "st": "struct<a:string,`b.c`:double>", "tags": "array<string>",
}  # fmt: skip
TEXTS = [
    *(f"{name}(s)" for name in ("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "length", "octet_length")),
    *(f"{name}({column})" for name in ("md5", "sha", "crc32") for column in ("s", "bi")),
    *(f"{name}({column})" for name in ("hour", "minute", "second") for column in ("ts", "n")),
    *(f"{name}({column})" for name in ("month", "day", "quarter", "weekofyear", "dayofweek") for column in ("d", "ts")),
    *("dayofyear(n)", "weekday(d)", "sha2(s, 256)", "get_json_object(s, '$.a')", ODD_KEY, "concat(s, '-', e)"),
    *("substring_index(s, '@', -1)", "concat(s, 'it\\'s \\\\ %')", "upper(trim(s))", "substring(lower(s), 1, 3)"),
    *("lower(left(s, 3))", "hash(s, i)", "xxhash64(l, s, d)", "pmod(hash(s), 64)", "i % 10", "l % 7", "m['k']"),
    *("lower(st.a)", "floor(st.`b.c`)", "CAST(get_json_object(s, '$.x') AS DOUBLE)", "date_trunc('HOUR', ts)"),
    *("ts + INTERVAL 1 DAY", "year(ts)", "explode(tags)", "explode(map_keys(m))", "explode(map_values(m))"),
]


def test_what_can_be_sketched_is_read_back_as_it_was_written(spark: SparkSession) -> None:
    session = private_session(spark, {"spark.sql.session.timeZone": "Europe/Berlin"})
    variants = {"v": "variant"} if compat.version(spark) >= (4, 0) else {}
    frame = compat.frame_of_rows(session, [], ", ".join(f"{n} {t}" for n, t in (TYPES | variants).items()))
    fields = fields_from_json(frame.schema.json())
    paths = ["v:a::int", "try_variant_get(v, '$.a', 'string')", "variant_get(v, '$.d', 'date')"] if variants else []
    sketches = [
        parse_sketch_on(f"values(9):{text}", Columns(fields), timezone="Europe/Berlin") for text in TEXTS + paths
    ]
    terms = {term_sql(term): term for on in sketches for term in refresh_index._computed(on)}
    assert len(terms) > 50
    assert find_misread(frame, terms, fields) == []
    for name in NAMES:
        spark_type = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}.get(name, name)
        column = compat.frame_of_rows(session, [], f"`c {name}` {spark_type}")
        calls = {term_sql(call): call for call in calls_of(name, "Europe/Berlin")}
        assert find_misread(column, calls, [Field(name=f"c {name}", type=DataType(name))]) == []


def test_functions_of_users_are_no_keys(spark: SparkSession, tmp_path: Path, reversing: SparkSession) -> None:
    path = write(tmp_path / "t", pa.table({"s": [f"{c}{n}" for n in range(40) for c in "aB"]}))
    before = sorted((tmp_path / "t").rglob("*"))
    rows = reversing.read.parquet(path)
    refused = (
        lambda: zskip.table(reversing, path).optimize(by=["lower(s)"], curve="linear", files=2),
        lambda: zskip.write(rows, str(tmp_path / "new"), by=["upper(s)"], curve="linear", files=2),
    )
    for call in refused:
        with pytest.raises(UnsupportedError, match=r'er\(s\)" means something else in this session'):
            call()
    assert sorted((tmp_path / "t").rglob("*")) == before
    assert not (tmp_path / "new").exists()
    zskip.table(spark, path).optimize(by=["lower(s)"], curve="linear", files=4)
    before = sorted((tmp_path / "t").rglob("*.parquet"))
    with pytest.raises(UnsupportedError, match=r'"lower\(s\)" means something else in this session'):
        zskip.table(reversing, path).append(rows)
    assert sorted((tmp_path / "t").rglob("*.parquet")) == before


def test_states_by_another_java_do_not_count(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "t", *(pa.table({"s": [text], "t": [text]}) for text in ("AB", "CD")))
    zskip.table(spark, path).index(sketches=["values(9):lower(s)", "values(9):reverse(s)"])
    before = sketched_files(path)
    with monkeypatch.context() as patch:
        patch.setattr(SessionVersions, "letters", lambda self: "Spark 9.9, Java 99, ICU 99, tr")
        check_rows(spark, path, "lower(s) = 'ab'", 2)
        check_rows(spark, path, "reverse(s) = 'BA'", 1)
        zskip.table(spark, path).index()
        check_rows(spark, path, "lower(s) = 'ab'", 1)
        assert sketched_files(path) >= before
    check_rows(spark, path, "lower(s) = 'ab'", 2)
    assert len(zskip.open(path).files("lower(s) = 'ab'")) == 1


@pytest.fixture
def almaty(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session in a zone of which Java has older data: six hours from UTC after March 2024, too."""
    jvm = Jvm.of(spark)
    data = zone_data(jvm, "Asia/Almaty")
    last = bisect.bisect_left(data.starts, int(dt.datetime(2024, 2, 1, tzinfo=dt.timezone.utc).timestamp()) * 10**6)
    older = versions._Zone("older", data.starts[:last], data.offsets[: last + 1])
    monkeypatch.setitem(jvm._cache, "zone Asia/Almaty", older)
    monkeypatch.delitem(jvm._cache, "agrees on Asia/Almaty", raising=False)
    yield private_session(spark, {"spark.sql.session.timeZone": "Asia/Almaty"})
    jvm._cache.pop("agrees on Asia/Almaty", None)


def test_zones_of_which_java_has_other_data_have_no_clock(almaty: SparkSession, tmp_path: Path) -> None:
    hours = [NOON.replace(tzinfo=dt.timezone.utc) + dt.timedelta(hours=h) for h in (-72, 0, 6, 72)]
    path = write(tmp_path / "t", *(pa.table({"ts": pa.array([hour], pa.timestamp("us", "UTC"))}) for hour in hours))
    table = zskip.table(almaty, path)
    table.index()
    assert len(table.files("date(ts) = DATE '2024-06-01'")) == 2
    assert clock_of("Asia/Almaty") is None
    assert len(table.files("ts = TIMESTAMP '2024-05-31 18:00:00'")) == len(hours)
    assert len(table.files("ts = TIMESTAMP '2024-05-31 12:00:00Z'")) == 1
    assert len(table.files("ts = TIMESTAMP '2024-05-31 14:00:00 Europe/Berlin'")) == 1
    kept = table.df().where("ts = TIMESTAMP '2024-05-31 18:00:00'")
    assert kept.count() == almaty.read.parquet(path).where("ts = TIMESTAMP '2024-05-31 18:00:00'").count()


def test_states_by_other_zone_data_do_not_count(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = private_session(spark, {"spark.sql.session.timeZone": "Europe/Berlin"})
    stamps = [dt.datetime(2024, 5, 31, hour, tzinfo=dt.timezone.utc) for hour in (5, 11, 17)]
    path = write(tmp_path / "t", *(pa.table({"ts": pa.array([one], pa.timestamp("us", "UTC"))}) for one in stamps))
    zskip.table(session, path).index(sketches=["values(9):hour(ts)", "values(9):date_trunc('HOUR', ts)"])
    check_rows(session, path, "hour(ts) = 13", 1)
    data = zone_data(Jvm.of(spark), "Europe/Berlin")
    with monkeypatch.context() as patch:
        patch.setitem(Jvm.of(spark)._cache, "zone Europe/Berlin", data._replace(version="other"))
        check_rows(session, path, "hour(ts) = 13", 3)
        zskip.table(session, path).index()
        check_rows(session, path, "hour(ts) = 13", 1)
    check_rows(session, path, "hour(ts) = 13", 3)


@pytest.mark.parametrize("name", ["Europe/Berlin", "Africa/Casablanca", "America/St_Johns", "Asia/Tokyo"])
def test_the_data_of_zones_are_those_of_java(spark: SparkSession, name: str) -> None:
    jvm = Jvm.of(spark)
    rules = spark._jvm.java.time.ZoneId.of(name).getRules()  # type: ignore[union-attr]
    instants = spark._jvm.java.time.Instant  # type: ignore[union-attr]
    data = zone_data(jvm, name)
    seconds = [start // 10**6 - back for start in data.starts[::9] for back in (0, 1)]
    seconds += np.random.default_rng(1).integers(0, 4_102_444_800, 40).tolist()
    expected = [rules.getOffset(instants.ofEpochSecond(second)).getTotalSeconds() for second in seconds]
    positions = np.searchsorted(data.starts, np.array(seconds) * 10**6, "right")
    assert (np.array(data.offsets)[positions] // 10**6).tolist() == expected


def test_a_zone_is_compared_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    jvm, calls = Jvm.of(spark), list[str]()
    versions.compare_zones(jvm)
    monkeypatch.setattr(versions, "_compare", lambda _, name: calls.append(name) or True)
    monkeypatch.delitem(jvm._cache, "agrees on Asia/Tokyo", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert zones.zone_of("Asia/Tokyo") is not None
        assert zones.zone_of("Asia/Tokyo") is not None
        assert zones.zone_of("+09:00") is not None
    assert calls == ["Asia/Tokyo"]
    jvm._cache.pop("agrees on Asia/Tokyo", None)
