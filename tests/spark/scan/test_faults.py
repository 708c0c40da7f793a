"""Each method of the Java in the driver fails in turn: the query is Spark's own then, and the user is told."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ZskipWarning
from zskip.spark.jvm.compiled import janino
from zskip.spark.jvm.gateway import Jvm

METHOD = re.compile(
    r"^ +(?!else |return |new )(?:(?:public|private|protected|static|final|synchronized) )*"
    r"(?:<T> )?[\w.]+(?:<[\w<>\[\], ?]+>)?(?:\[\])? ([a-z]\w*)\([^()]*\)(?: throws \w+)? \{"
)
SPIES = """
final class Spies {
  static volatile String broken = "";
  static final java.util.Set SEEN = java.util.concurrent.ConcurrentHashMap.newKeySet();
  static void at(String place) {
    SEEN.add(place);
    if (place.equals(broken)) throw new IllegalStateException("broken on purpose");
  }
}
public final class Spy implements java.util.function.Function {
  public Object apply(Object place) {
    Spies.broken = (String) place;
    String seen = Json.write(new java.util.TreeSet(Spies.SEEN));
    Spies.SEEN.clear();
    return seen;
  }
}
"""
OUTSIDE = re.compile(
    r"(ZskipFiles|Pinned|VersionFiles|Partitions|ListedFiles)\.(rootPaths|sizeInBytes|partitionSchema|inputFiles|refresh|metadataOpsTimeNs"
    r"|isTimeTravel|toString|hashCode|equals|notes|listFiles|list|everything|matching|partitions|directories|numbered|divide"
    r"|status|path|values|size|files|number|hasDeletedRows)|Listing\.of|(JoinCandidates?|ShownPath)\.|Rule\.(apply|guarded|mark)|ScanLog\.get|Faults\."
    r"|Pinned\.(count|directory|numbers|numberedFiles)|(Lists|Statuses|PartitionRows)\."
    r"|QueryMark\.|Scala\.|Json\.write|FilterText\.apply|Spy"
)
"""What answers Spark or Python from a field, and what catches the faults."""
QUERIES = {
    "filter": "SELECT id FROM {t} WHERE id < 250 AND p = 0",
    "top-k": "SELECT id, v FROM {t} WHERE id > 30 ORDER BY id DESC LIMIT 10",
    "limit": "SELECT count(*) FROM (SELECT v FROM {t} WHERE id > 30 LIMIT 10)",
    "count": "SELECT count(*), max(id) FROM {t} WHERE id > 30",
    "join": "SELECT /*+ MERGE(d) */ sum(id), count(*) FROM {t} t JOIN d ON t.id = d.k WHERE d.w = 3",
    "broadcast": "SELECT /*+ BROADCAST(d) */ sum(id), count(*) FROM {t} t JOIN d ON t.id = d.k WHERE d.w = 3",
    "dimensions": "SELECT /*+ MERGE(d, e) */ sum(id) FROM {t} t JOIN d ON t.id = d.k JOIN e ON d.w = e.x WHERE e.y = 2",
}


def instrumented(source: str) -> str:
    """The Java with a call at the beginning of each method."""
    lines, owner = [], ""
    for line in source.splitlines():
        found = re.match(r"^(?:public )?(?:abstract )?(?:final )?class (\w+)", line)
        owner = found[1] if found else owner
        method = METHOD.match(line)
        place = f"{owner}.{method[1]}" if method else ""
        if method and not OUTSIDE.match(place):
            line = f'{method[0]} Spies.at("{place}"); {line[method.end() :]}'
        lines.append(line)
    return "\n".join(lines) + SPIES


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Iterator[Jvm]:
    """With a rule that is compiled from the instrumented Java."""
    jvm = Jvm.of(spark)
    source = instrumented(janino.read_java())
    known = dict(jvm._cache)
    forget(jvm)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(janino, "read_java", lambda: source)
        yield jvm
    forget(jvm)
    jvm._cache.update(known)


def forget(jvm: Jvm) -> None:
    for name in [name for name in jvm._cache if name.startswith("scan/")]:
        del jvm._cache[name]


@pytest.fixture(scope="module")
def session(spark: SparkSession, jvm: Jvm, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session of its own, and tables for it."""
    made, path = spark.newSession(), tmp_path_factory.mktemp("faults")
    for name, value in {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.zskip.joins": "always",
    }.items():
        made.conf.set(name, value)
    rows = made.range(0, 2000, 1, 10).selectExpr("id", "id % 10 AS v", "id DIV 1000 AS p")
    rows.write.partitionBy("p").parquet(str(path / "t"))
    zskip.table(made, str(path / "t")).index()
    made.range(0, 100, 1, 1).selectExpr("id AS k", "id DIV 10 AS w").write.parquet(str(path / "d"))
    made.range(0, 10, 1, 1).selectExpr("id AS x", "id % 3 AS y").write.parquet(str(path / "e"))
    for view, name in (("found", "t"), ("plain", "t"), ("d", "d"), ("e", "e")):
        made.read.parquet(str(path / name)).createOrReplaceTempView(view)
    zskip.table(made, str(path / "t")).df().createOrReplaceTempView("own")
    return made


def rows(session: SparkSession, query: str, view: str) -> list[str]:
    return sorted(map(repr, session.sql(query.format(t=view)).collect()))


@pytest.mark.nightly  # A query for each method of the Java.
def test_whatever_java_fails_the_query_is_spark_s(session: SparkSession, jvm: Jvm) -> None:
    spy = janino.singleton(jvm, "Spy")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        # Plain Spark's relation in an enabled session, and that of `Table.df()`.
        for view, broken in (("found", set[str]()), ("own", set[str]())):
            for kind, query in QUERIES.items():
                expected = rows(session, query, "plain")
                with zskip.enabled(session):
                    spy.apply("")
                    assert rows(session, query, view) == expected
                    places = set(json.loads(spy.apply(""))) - broken
                    assert len(places) >= 20 * (kind == "filter"), "hardly any Java was run"
                    for place in sorted(places):
                        spy.apply(place)
                        try:
                            assert rows(session, query, view) == expected, (view, kind, place)
                        finally:
                            spy.apply("")
                broken |= places
    said = [str(warning.message) for warning in told if issubclass(warning.category, ZskipWarning)]
    assert any("broken on purpose" in text for text in said), said


@pytest.mark.nightly  # It ends the timer of the instrumented Java.
def test_a_key_query_that_cannot_begin_leaves_nothing_behind(session: SparkSession, jvm: Jvm) -> None:
    timer = janino.singleton(jvm, "Spy").getClass().getClassLoader().loadClass("KeyQuery").getDeclaredField("TIMER")
    timer.setAccessible(True)
    timer.get(None).cancel()
    context, query = session.sparkContext, QUERIES["join"]
    expected = rows(session, query, "plain")
    with zskip.enabled(session), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It may have come in the test before.
        assert rows(session, query, "found") == expected
    assert "the key query failed" in {leaf.reason for scan in zskip.scans(session) for leaf in scan.leaves}
    assert context.getLocalProperty("spark.zskip.joins.asking") is None
    assert not [tag for tag in context.getJobTags() if tag.startswith("zskip")]
