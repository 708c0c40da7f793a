"""Conditions of `matches` with Python functions of the user: files are skipped while the function is what it was."""

from __future__ import annotations

import datetime as dt
import functools
import importlib
import itertools
import math
import operator
import pickle
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import zskip
from zskip.errors import InputError, ZskipWarning
from zskip.spark.scan.conditions.functions import UnknownFunctionError, identify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 8
ROWS = "SELECT id, CAST(id % 7 AS INT) AS b, concat('n', id, IF(id DIV 100 = 3, ' special', ' plain')) AS s"
WORDS = {"special"}
PATTERN = re.compile("spec.al")
NOW, MOMENT = dt.datetime.now, dt.datetime.timestamp


def is_rare(text: str) -> bool:
    return PATTERN.search(text) is not None


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.udf.register("rare", is_rare, "boolean")
    return session


@pytest.fixture
def table(own: SparkSession, tmp_path: Path) -> zskip.Table:
    own.sql(f"{ROWS} FROM range(0, 800, 1, {FILES})").write.parquet(str(tmp_path / "t"))
    return zskip.table(own, str(tmp_path / "t"))


def read(spark: SparkSession, table: zskip.Table, where: str) -> int:
    """The files that a filter reads by each way; its rows are those of Spark's own reader."""
    plain = sorted(map(str, spark.read.parquet(table.path).where(where).collect()))
    assert sorted(map(str, table.df().where(where).collect())) == plain
    files = table.last_scan.files
    with zskip.enabled(spark):
        assert sorted(map(str, spark.sql(f"SELECT * FROM parquet.`{table.path}` WHERE {where}").collect())) == plain
        (scan,) = zskip.scans(spark)
    assert scan.files == files
    return files


def test_filters_that_imply_the_condition_skip_files(own: SparkSession, table: zskip.Table) -> None:
    table.index(sketches=["matches:rare(s)", "matches:rare(concat(s, 'x')) AND b = 3", "matches:length(s) + 1 > 99"])
    assert {part.files for part in table.info().index.sketches} == {FILES}
    assert read(own, table, "rare(s)") == 1
    assert [leaf.sql for leaf in table.last_scan.leaves if leaf.skipped] == ["matches:rare(s)"]
    assert read(own, table, "b > 2 AND rare(s) AND id > 10") == 1
    assert read(own, table, "b = 3 AND id >= 0 AND rare(concat(s, 'x'))") == 1
    assert read(own, table, "rare(concat(s, 'x'))") == FILES
    assert read(own, table, "rare(s) OR b = 3") == FILES
    assert read(own, table, "NOT rare(s)") == FILES
    assert read(own, table, "rare(s) IS NULL") == FILES
    frame = table.df().selectExpr("s AS t", "b + 1 AS c").where("rare(t)").where("c > 2").groupBy("c").count()
    assert frame.count() == 5
    assert table.last_scan.files == 1
    spark_limit = table.df().limit(20).where("rare(s)")
    assert spark_limit.count() == 0, "the filter is of the first rows alone"


def test_a_function_that_changed_skips_nothing(own: SparkSession, table: zskip.Table) -> None:
    words = {"special"}

    def register() -> None:
        # As a notebook does whose cell runs again.
        def has_word(text: str, least: int = 2) -> bool:
            return len(text) > least and any(word in text for word in words)

        own.udf.register("has_word", has_word, "boolean")

    register()
    table.index(sketches=["matches:has_word(s)"])
    assert read(own, table, "has_word(s)") == 1
    register()
    assert read(own, table, "has_word(s)") == 1, "the same code again"
    words.add("n5")
    register()
    assert read(own, table, "has_word(s)") == FILES
    words.remove("n5")
    register()
    assert read(own, table, "has_word(s)") == 1
    own.udf.register("has_word", is_rare, "boolean")
    assert read(own, table, "has_word(s)") == FILES
    own.udf.register("other", is_rare, "boolean")
    assert read(own, table, "other(s)") == FILES


