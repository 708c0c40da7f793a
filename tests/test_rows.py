"""Results in notebooks: the same rows as on the command line, and nothing of theirs is markup."""

from __future__ import annotations

import inspect
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import tables

import zskip
from zskip import records
from zskip.advisor.advice import advice
from zskip.advisor.workload import workload
from zskip.cli.show import print_result
from zskip.records import Explanation, LeafReport, Leftover, Mismatch, ScanReport, ScanStep, Verification
from zskip.rows import Grid, Share, blocks, to_html
from zskip.table import optimize_request as request
from zskip.table.read import kept_file as kept


class Texts(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def test_every_result_of_a_table_shows_itself() -> None:
    names = {**vars(records), **vars(advice), **vars(workload), **vars(request), **vars(kept)}
    for name, method in inspect.getmembers(zskip.Table, inspect.isfunction):
        hint = str(method.__annotations__.get("return", "None"))
        kind = names.get(hint.removeprefix("tuple[").removesuffix(", ...]"))
        if not name.startswith("_") and inspect.isclass(kind) and kind is not records.IndexedPart:
            assert getattr(kind, "_repr_html_", None) is to_html, name
            assert blocks.dispatch(kind) is not blocks.dispatch(object), name


def test_a_notebook_has_what_the_command_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = zskip.open(str(tables.make_events(tmp_path / "events")))
    table.index(granularity="row_group")
    predicate = "id < 100 AND lower(name) = 'x'"
    for result in (
        table.info(by=["id", "day"]),
        table.index(),
        table.explain(predicate),
        table.prune(predicate),
        table.clean(),
    ):
        print_result(result)
        printed = capsys.readouterr().out
        shown = Texts(result._repr_html_())
        assert shown.tags <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "meter"}
        for text in filter(None, shown.texts):
            assert text in printed or re.sub(r"[,.]", "", text) in re.sub(r"[,.]", "", printed), text


def test_names_and_literals_are_no_markup() -> None:
    evil = "<script>alert(1)</script>&\"'"
    leaf = LeafReport(sql=evil, skipped=0, reason=evil)
    results = [
        Verification(
            path=evil,
            files=1,
            columns=1,
            queries=1,
            mismatches=(Mismatch(what=evil, file=evil, expected=evil, found=evil),),
        ),
        Explanation(path=evil, where=evil, steps=(ScanStep(step=evil, files=1, bytes=1, rows=None),), leaves=(leaf,)),
        ScanReport(
            files=1, files_total=1, bytes=1, bytes_total=1, rows=None, rows_total=None, seconds=0.0, leaves=(leaf,)
        ),
        records.Cleaning(
            path=evil, leftovers=(Leftover(path=evil, reason=evil, files=1, bytes=1),), unfinished=1, deleted=False
        ),
        workload.Workload.of([f"a = '{evil}'", f"`{evil}` = 1"]),
    ]
    for result in results:
        page = Texts(result._repr_html_())
        assert "script" not in page.tags
        assert evil in " ".join(page.texts) or "alert" not in result._repr_html_()


def test_shares_are_bars_beside_their_text() -> None:
    class Result:
        pass

    blocks.register(Result, lambda _: [[("depth", Share(0.25, "3 of 12"))], Grid(("a",), ((None,), (1.25,), (True,)))])
    page = to_html(Result())
    assert '<meter min="0" max="1" value="0.2500"></meter> 3 of 12' in page
    assert Texts(page).texts == ["depth", "3 of 12", "a", "1.2", "True"]
    with pytest.raises(TypeError, match="int"):
        to_html(3)


def test_in_a_terminal_shares_have_bars(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Result:
        pass

    blocks.register(Result, lambda _: [[("depth of a", Share(0.5, "6 of 12"))], Grid(("b",), ((Share(1.0, "all"),),))])
    print_result(Result())
    piped = capsys.readouterr().out
    assert "depth of a  6 of 12\n" in piped
    assert "█" not in piped
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_result(Result())
    drawn = capsys.readouterr().out
    assert "████████ " in drawn
    assert "6 of 12" in drawn
    assert "█" * 16 in drawn
