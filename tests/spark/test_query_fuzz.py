"""Random queries have the answers of plain Spark in an enabled session; `query_fuzz.py` says how they are made."""

import random

import pytest
import query_fuzz
import random_queries
import random_rows
import tiers


@pytest.fixture(scope="module")
def sides(spark):
    """A session of its own, whose settings are drawn anew for each query."""
    return query_fuzz.Sides(spark.newSession())


@pytest.mark.scaled
@pytest.mark.parametrize("seed", tiers.seeds(range(8)))
def test_answers_are_those_of_plain_spark(sides, seed):
    """A seed asks 100 queries over three tables, in half a minute."""
    query_fuzz.run(seed, sides, tiers.count(query_fuzz.PER_TABLES, quick=12))


@pytest.mark.scaled
def test_that_files_were_skipped(sides):
    """Else nothing was tested."""
    if not sides.kinds["scans"]:
        pytest.skip("runs after the queries")
    assert sides.kinds["read"] < 0.8 * sides.kinds["files"], sides.kinds


def test_a_wrong_answer_is_found_and_cut_down(sides, tmp_path, monkeypatch):
    rng = random.Random(3)
    table = random_rows.table(rng, "wrongly")
    while sum(map(len, table.files)) < 5:
        table = random_rows.table(rng, "wrongly")
    query_fuzz.open_views(sides, table, tmp_path / "t", indexed=True)
    pruned = sides.pruned
    monkeypatch.setattr(sides, "pruned", lambda sql: pruned(sql)[1:])
    column = table.columns[0][0]
    query = random_queries.Query(
        random_queries.Source("wrongly", "a"),
        (f"a.{column}", "1"),
        where=("true", f"a.{column} IS NULL OR true"),
        order=((0, "DESC"),),
        limit=4,
        hint="/*+ BROADCAST(a) */ ",
    )
    assert query_fuzz.wrong(query, sides) is not None
    smallest = query_fuzz.smallest(query, sides)
    assert smallest == random_queries.Query(random_queries.Source("wrongly", "a"), smallest.select)
    assert len(smallest.select) == 1


def test_what_spark_answers_by_itself_is_not_wrong(sides, tmp_path, monkeypatch):
    query_fuzz.open_views(sides, random_rows.table(random.Random(5), "rightly"), tmp_path / "t", indexed=True)
    query = random_queries.Query(random_queries.Source("rightly", "a"), ("a.i0",))
    monkeypatch.setattr(sides, "quickly", lambda query: [("another answer",)])
    assert query_fuzz.wrong(query, sides) is None