@pytest.mark.parametrize(
    "condition", ["coalesce(marked(s), 0) > 3", "abs(marked(s)) = 7", "if(b > 2, marked(s), 0) > 3"]
)
def test_a_function_inside_others_that_changed_skips_nothing(
    own: SparkSession, table: zskip.Table, condition: str
) -> None:
    own.udf.register("marked", lambda text: 7 if "special" in text else 1, "int")
    table.index(sketches=[f"matches:{condition}"])
    assert read(own, table, condition) == 1
    own.udf.register("marked", lambda text: 7 if "n5" in text else 1, "int")
    assert read(own, table, condition) == FILES


def test_a_function_of_a_module_that_is_edited(
    own: SparkSession, table: zskip.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_functions_{time.time_ns()}"
    source = tmp_path / f"{name}.py"
    source.write_text("WORD = 'special'\ndef has_word(text):\n    return WORD in text\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(name)
    own.sparkContext.addPyFile(str(source))
    own.udf.register("of_module", module.has_word, "boolean")
    table.index(sketches=["matches:of_module(s)"])
    with zskip.enabled(own):
        query = own.read.parquet(table.path).where("of_module(s)")
        assert query.count() == 100
        assert zskip.scans(own)[0].files == 1
        module.WORD = "n5"  # What is sent to workers stays the name alone.
        own.read.parquet(table.path).where("of_module(s)").count()
        assert zskip.scans(own)[0].files == FILES


def test_the_workload_chooses_conditions_with_functions(own: SparkSession, table: zskip.Table) -> None:
    table.index()
    table.record()
    with zskip.enabled(own):
        for _ in range(3):
            own.sql(f"SELECT * FROM parquet.`{table.path}` AS a WHERE rare(a.s) AND a.id >= 0").collect()
    choices = table.index(sketches="auto").choices
    assert choices is not None
    assert [choice.spec.lower() for choice in choices] == ["matches:rare(s)"], table.workload()
    assert read(own, table, "rare(s)") == 1


def test_a_session_that_does_not_know_the_function(own: SparkSession, table: zskip.Table) -> None:
    table.index(sketches=["matches:rare(s)"])
    other = own.newSession()
    own.sql(f"{ROWS} FROM range(320, 330, 1, 1)").write.mode("append").parquet(table.path)
    elsewhere = zskip.table(other, table.path)
    with pytest.warns(ZskipWarning, match="not built"):
        elsewhere.index()
    assert elsewhere.df().where("s LIKE '%special%'").count() == 110
    assert len(zskip.open(table.path).files("s LIKE '%special%'")) == FILES + 1
    assert read(own, zskip.table(own, table.path), "rare(s)") == 2, "the new file is read"
    zskip.table(own, table.path).index()
    assert read(own, zskip.table(own, table.path), "rare(s)") == 2


def as_object() -> Any:
    class Has:
        def __call__(self, text: str) -> bool:
            return "x" in text

    return Has()


def imports_inside(text: str) -> bool:
    import json

    return bool(json.loads(text))


def counts(text: str) -> bool:
    global CALLS
    CALLS = 1
    return True


def of_a_class(text: str) -> bool:
    return isinstance(text, Path)


REFUSED: dict[str, tuple[Callable[[str], Any], str]] = {
    "random": (lambda text: random.random() < 0.5, "random"),
    "clock": (lambda text: str(dt.date.today()) < text, "today"),
    "time": (lambda text: time.monotonic() > 3, "time"),
    "file": (lambda text: text in open("/etc/hosts").read(), "open"),  # noqa: SIM115
    "hash": (lambda text: hash(text) > 3, "hash"),
    "object": (as_object(), "Has"),
    "import": (imports_inside, "imports json"),
    "state": (counts, "CALLS"),
    "class": (of_a_class, "pathlib"),
    "default": (lambda text, clock=dt.datetime.now: str(clock()) < text, "now"),
    "alias": (lambda text: NOW().isoformat() < text, "now"),
    "method": (lambda text: MOMENT(dt.datetime(2024, 1, 1)) < len(text), "timestamp"),
    "seconds": (lambda text: f"{dt.datetime(2024, 1, len(text)):%s}" < text, "%s formats"),
    "local time": (lambda text: dt.datetime.fromtimestamp(len(text)).hour > 3, "fromtimestamp.*another machine"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_functions_that_cannot_be_told_are_refused(own: SparkSession, table: zskip.Table, kind: str) -> None:
    function, reason = REFUSED[kind]
    own.udf.register("strange", function, "boolean")
    with pytest.raises(InputError, match=f"whether the function will be the same.*{reason}"):
        table.index(sketches=["matches:strange(s)"])
    assert table.info().index is None


def test_functions_of_batches_and_those_that_say_so_are_refused(own: SparkSession, table: zskip.Table) -> None:
    own.udf.register("batch", F.pandas_udf(lambda texts: texts == texts.min(), "boolean"))
    own.udf.register("once", F.udf(is_rare, "boolean").asNondeterministic())
    own.udf.register("lower", lambda text: text, "string")
    own.udf.register("hour_in", lambda moment: moment.hour, "int")
    own.udf.register("of_hour", lambda hour: dt.datetime(2024, 1, 1, hour), "timestamp")
    own.udf.register("of_all", lambda row: row.m[0].hour > 1, "boolean")
    refused = [
        "hour_in(timestamp(s)) > 2",
        "of_hour(id) > s",
        "of_all(named_struct('m', array(timestamp_seconds(id))))",
    ]
    if own.version >= "4":
        own.sql("CREATE TEMPORARY FUNCTION in_sql(x STRING) RETURNS BOOLEAN RETURN x RLIKE 'n5'")
        refused.append("in_sql(s)")
    for call in ("batch(s)", "once(s)", "lower(s) = 'x'", *refused):
        with pytest.raises(InputError, match=r"no one value|of its own"):
            table.index(sketches=[f"matches:{call}"])
    assert table.info().index is None


def name(function: Callable[..., Any]) -> str:
    from pyspark import cloudpickle

    return identify(cloudpickle.dumps((function, "boolean")))


def closure(number: int, text: str, function: Callable[[float], float]) -> Callable[[str], Any]:
    pattern, nested = re.compile(text), {"k": [number, (text,)]}

    def one(value: str, number: int = number) -> Any:
        return function(number), pattern, nested, frozenset([text])

    return one


def variants() -> list[Callable[[str], Any]]:
    """Functions of which no two are the same."""
    made = [closure(*parts) for parts in itertools.product((1, 2), ("a", "b"), (math.floor, operator.neg))]
    made += [functools.partial(one, text) for one, text in itertools.product(made[:2], ("a", "b"))]
    made += [lambda value: value + "x", lambda value: value + "y", lambda value: value and "x", lambda value: value.x]
    made += [lambda value: [c + "x" for c in value], lambda value: [c + "y" for c in value], PATTERN.search]
    made += [re.compile("other").search, str.lower, str.upper, "abc".find, "abd".find]
    for made_of in (made[0], made[2]):
        made.append(lambda value, made_of=made_of: made_of(value))
    return made


def test_functions_differ_where_anything_in_them_does() -> None:
    def named(function: Any) -> str:
        function = function if hasattr(function, "__qualname__") else functools.wraps(is_rare)(function)
        return name(function)

    names = [named(function) for function in variants()]
    assert len(set(names)) == len(names)
    assert names == [named(function) for function in variants()]


def test_functions_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose main module is a program that pip has installed."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "/usr/lib/python3/site-packages/ipykernel_launcher.py", raising=False)
    monkeypatch.setattr(main, "__version__", "1.0", raising=False)
    names = set()
    for body in ("text + 'x'", "text + 'y'", "helper(text)"):
        scope: dict[str, Any] = {"__name__": "__main__"}
        exec(f"def helper(text):\n    return len(text)\ndef cell(text):\n    return {body}\n", scope)
        names.add(name(scope["cell"]))
        exec("def helper(text):\n    return len(text) + 1\n", scope)
        names.add(name(scope["cell"]))
    assert len(names) == 4


def test_recursion_and_values_that_refer_to_themselves() -> None:
    def depth(text: str) -> int:
        return 1 + depth(text[1:]) if text else loop[0]

    loop: list[Any] = [7]
    loop.append(loop)
    assert name(depth) == name(depth)


def without_a_value() -> Callable[[str], Any]:
    def early(text: str) -> Any:
        return later

    if not early:
        later = 1
    return early


def test_what_cannot_be_read_back_is_refused() -> None:
    with pytest.raises(UnknownFunctionError, match="later has no value yet"):
        name(without_a_value())
    for data in (b"nonsense", pickle.dumps(7)):
        with pytest.raises(UnknownFunctionError, match="read back"):
            identify(data)
