"""Workloads: what a sample of a stream stands for, and what people write."""

from __future__ import annotations

import json
import random
import zlib

import pytest

from zskip.advisor.workload import reservoir as reservoir_module
from zskip.advisor.workload.predicate_text import text_of
from zskip.advisor.workload.queries import parse_queries, read_text
from zskip.advisor.workload.reservoir import (
    LIFE_MS,
    MOST_BYTES,
    MOST_ENTRIES,
    DamagedReservoirError,
    Entry,
    Reservoir,
    priority,
)
from zskip.advisor.workload.workload import Query, Workload, draw, shape
from zskip.errors import IndexFormatError, InputError
from zskip.predicate import Columns, parse
from zskip.records import Field
from zskip.types import DataType

COLUMNS = Columns(
    [Field(name=n, type=DataType(t)) for n, t in [("a", "integer"), ("d", "date"), ("s", "string"), ("f", "double")]]
)
NOW = 1_700_000_000_000


def stream(count: int, seed: int, *, days: float = 0.0, start: int = 0) -> list[Entry]:
    """Scans over some days that end now."""
    rng = random.Random(seed)
    entries = []
    for i in range(count):
        time_ms = NOW - int(days * 86_400_000 * (1 - i / count))
        entries.append(Entry(priority(time_ms, rng.random()), time_ms, f"a = {start + i}", 10, 1))
    return entries


def test_a_small_stream_is_kept_whole() -> None:
    reservoir = Reservoir().add(stream(500, 1), 500)
    assert len(reservoir.entries) == reservoir.scans == 500
    assert reservoir.since_ms == NOW
    weights = [query.weight for query in reservoir.queries(NOW)]
    assert weights == pytest.approx([1.0] * 500)


def test_a_large_stream_is_sampled_and_stands_for_all_of_it() -> None:
    reservoir = Reservoir()
    for part in range(10):
        reservoir = reservoir.add(stream(5_000, part, start=5_000 * part), 5_000)
    assert len(reservoir.entries) == MOST_ENTRIES
    assert reservoir.scans == 50_000
    queries = reservoir.queries(NOW)
    assert sum(q.weight for q in queries) == pytest.approx(50_000, rel=0.05)
    early = sum(q.weight for q in queries if int(q.where[4:]) < 25_000)
    assert early == pytest.approx(25_000, rel=0.1)


def test_scans_lose_half_their_weight_in_thirty_days() -> None:
    thirty = 30 * 86_400_000
    assert round(LIFE_MS * 0.6931471805599453) == thirty
    old = [e._replace(time_ms=NOW - thirty, where="d IS NULL") for e in stream(100, 3)]
    reservoir = Reservoir().add([*old, *stream(100, 4)], 200)
    shares = Workload(queries=reservoir.queries(NOW)).shapes()
    assert shares["a = ?"] == pytest.approx(2 / 3)


def test_two_samples_merge_to_a_sample_of_both() -> None:
    one, other = stream(20_000, 5), stream(20_000, 6, start=20_000)
    union = Reservoir().add([*one, *other], 40_000)
    merged = Reservoir().add(one, 20_000).add(Reservoir().add(other, 20_000).entries, 20_000)
    assert union.entries == merged.entries
    assert union.scans == merged.scans


