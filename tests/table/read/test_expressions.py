"""Tables are asked with expressions of pyarrow, and answer as for text."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import tables
import tiers
from pyspark.sql import SparkSession

import zskip
from zskip.errors import ColumnError, InputError

UTC = dt.timezone.utc
whole, day, at, score, name = (pc.field(n) for n in ("id", "day", "at", "score", "name"))

EXPRESSIONS = [
    whole < 100,
    (whole >= 5_900) | whole.is_null(),
    whole.isin([3, 4_000]),
    (whole == 17) & (pc.field("flag") | ~pc.field("flag")),
    ~(whole > 50) & pc.starts_with(name, "name-0"),
    (whole < 2_000) & (pc.bit_wise_and(whole, 1) == 1),
    (whole < 300) & (day >= dt.date(2024, 3, 1)),
    (whole < 300) & pc.is_nan(score),
    (whole < 300) & (pc.field("price") > decimal.Decimal("42.5")),
    at < pa.scalar(dt.datetime(2023, 11, 20, tzinfo=UTC)),
]
UNDERSTOOD = [expression for expression in EXPRESSIONS if "bit_wise" not in str(expression)]


@pytest.fixture(scope="module")
def sorted_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty files, by the number; and by the time, where the numbers leave off."""
    path = tmp_path_factory.mktemp("expressions") / "t"
    path.mkdir()
    events = tables.events()
    early = pc.less(events["at"], pa.scalar(dt.datetime(2023, 12, 1, tzinfo=UTC)))
    ordered = [events.filter(early).sort_by("at"), events.filter(pc.invert(early)).sort_by("id")]
    for i, part in enumerate(ordered):
        step = -(-part.num_rows // 20)
        for j in range(20):
            pq.write_table(part.slice(j * step, step), path / f"part-{i}-{j:02d}.parquet")
    zskip.open(str(path)).index()
    return path


def matching(file: str, expression: pc.Expression) -> int:
    return int(pq.read_table(file).filter(expression).num_rows)


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_every_file_with_a_match_is_kept(sorted_events: Path, expression: pc.Expression) -> None:
    table = zskip.open(str(sorted_events))
    every, kept = table.files(), table.files(expression)
    assert {file for file in every if matching(file, expression)} <= set(kept)
    assert len(kept) < len(every)
    scan = table.prune(expression)
    assert (scan.files, scan.files_total) == (len(kept), len(every))
    assert table.explain(expression).steps[-1].files == len(kept)


def test_explain_writes_the_expression_as_text(sorted_events: Path) -> None:
    table = zskip.open(str(sorted_events))
    found = table.explain((whole < 100) & (name == "it's"))
    assert found.where == "id < 100L AND name = 'it\\'s'"
    again = table.explain(found.where)
    assert again.steps == found.steps
    assert str(again) == str(found)
    assert table.explain(whole + 1 < 100).where is not None


@pytest.mark.parametrize("where", [5, b"id < 5", ["id < 5"], dt.date(2024, 1, 1)])
def test_anything_else_is_refused_by_name(sorted_events: Path, where: Any) -> None:
    table = zskip.open(str(sorted_events))
    for method in (table.files, table.prune, table.explain):
        with pytest.raises(InputError, match="is neither SQL text nor an expression of pyarrow") as raised:
            method(where)
        assert repr(where) in str(raised.value)


def test_unknown_columns(sorted_events: Path) -> None:
    with pytest.raises(ColumnError, match='did you mean "user"'):
        zskip.open(str(sorted_events)).files(pc.field("usr") > 1)


def test_running_an_expression_needs_spark(sorted_events: Path) -> None:
    with pytest.raises(InputError, match="analyze=True needs Spark"):
        zskip.open(str(sorted_events)).explain(whole < 100, analyze=True)


@pytest.mark.spark
@pytest.mark.parametrize("zone", tiers.first(["Asia/Tokyo", "UTC"]))
def test_regret_of_an_expression(spark: SparkSession, sorted_events: Path, zone: str) -> None:
    """What Spark counts is what pyarrow finds, whatever the time zone of the session."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    table = zskip.table(session, str(sorted_events))
    for expression in UNDERSTOOD:
        counts = {file: matching(file, expression) for file in table.files(expression)}
        regret = table.explain(expression, analyze=True).regret
        assert regret is not None
        assert regret.matching_rows == sum(counts.values())
        assert regret.files == sum(count == 0 for count in counts.values())
    assert session.conf.get("spark.sql.session.timeZone") == zone


@pytest.mark.spark
def test_what_is_not_understood_is_not_run(spark: SparkSession, sorted_events: Path) -> None:
    table = zskip.table(spark, str(sorted_events))
    expression = (whole < 100) & (pc.bit_wise_and(whole, 1) == 1)
    with pytest.raises(InputError, match=r"cannot run .*bit_wise_and.* write it as SQL text"):
        table.explain(expression, analyze=True)
    assert table.explain(expression).regret is None


@pytest.mark.spark
def test_verify_takes_text_only(spark: SparkSession, sorted_events: Path) -> None:
    with pytest.raises(InputError, match="is not SQL text"):
        zskip.table(spark, str(sorted_events)).verify(whole < 100)
