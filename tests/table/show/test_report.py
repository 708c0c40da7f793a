"""A report of a table: what is in the page, and that bad input gives a clear error and no half-written file."""

from __future__ import annotations

import builtins
import datetime as dt
import importlib.util
import json
import os
import re
import sys
import webbrowser
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tables

import zskip
from zskip import cli
from zskip.errors import ColumnError, InputError, MissingDependencyError, StorageError
from zskip.report.picture import MOST_DRAWN, cover
from zskip.report.spread import spread_of
from zskip.report.values import percent

ODD = ["<script>alert(1)</script>", "a\"b'c", "%{x}<b>$x$</b>", "\u202eשלום", "a&b;</style>"]


class Page(HTMLParser):
    """The elements of a page, its text, and its data."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(path.read_text("utf-8"))
        self.data: dict[str, Any] = json.loads(self.scripts[0])
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.words.append(data)


@pytest.fixture
def events(tmp_path: Path) -> str:
    path = str(tables.make_events(tmp_path / "events"))
    zskip.open(path).index()
    return path


def table_of(path: Path, *parts: pa.Table) -> zskip.Table:
    path.mkdir()
    for i, part in enumerate(parts):
        pq.write_table(part, path / f"part-{i}.parquet")
    table = zskip.open(str(path))
    table.index()
    return table


def test_what_queries_read_is_what_files_says(events: str, tmp_path: Path) -> None:
    table = zskip.open(events)
    asked = ["id < 100", ("user = 3 AND day > DATE '2024-03-01'", 3.0), "id = 7 AND user = 3", "lower(name) = 'x'"]
    page = Page(table.report(tmp_path / "r.html", workload=[*asked, "nope = 1"], by=["id", "user"]))
    read = [table.prune(text if isinstance(text, str) else text[0]).bytes for text in asked]
    shown = page.data["figures"]["reads"]["data"][0]["y"]
    total = table.info().bytes
    assert shown == sorted((round(100 * count / total, 3) for count in read), reverse=True)
    mean = np.average(read, weights=[1, 3, 1, 1]) / total
    assert f"Queries read {100 * mean:.0f} % of the table" in page.text
    assert "1 queries could not be used" in page.text
    assert 'no column "nope"' in page.text
    assert "lower(name) = 'x': no sketch of lower(name)" in page.text
    assert len(page.data["reads"]) == 6


def test_what_is_read_for_nothing_is_told_where_row_groups_are_known(tmp_path: Path) -> None:
    path = tmp_path / "gaps"
    path.mkdir()
    for i in range(4):
        # Two row groups a file: 0 to 9 and 90 to 99 of its hundred.
        values = pa.table({"a": [*range(100 * i, 100 * i + 10), *range(100 * i + 90, 100 * i + 100)]})
        pq.write_table(values, path / f"part-{i}.parquet", row_group_size=10)
    table = zskip.open(str(path))
    table.index(granularity="row_group")
    page = Page(table.report(tmp_path / "r.html", workload=["a = 150", "a < 105", "a IS NOT NULL"]))
    size = table.info().bytes // 4
    chart = page.data["figures"]["prunings"]
    needless = next(trace["x"] for trace in chart["data"] if trace["name"] == "read for nothing")
    assert dict(zip(chart["layout"]["yaxis"]["ticktext"], needless, strict=True)) == {
        "a = ?": 25.0, "a &lt; ?": 0.0, "a IS NOT NULL": 0.0,
    }  # fmt: skip
    idle = size + size // 2
    assert f"{100 * idle / (7 * size):.0f} % of that lies in row groups that hold no match" in page.text
    table.index(granularity="file")
    page = Page(table.report(tmp_path / "r.html", workload=["a = 150"]))
    assert "read for nothing, an index of row groups can tell" in page.text
    assert len(page.data["figures"]["prunings"]["data"]) == 4


def test_all_figures_are_plotlys_and_count_all_files(events: str, tmp_path: Path) -> None:
    page = Page(zskip.open(events).report(tmp_path / "r.html", by=["id", "user", "name"], workload=["id = 1"]))
    for name, figure in page.data["figures"].items():
        assert go.Figure(figure), name
    drawn = {tag["data-figure"] for _, tag in page.tags if "data-figure" in tag}
    assert drawn | {f"{kind}-{pair}" for kind in ("files", "cover") for pair in ("0-1", "0-2", "1-2")} == set(
        page.data["figures"]
    )
    assert len(page.data["figures"]["files-0-2"]["data"][0]["x"]) == 6
    assert sum(page.data["figures"]["sizes"]["data"][0]["y"]) == 6
    assert len(page.data["files"]) == len(page.data["hover"]) == 6


def test_a_page_is_by_itself(events: str, tmp_path: Path) -> None:
    page = Page(zskip.open(events).report(tmp_path / "r.html"))
    for tag, attributes in page.tags:
        links = [value for name, value in attributes.items() if name in ("src", "href") or name.startswith("on")]
        assert links in ([], ["data:,"]), (tag, attributes)
    (policy,) = (tag["content"] for _, tag in page.tags if tag.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


def test_odd_names_are_text_everywhere(tmp_path: Path) -> None:
    part = pa.table({name: pa.array([1, 2, 3]) for name in ODD})
    table = table_of(tmp_path / "odd <b>&", part, part)
    quoted = ["`" + name.replace("`", "``") + "` = 1" for name in ODD]
    report = table.report(
        tmp_path / "r.html", by=ODD, workload=[*quoted, "x = '</script><img src=x onerror=alert(1)>'"]
    )
    page = Page(report)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 3
    assert "img" not in tags
    assert tags.count("style") == 1
    text = report.read_text("utf-8")
    assert "alert(1)</script>" not in text
    assert "\u202e" not in json.dumps(page.data, ensure_ascii=False)
    assert page.data["names"][0] == ODD[0]
    titles = [page.data["figures"][f"depth-{i}"]["layout"]["xaxis"]["title"]["text"] for i in range(len(ODD))]
    assert titles[0] == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert not any(re.search("[<$]", title) for title in titles)


def test_tables_with_little_to_show_say_so(tmp_path: Path) -> None:
    numbers = pa.table({"a": [1, 2, 3]})
    nulls = pa.table({"a": pa.nulls(3, pa.int64()), "b": pa.nulls(3, pa.string())})
    deltalake.DeltaTable.create(str(tmp_path / "empty"), schema=numbers.schema)
    empty = zskip.open(str(tmp_path / "empty"))
    cases = {
        "one": (table_of(tmp_path / "one", numbers), "A query for one value of a reads 100 %"),
        "nulls": (table_of(tmp_path / "nulls", nulls), "No column of this table has bounds"),
        "empty": (empty, "The table has no files yet"),
        "rows": (table_of(tmp_path / "rows", numbers.slice(0, 0)), "has bounds"),
    }
    for name, (table, words) in cases.items():
        page = Page(table.report(tmp_path / f"{name}.html"))
        assert words in page.text, name
        assert "files-0-1" not in page.data["figures"]
    assert "nulls alone" in json.dumps(Page(cases["nulls"][0].report(tmp_path / "n.html", by=["a", "b"])).data)


def test_a_table_without_an_index_says_how_to_make_one(tmp_path: Path) -> None:
    path = tables.make_events(tmp_path / "events")
    page = Page(zskip.open(str(path)).report(tmp_path / "r.html", workload=["id = 3"]))
    assert "There is no index, so every query reads all 6 files. Make one with table.index()" in page.text


def test_extreme_values_have_their_place(tmp_path: Path) -> None:
    path = tables.make_all_types(tmp_path / "all")
    far = pa.table({"day": [dt.date(1, 1, 1), dt.date(9999, 12, 31)]})
    zskip.open(str(path)).index()
    names = [name for name, kind in zskip.open(str(path)).info().columns.items() if kind != "nested"]
    for i in range(0, len(names), 5):
        page = Page(zskip.open(str(path)).report(tmp_path / "r.html", by=names[i : i + 5]))
        assert all(go.Figure(figure) for figure in page.data["figures"].values())
    page = Page(table_of(tmp_path / "far", far).report(tmp_path / "r.html", by="day"))
    assert "No file has bounds in day" in page.text  # what footers say of old dates is not believed


def test_many_files_are_summed_up(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = tmp_path / "many"
    path.mkdir()
    part = pa.table({"a": pa.array([0]), "b": pa.array([0])})
    for i in range(MOST_DRAWN + 30):
        values = {"a": pa.array([int(rng.integers(0, 50))]), "b": pa.array([i])}
        pq.write_table(pa.table(values, part.schema), path / f"part-{i:05d}.parquet")
    table = zskip.open(str(path))
    table.index()
    page = Page(table.report(tmp_path / "r.html", by=["a", "b"]))
    assert len(page.data["files"]) == MOST_DRAWN
    assert f"{MOST_DRAWN:,} of the {MOST_DRAWN + 30:,} files can be drawn one by one" in page.text


def test_cover_counts_the_files_over_each_place() -> None:
    from zskip.records import ColumnStats
    from zskip.types import DataType

    rng = np.random.default_rng(5)
    spreads = []
    for name in "xy":
        lower = rng.integers(0, 100, 60)
        stats = ColumnStats(
            type=DataType("long"),
            lower=lower,
            upper=lower + rng.integers(0, 50, 60),
            bounded=rng.random(60) < 0.9,
            nulls=np.zeros(60, np.int64),
            may_nan=np.zeros(60, np.bool_),
        )
        spreads.append(spread_of(name, stats, np.full(60, 10), np.full(60, 100)))
    (trace,) = cover(*spreads)["data"]
    x, y = spreads
    for row, up in enumerate(trace["y"]):
        for column, across in enumerate(trace["x"]):
            half = 0.5 / len(trace["x"])
            met = (x.first < across + half) & (x.last - 1e-9 >= across - half)
            met &= (y.first < up + half) & (y.last - 1e-9 >= up - half)
            assert trace["z"][row][column] == met.sum()


def test_bad_paths_are_refused_and_leave_nothing(events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = zskip.open(events)
    with pytest.raises(InputError, match="is a directory"):
        table.report(tmp_path)
    with pytest.raises(InputError, match="no directory"):
        table.report(tmp_path / "not" / "there.html")
    with pytest.raises(InputError, match="empty"):
        table.report("")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a file that a report may replace"):
        table.report(tmp_path / "pipe")
    before = sorted(os.listdir(tmp_path))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    kept = tmp_path / "kept.html"
    kept.write_text("before")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(StorageError, match=r"No space left on device; name another place"):
            table.report(kept)
    assert kept.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "kept.html"])


def test_bad_arguments_are_refused(events: str, tmp_path: Path) -> None:
    table = zskip.open(events)
    with pytest.raises(ColumnError, match=r'no column "usr".*did you mean "user"'):
        table.report(tmp_path / "r.html", by="usr")
    with pytest.raises(InputError, match="no order"):
        table.report(tmp_path / "r.html", by="tags")
    for workload, words in (
        ("id = 1", "is not a file of queries"),
        ([3], "query 1"),
        ([("id = 1", 0)], "query 1"),
        (["x = 1"], '"x"'),
    ):
        with pytest.raises(InputError, match=words):
            table.report(tmp_path / "r.html", workload=workload)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="3 columns"):
        table.plot(by=["id", "user", "name"])
    assert not (tmp_path / "r.html").exists()


def test_a_missing_library_names_the_extra(events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "plotly" else find(name))
    for call in (lambda: zskip.open(events).report(tmp_path / "r.html"), zskip.open(events).plot):
        with pytest.raises(MissingDependencyError, match=r'pip install "zskip\[report\]"'):
            call()
    assert builtins.list(tmp_path.glob("*.html")) == []


def test_the_default_name_is_the_tables(events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert zskip.open(events).report() == tmp_path / "events-report.html"


def test_plot_is_a_figure_of_the_files(events: str) -> None:
    found = zskip.open(events).plot(by=["id", "user"])
    assert isinstance(found, go.Figure)
    assert len(found.data[0].x) == 6
    assert "part-00000.parquet" in found.data[0].hovertext[0]
    assert zskip.open(events).plot(by="id").data[0].type == "scatter"
    assert len(zskip.open(events).plot().data[0].x) == 6


def test_the_command_writes_and_opens(
    events: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) is None)
    asked = tmp_path / "asked.sql"
    asked.write_text("-- nightly\nid = 3;\nuser IN (1, 2)\n")
    page = tmp_path / "r.html"
    command = ["zskip", "report", events, "-o", str(page), "--workload", str(asked), "--by", "id,user", "--open"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert capsys.readouterr().out.strip() == str(page)
    assert opened == [page.as_uri()]
    assert "2 given predicates read" in Page(page).text
    monkeypatch.setattr(sys, "argv", [*command[:3], "--workload", str(tmp_path / "none.sql")])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "none.sql" in capsys.readouterr().err


@pytest.mark.spark
def test_with_spark_there_is_advice_and_with_a_record_its_queries(spark: Any, events: str, tmp_path: Path) -> None:
    table = zskip.table(spark, events)
    table.record(True)
    for number in range(5):
        table.df().where(f"id = {number}").count()
    page = Page(table.report(tmp_path / "r.html"))
    assert "5 recorded predicates" in page.text
    assert "those that" not in page.text
    advice = table.advise(target_file_size=table.info().bytes // 6)
    bars = page.data["figures"]["candidates"]["data"][0]
    assert bars["x"][0] == pytest.approx(100 * advice.current.kept, abs=0.01)
    assert len(bars["x"]) == 1 + min(12, len(advice.candidates))
    assert all(go.Figure(figure) for figure in page.data["figures"].values())
    table.optimize(by=["id", "user"], files=6)
    table.df().where("id = 3").count()
    page = Page(table.report(tmp_path / "r.html"))
    assert "optimize" in page.text
    (of,) = table.history()
    assert of.scans == 1
    assert 0 < of.share_measured < 1
    assert f"{percent(of.share_measured)} (1 scans)" in page.text
