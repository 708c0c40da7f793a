"""The command line: one JSON document, one sentence for an error, and exit codes that scripts can rely on."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables

import zskip
from zskip import cli
from zskip.cli.show import plain
from zskip.cli.writing import Source, _guess_format
from zskip.errors import ConflictError
from zskip.index import BoundIndex
from zskip.records import ColumnStats


def call(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run a command in this process: exit code, stdout, stderr."""
    before = sys.argv
    sys.argv = ["zskip", *arguments]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        sys.argv = before
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


@pytest.fixture(autouse=True)
def session(spark: object) -> object:
    """The tests' own session, before a command starts another in this process."""
    return spark


@pytest.fixture
def events(tmp_path: Path) -> str:
    return str(tables.make_events(tmp_path / "events"))


def test_json_is_one_document_and_nothing_else(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["index", events], ["info", events], ["files", events, "--where", "id = 3"]):
        code, out, err = call(*command, "--json", capsys=capsys)
        assert (code, err) == (0, "")
        assert isinstance(json.loads(out), dict)
    assert json.loads(out)["scan"]["files_total"] == 6


def test_explain_and_info_say_why(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("index", events, capsys=capsys)[0] == 0
    code, out, err = call("explain", events, "--where", "id < 3 AND bit_count(id) = 1", capsys=capsys)
    assert (code, err) == (0, "")
    assert "the table" in out
    assert "not supported" in out
    code, out, _ = call("explain", events, "--where", "id = 3", "--analyze", "--json", capsys=capsys)
    assert code == 0
    document = json.loads(out)
    assert document["regret"]["matching_rows"] == 1
    assert document["regret"]["files"] == document["steps"][-1]["files"] - 1
    code, out, _ = call("info", events, "--by", "id,day", "--json", capsys=capsys)
    assert [column["column"] for column in json.loads(out)["clustering"]] == ["id", "day"]
    assert "depth of day" in call("info", events, "--by", "day", capsys=capsys)[1]
    code, _, err = call("info", events, "--by", "tags", capsys=capsys)
    assert (code, "no order" in err) == (2, True)


def test_index_counts_what_footers_do_not_tell(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("files", events, "--where", "isnan(score)")
    for file in Path(events).glob("*.parquet"):
        rows = pq.read_table(file)
        score = pa.array(range(len(rows)), pa.float64())
        pq.write_table(rows.set_column(rows.schema.get_field_index("score"), "score", score), file)
    call("index", events, capsys=capsys)
    assert len(call(*where, capsys=capsys)[1].splitlines()) == 6, "nobody knows"
    assert call("index", events, "--collect", "auto", "--json", capsys=capsys)[0] == 0
    assert call(*where, capsys=capsys)[1] == ""
    assert call("index", events, "--collect", "rows", capsys=capsys)[0] == 2


def test_index_keeps_row_groups(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("index", events, "--granularity", "row_group", capsys=capsys)
    assert (code, "granularity    row_group" in out) == (0, True)
    assert "6 of 6 files and their row groups" in call("info", events, capsys=capsys)[1]
    out = call("files", events, "--where", "id = 3", "--json", capsys=capsys)[1]
    document = json.loads(out)
    assert document["row_groups"] == [[0]] * len(document["files"])
    assert document["scan"]["row_groups_total"] == 6
    assert call("files", events, "--where", "id = 3", capsys=capsys)[1].split() == document["files"]
    out = call("index", events, "--granularity", "file", "--json", capsys=capsys)[1]
    assert json.loads(out)["granularity"] == "file"
    out = call("files", events, "--where", "id = 3", "--json", capsys=capsys)[1]
    assert set(json.loads(out)["row_groups"]) == {None}
    code, _, err = call("index", events, "--granularity", "page", capsys=capsys)
    assert (code, "page" in err) == (2, True)


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("where", ["id = 3", "id = -1"])
def test_files_are_one_scan(events: str, options: list[str], where: str, capsys: pytest.CaptureFixture[str]) -> None:
    zskip.open(events).record()
    call("files", events, "--where", where, *options, capsys=capsys)
    assert zskip.open(events).workload().scans == 1


def test_index_keeps_sketches(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("index", events, "--sketch", "bloom(0.01):name", "--sketch", "ngram(3):name", capsys=capsys)
    assert code == 0
    assert "bloom(0.01):name  6 files, " in out
    names = call("files", events, "--where", "name = 'name-0007x'", capsys=capsys)[1].splitlines()
    assert len(names) < 6
    out = call("index", events, "--drop", "ngram(3):name", "--json", capsys=capsys)[1]
    assert [sketch["spec"] for sketch in json.loads(out)["sketches"]] == ["bloom(0.01):name"]
    code, _, err = call("index", events, "--sketch", "blom:name", capsys=capsys)
    assert (code, 'did you mean "bloom"' in err) == (2, True)


def test_clean_lists_and_deletes(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call("clean", events, capsys=capsys)
    assert (code, out, err) == (0, "0 leftovers, 0 B\n", "")
    left = Path(events) / "_zskip" / "staging" / "abc"
    left.mkdir(parents=True)
    (left / "part-0.parquet").write_bytes(b"x" * 7)
    os.utime(left, (0, 0))
    code, out, _ = call("clean", events, capsys=capsys)
    assert (code, str(left) in out, "see --delete" in out) == (0, True, True)
    document = json.loads(call("clean", events, "--delete", "--json", capsys=capsys)[1])
    assert (document["bytes"], document["deleted"], document["unfinished"]) == (7, True, 0)
    assert [(found["path"], found["files"]) for found in document["leftovers"]] == [(str(left), 1)]
    assert not left.exists()
    assert call("clean", events + "-not-there", capsys=capsys)[0] == 2


def test_verify_ends_with_1_where_something_is_wrong(
    events: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call("index", events, capsys=capsys)
    code, out, _ = call("verify", events, "--queries", "2", capsys=capsys)
    assert code == 0
    assert out.startswith("6 files, ")
    assert "2 queries: nothing is lost" in out
    honest = BoundIndex.column

    def column(self: BoundIndex, path: tuple[str, ...]) -> ColumnStats | None:
        stats = honest(self, path)
        return dataclasses.replace(stats, upper=stats.lower) if path == ("id",) and stats is not None else stats

    monkeypatch.setattr(BoundIndex, "column", column)
    code, out, _ = call("verify", events, "--where", "id >= 0 AND id < 10", capsys=capsys)
    assert (code, "WRONG" in out, "upper bound of id" in out) == (1, True, True)
    code, out, _ = call("verify", events, "--queries", "0", "--json", capsys=capsys)
    document = json.loads(out)
    assert (code, document["ok"], document["mismatches"][0]["what"]) == (1, False, "upper bound of id")


def test_files_prints_paths_and_warns_on_stderr(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call("files", events, "--where", "id = 3", capsys=capsys)
    assert code == 0
    assert out.splitlines() == zskip.open(events).files()
    assert err.startswith("warning: ")
    assert "index" in err


def test_people_get_units(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    call("index", events, capsys=capsys)
    _, out, _ = call("info", events, capsys=capsys)
    assert "6 (2" in out
    assert " kB)" in out
    assert "6,000" in out


BAD: list[tuple[list[str], str]] = [
    (["info", "/no/such/table"], '"/no/such/table"'),
    (["files", "EVENTS", "--where", "usr = 3"], 'did you mean "user"?'),
    (["files", "EVENTS", "--where", "id = = 3"], "id = = 3"),
    (["optimize", "EVENTS", "--by", "id,,user"], '--by "id,,user" has an empty name'),
    (["optimize", "EVENTS", "--by", "id", "--curve", "peano"], "peano"),
    (["optimize", "EVENTS"], "--by"),
    (["index", "EVENTS", "--budget", "64 pages"], "budget='64 pages' is not a size; write bytes"),
    (["index", "EVENTS", "--total-budget", "0"], "total_budget='0' is not a size; write bytes"),
    (["query", "SELECT 1", "--table", "events"], "NAME=PATH"),
    (["query", "SELECT 1", "--table", "e=EVENTS", "--limit", "0"], "limit"),
    (["demo", "--scale", "0"], "--scale 0"),
    (["demo", "--keep", "EVENTS"], "is not empty"),
    (["optimise", "EVENTS"], "optimise"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_errors_are_one_sentence_and_exit_code_2(
    events: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    code, out, err = call(*(text.replace("EVENTS", events) for text in arguments), capsys=capsys)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert says in err
    assert "Traceback" not in err


@pytest.mark.spark
def test_commands_that_need_spark(spark: object, events: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("optimize", events, "--by", "user,day", "--files", "4", "--json", capsys=capsys)
    assert code == 0
    done = json.loads(out)
    assert (done["files_before"], done["files_after"], done["rows"]) == (6, 4, tables.ROWS)
    assert set(done["seconds"]) >= {"sample", "fit", "rewrite", "commit", "index"}
    code, out, _ = call("optimize", events, "--by", "pmod(hash(user, day), 8),user", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["by"] == ["pmod(hash(user, day), 8)", "user"]
    code, _, _ = call("optimize", events, "--by", "user,day", "--files", "4", "--json", capsys=capsys)
    assert code == 0

    sql = "SELECT user, count(*) AS n, max(price) AS p FROM e WHERE user < 20 GROUP BY user ORDER BY user"
    code, out, _ = call("query", sql, "--table", f"e={events}", "--limit", "5", "--json", capsys=capsys)
    assert code == 0
    answer = json.loads(out)
    expected = tables.events().to_pandas().query("user < 20").groupby("user")
    assert [row[:2] for row in answer["rows"]] == [[int(u), len(g)] for u, g in list(expected)[:5]]
    assert answer["columns"] == ["user", "n", "p"]
    assert answer["truncated"] is True
    assert answer["scans"]["e"]["files"] < answer["scans"]["e"]["files_total"] == 4

    code, out, _ = call("query", "SELECT '[red]' AS r, NULL AS x", "--table", f"e={events}", capsys=capsys)
    assert code == 0
    assert "[red]" in out
    assert "NULL" in out
    code, out, err = call("query", "SELECT nope FROM e", "--table", f"e={events}", "--json", capsys=capsys)
    assert (code, out) == (2, "")
    assert "nope" in err


def test_ctrl_c_is_130(events: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Any, *__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zskip.Table, "info", interrupted)
    code, out, err = call("info", events, capsys=capsys)
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert "Traceback" not in err


def test_errors_of_the_library_keep_their_words(
    events: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Any, **__: Any) -> None:
        raise ConflictError('"[bold]a.parquet" changed; call again')

    monkeypatch.setattr(zskip.Table, "index", refused)
    code, _, err = call("index", events, capsys=capsys)
    assert (code, err) == (2, 'error: "[bold]a.parquet" changed; call again\n')


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version", capsys=capsys)[:2] == (0, f"zskip {zskip.__version__}\n")


def test_help_needs_nothing_heavy() -> None:
    code = "import sys, zskip.cli; print([m for m in ('numpy', 'pyarrow', 'sqlglot', 'pyspark') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_value_becomes_valid_json() -> None:
    values = [
        None,
        True,
        1 << 70,
        0.1,
        float("nan"),
        float("-inf"),
        decimal.Decimal("0.10"),
        dt.datetime(2024, 1, 2, 3, 4, 5, 6),
        dt.time(1, 2),
        dt.timedelta(days=1),
        bytearray(b"\xff"),
        {"k": (1, [None])},
        {dt.date(2024, 1, 2): 1},
    ]
    text = json.dumps(plain(values), allow_nan=False)
    assert json.loads(text)[4:7] == ["NaN", "-Infinity", "0.10"]
    assert json.loads(text)[-1] == {"2024-01-02": 1}


def test_names_are_split_at_commas_outside_of_parentheses() -> None:
    from zskip.cli.options import column_names

    keys = "concat(lower(a), rtrim(b)),get_json_object(js, '$.a,(b'),`x,y`,id"
    assert column_names(keys, "by") == ["concat(lower(a), rtrim(b))", "get_json_object(js, '$.a,(b')", "`x,y`", "id"]
    fields = "days(ts),bucket(16, id), p ,truncate(name, 4)"
    assert column_names(fields, "partition_by") == ["days(ts)", "bucket(16, id)", "p", "truncate(name, 4)"]


def test_the_format_of_a_source_is_not_that_of_its_index(events: str) -> None:
    zskip.open(events).index()
    assert _guess_format(events) == Source.parquet


def test_write_reads_csv_json_lines_and_parquet(
    events: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("id;day\n" + "".join(f"{i};2024-01-{1 + i % 28:02}\n" for i in range(90)))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.jsonl").write_text("".join(f'{{"id": {i}, "day": "2024-02-01"}}\n' for i in range(10)))
    target = str(tmp_path / "t")
    options = ["--by", "id,day", "--schema", "id BIGINT, day DATE", "--json"]
    code, out, err = call(
        "write", str(tmp_path / "a.csv"), target, *options, "--delimiter", ";", "--files", "3", capsys=capsys
    )
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert (result["rows"], result["by"], result["path"]) == (90, ["id", "day"], target)
    code, out, _ = call("write", str(tmp_path / "more"), target, *options, "--mode", "append", capsys=capsys)
    assert (code, json.loads(out)["rows"]) == (0, 10)
    code, _, err = call("write", events, target, "--by", "id,day", capsys=capsys)
    assert (code, "already exists" in err) == (2, True)
    code, out, _ = call("write", events, str(tmp_path / "d"), "--by", "id,day", "--format", "delta", capsys=capsys)
    assert (code, "id, day (zorder)" in out) == (0, True)
    code, _, err = call("write", str(tmp_path / "none.csv"), target, "--by", "id,day", capsys=capsys)
    assert (code, "Spark refuses the query" in err) == (2, True)
