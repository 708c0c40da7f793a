"""Spark's event logs: what their filters mean, in the words that Spark 4.1 wrote."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zskip
from zskip.advisor.workload.event_logs import read_scans, to_spark_sql
from zskip.errors import ColumnError, InputError, PredicateError
from zskip.predicate import Columns
from zskip.records import Field
from zskip.types import DataType

TYPES = {
    "id": "long",
    "s": "string",
    "d": "date",
    "ts": "timestamp",
    "x": "decimal(10,2)",
    "f": "double",
    "p": "integer",
}
COLUMNS = Columns([Field(name=name, type=DataType(kind)) for name, kind in TYPES.items()])
DATA = Path(__file__).parent.parent / "data" / "spark"
LOGGED = (pa.int64(), pa.string(), pa.date32(), pa.decimal128(10, 2), pa.timestamp("us", "UTC"))
FILTERS = [
    ("[isnotnull(id#7L), (id#7L = 5)]", ["`id` IS NOT NULL", "`id` = 5"]),
    ("[(d#9 >= 2024-02-01), (s#8 = a, b (c) AND d)]", ["`d` >= DATE '2024-02-01'", "`s` = 'a, b (c) AND d'"]),
    ("[(StartsWith(s#8, x) OR id#7L IN (1,2,3))]", ["(startswith(`s`, 'x') OR `id` IN (1, 2, 3))"]),
    (
        "[(ts#10 > 1970-03-01 12:00:00), (x#11 = 1.25), (f#12 < 2.5)]",
        ["`ts` > TIMESTAMP '1970-03-01 12:00:00'", "`x` = 1.25", "`f` < 2.5"],
    ),
    ("[id#7L INSET 1, 10, 11, 2]", ["`id` IN (1, 10, 11, 2)"]),
    ("[NOT (id#7L = 3), (lower(s#8) = x)]", ["NOT (`id` = 3)", "lower(`s`) = 'x'"]),
    ("[s#8 IN (a, b,c)]", ["`s` IN ('a, b', 'c')"]),
    ("[s#8 IN (it's,b)]", ["`s` IN ('it\\'s', 'b')"]),
    ("[(year(d#9) = 2024), (p#13 = 3)]", ["year(`d`) = 2024", "`p` = 3"]),
    ("[(((id#7L = 1) AND isnull(s#8)) OR (f#12 >= -1.5E7))]", ["((`id` = 1 AND `s` IS NULL) OR `f` >= -1.5E7)"]),
]


def event(filters: str, location: str, number: int = 1, partition: str = "[]") -> str:
    """One line of a log, of the kind that tells of scans."""
    metadata = {
        "Location": f"InMemoryFileIndex(1 paths)[{location}]",
        "DataFilters": filters,
        "PartitionFilters": partition,
    }
    scan = {"nodeName": "Scan parquet ", "simpleString": "", "children": [], "metadata": metadata, "metrics": []}
    plan = {"nodeName": "Filter", "simpleString": "", "children": [scan], "metadata": {}, "metrics": []}
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    return json.dumps({"Event": name, "executionId": number, "sparkPlanInfo": plan, "time": 1_700_000_000_000 + number})


@pytest.mark.parametrize(("filters", "expected"), FILTERS)
def test_filters_mean_what_spark_meant(filters: str, expected: list[str]) -> None:
    (scan,) = read_scans([event(filters, "file:/data/t")])
    assert [to_spark_sql(text, COLUMNS) for text in scan.filters] == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("((id#7L % 3) = 1)", PredicateError),
        ("(id#7L = p#13)", PredicateError),
        ("(gone#1 = 1)", ColumnError),
        ("(id#7L = abc)", PredicateError),
        ("(s#8 RLIKE x)", PredicateError),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        to_spark_sql(text, COLUMNS)


def test_lines_of_other_kinds_and_broken_ones_are_passed_over() -> None:
    good = event("[(id#7L = 5)]", "file:/data/t")
    lines = ["{}", good[:90], good[:300], "SparkListenerSQLExecutionStart", good]
    assert len(list(read_scans(lines))) == 1


@pytest.fixture
def table(tmp_path: Path) -> zskip.Table:
    path = tmp_path / "my table"
    path.mkdir()
    pq.write_table(
        pa.table({"id": pa.array(range(100), pa.int64()), "s": [str(i) for i in range(100)]}), path / "a.parquet"
    )
    return zskip.open(str(path))


def test_logs_of_every_kind_are_read(table: zskip.Table, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    rolling = logs / "eventlog_v2_app-1"
    rolling.mkdir(parents=True)
    here = f"file:{table.path}"
    (logs / "app-0").write_text(event("[(id#7L = 1)]", here) + "\n" + event("[(id#7L = 2)]", "file:/elsewhere") + "\n")
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write((event("[(id#1L > 3), (id#1L % 2 = 1)]", here, 7) + "\n").encode())
    data = sink.getvalue().to_pybytes()
    (rolling / "events_1_app-1.zstd").write_bytes(data)
    (rolling / "events_2_app-1").write_text(event("[(s#2 = x)]", here, 8)[:-20])
    (rolling / "events_3_app-1.zstd.inprogress").write_bytes(data[: len(data) // 2])
    (rolling / "appstatus_app-1.inprogress").write_bytes(b"")
    (logs / "app-2.lz4").write_bytes(b"LZ4Block")
    workload = table.import_workload(str(logs))
    assert sorted(q.where for q in workload.queries) == ["id = 1L", "id > 3L"]
    assert workload.scans == 2
    problems = " ".join(map(str, workload.problems))
    assert "id#1L % 2" in problems
    assert "app-2.lz4" in problems
    again = table.import_workload(str(logs / "app-0"))
    assert len(again.queries) == 2


@pytest.mark.parametrize(("version", "quoted"), [("3.5.9", "its"), ("4.3.0", "it\\'s")])
def test_logs_that_spark_wrote_are_read(tmp_path: Path, version: str, quoted: str) -> None:
    path = tmp_path / "t"
    row = {"id": 1, "s": "b1", "d": dt.date(2024, 1, 2), "x": Decimal("1.00"), "ts": dt.datetime(2024, 1, 1)}
    (path / "p=1").mkdir(parents=True)
    rows = pa.Table.from_pylist([row]).cast(pa.schema([*zip(row, LOGGED, strict=True)]))
    pq.write_table(rows, path / "p=1" / "a.parquet")
    log = pa.CompressedInputStream(pa.OSFile(str(DATA / f"events-{version}.zstd")), "zstd").read()
    rolling = tmp_path / "logs" / "eventlog_v2_local-1"
    rolling.mkdir(parents=True)
    with pa.CompressedOutputStream(str(rolling / "events_1_local-1.zstd"), "zstd") as out:
        out.write(log.replace(b"/home/table", str(path).encode()))
    workload = zskip.open(str(path)).import_workload(str(tmp_path / "logs"))
    assert workload.scans == 7
    assert sorted(query.where for query in workload.queries) == [
        "d < DATE '2024-03-01' AND d >= DATE '2024-02-01' AND d IS NOT NULL",
        "id <= 9L AND id >= 3L AND id IS NOT NULL AND s IS NOT NULL AND startswith(s, 'b')",
        "id = 5L AND id IS NOT NULL",
        "id IN (1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L, 11L, 12L)",
        "id IS NOT NULL AND x IS NULL",
        "p = 2 AND p IS NOT NULL AND ts < TIMESTAMP '2024-01-05 12:00:00' AND ts IS NOT NULL",
        f"s IN ('a, b', '{quoted}') OR x > 1.25BD",
    ]
    assert ["% 3) = 1" in problem.text for problem in workload.problems] == [True]


def test_places_without_logs_are_named(table: zskip.Table, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no Spark event log"):
        table.import_workload(str(tmp_path / "empty"))
    with pytest.raises(InputError, match="nothing at"):
        table.import_workload(str(tmp_path / "none"))
    (tmp_path / "empty" / "app").write_text(event("[]", "file:/elsewhere"))
    with pytest.raises(InputError, match="no scan of"):
        table.import_workload(str(tmp_path / "empty"))
