"""Progress shows on a terminal, goes away when all is done, and never fails a step."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zskip
from zskip.terminal import bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def put_up(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of stderr; not as a fixture, after which pytest puts its own there."""
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_footers_that_are_read_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = put_up(monkeypatch)
    for name in "abc":
        pq.write_table(pa.table({"key": [1, 2]}), tmp_path / f"{name}.parquet")
    zskip.open(str(tmp_path)).index()
    assert "read footers" in terminal.getvalue()
    assert "3/3 files" in terminal.getvalue()
    seen = len(terminal.getvalue())
    zskip.open(str(tmp_path)).index()
    assert len(terminal.getvalue()) == seen, "nothing was left to read"


def test_nothing_shows_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bar("step", "files") as shown:
        shown.update(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_that_went_away_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = put_up(monkeypatch)
    with bar("step", "files") as shown:
        shown.update(1, 3)
        terminal.close()
        shown.update(2, 3)
        shown.update(3, 3)
    shown.update(3, 3)