def test_the_bytes_say_it_all_and_stay_below_a_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a megabyte here, which takes a tenth of the time."""
    most = MOST_BYTES // 10
    monkeypatch.setattr(reservoir_module, "MOST_BYTES", most)
    rng = random.Random(7)
    long = [
        Entry(priority(NOW, rng.random()), NOW, "s = '" + "".join(rng.choices("abcdefghij", k=900)) + "'", -1, 3)
        for _ in range(MOST_ENTRIES // 10)
    ]
    reservoir = Reservoir().add(long, len(long))
    data = reservoir.to_bytes()
    assert len(data) < most
    back = Reservoir.from_bytes(data)
    assert 0 < len(back.entries) < len(reservoir.entries)
    assert back.entries == reservoir.entries[: len(back.entries)]
    small = Reservoir().add(stream(30, 8), 30)
    assert Reservoir.from_bytes(small.to_bytes()) == small
    assert Reservoir.from_bytes(Reservoir().to_bytes()) == Reservoir()


def test_what_scans_read_is_told_for_each_time() -> None:
    entries = [Entry(priority(NOW + i, 0.5), NOW + i, f"a = {i}", i, 1, 10) for i in range(10)]
    entries += [Entry(priority(NOW, 0.4), NOW, "b = 1", -1, 1, 10), Entry(priority(NOW, 0.3), NOW, "b = 2", 5, 1, -1)]
    reservoir = Reservoir.from_bytes(Reservoir().add(entries, 12).to_bytes())
    shares = reservoir.shares_since([NOW + 2, NOW + 5, NOW + 50])
    assert shares == [(pytest.approx(0.3), 3), (pytest.approx(0.7), 5), (None, 0)]
    assert reservoir.shares_since([]) == []


def test_samples_of_earlier_versions_are_read() -> None:
    reservoir = Reservoir().add(stream(30, 8), 30)
    head, _, body = reservoir.to_bytes().partition(b"\n")
    document = json.loads(zlib.decompress(body))
    del document["rows_total"]
    body = zlib.compress(json.dumps(document).encode())
    head = json.dumps({**json.loads(head), "crc": f"{zlib.crc32(body):08x}"}).encode()
    assert Reservoir.from_bytes(head + b"\n" + body) == reservoir


def test_damage_is_told_from_another_version() -> None:
    data = Reservoir().add(stream(30, 8), 30).to_bytes()
    rng = random.Random(9)
    for _ in range(200):
        position = rng.randrange(len(data))
        broken = data[:position] + bytes([data[position] ^ (1 << rng.randrange(8))]) + data[position + 1 :]
        try:
            assert Reservoir.from_bytes(broken) == Reservoir.from_bytes(data)
        except IndexFormatError:
            continue
    for broken in (b"", data[:50], b"\x80\x04.", b"[]\n"):
        with pytest.raises(DamagedReservoirError):
            Reservoir.from_bytes(broken)
    with pytest.raises(IndexFormatError, match="format 2") as caught:
        Reservoir.from_bytes(data.replace(b'workload": 1', b'workload": 2'))
    assert not isinstance(caught.value, DamagedReservoirError)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("l_partkey = 155190", "l_partkey = ?"),
        ("a1 >= -1.5E3D AND `2` < 7L", "a1 >= ? AND `2` < ?"),
        ("s LIKE 'x%' OR s = 'it''s'", "s LIKE ? OR s = ?"),
        ("d >= DATE '2024-01-01'", "d >= ?"),
        ("a IN (1, 2, 3)", "a IN (?)"),
    ],
)
def test_shapes(where: str, expected: str) -> None:
    assert shape(where) == expected


def test_one_predicate_has_one_text() -> None:
    one, other = (parse(t, COLUMNS) for t in ("a = 1 AND d IS NOT NULL", "d IS NOT NULL AND a = 1"))
    assert text_of([one]) == text_of([other])
    long = parse(f"a IN ({', '.join(map(str, range(5000)))})", COLUMNS)
    text = text_of([long])
    assert len(text) < 1000
    assert "(0," in text
    assert "4999)" in text


def test_many_queries_are_drawn_by_weight() -> None:
    many = tuple(Query(where=f"a = {i}", weight=9.0 if i < 100 else 1.0) for i in range(1_000))
    few = draw(many, 300, 1)
    assert len(few) <= 300
    assert sum(q.weight for q in few) == pytest.approx(1_800)
    assert sum(q.weight for q in few if int(q.where[4:]) < 100) == pytest.approx(900, rel=0.25)
    assert draw(many, 1_000, 1) is many


def test_queries_are_taken_apart() -> None:
    workload = Workload.of(
        [
            "a = 1",
            ("SELECT count(*) FROM t WHERE a = 1 AND d >= DATE '2024-01-01'", 2),
            "SELECT * FROM x.t JOIN u ON t.a = u.k AND t.f > 2 WHERE u.b = 3 AND (t.a = 1 OR s LIKE 'q%')",
            "SELECT 1 FROM other.q WHERE z = 1",
            "a === 1",
            "gone = 2",
        ]
    )
    used, predicates = parse_queries(workload, COLUMNS, names=["t"])
    assert [q.where for q in used.queries] == [
        "a = 1",
        "a = 1 AND d >= CAST('2024-01-01' AS DATE)",
        "(a = 1 OR s LIKE 'q%') AND f > 2",
    ]
    assert predicates[0] == parse("a = 1", COLUMNS)
    assert [p.number for p in used.problems] == [4, 5, 6]
    assert "does not read this table" in str(used.problems[0])
    assert 'no column "gone"' in str(used.problems[2])


def test_statements_that_change_rows_read_what_they_filter_by() -> None:
    statements = [
        "UPDATE t x SET x.f = 2 WHERE x.a = 1 AND x.s IN (SELECT s FROM others)",
        "DELETE FROM delta.`/lake/t` WHERE d < DATE '2024-01-01'",
        "DELETE FROM t",
        "MERGE WITH SCHEMA EVOLUTION INTO t USING o ON t.a = o.a WHEN MATCHED THEN DELETE",
        "DELETE FROM other.place WHERE a = 1",
    ]
    used, _ = parse_queries(Workload.of(statements), COLUMNS, names=["t", "delta./lake/t"])
    assert [query.where for query in used.queries] == ["a = 1", "d < CAST('2024-01-01' AS DATE)", "true"]
    assert "depends on the keys of its source; record the workload" in used.problems[0].reason
    assert "does not read this table" in used.problems[1].reason


def test_files_of_queries() -> None:
    lines = read_text("-- mine\na = 1\n3\ta = 2\n\nb LIKE 'x'\n", "queries.txt")
    assert lines.queries[1] == Query(where="a = 2", weight=3.0)
    assert len(lines) == 3
    assert len(read_text("SELECT 1\nFROM t;\nSELECT 2 FROM t;\n", "queries.sql")) == 2
    assert len(read_text(json.dumps(["a = 1", ["a = 2", 5], {"where": "a = 3", "weight": 2}]), "q.json")) == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a = 1", "one text"),
        ([5], "query 1"),
        ([("a = 1", -1)], "weight -1"),
        ([("a = 1", "often")], "'often'"),
        ([("a = 1", float("inf"))], "inf"),
    ],
)
def test_bad_workloads(given: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Workload.of(given)  # type: ignore[arg-type]


def test_it_says_what_it_is() -> None:
    assert "not recorded" in str(Workload(queries=()))
    assert "no scan has been seen" in str(Workload(queries=(), recording=True))
    text = str(Workload.of([("l_partkey = 1", 35), ("b < 2", 65)]))
    assert "l_partkey = ?  35 %" in text
