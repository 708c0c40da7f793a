"""`--remote`: every command that may start a session takes it, and uses the server that it names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tables
from connect_server import Server, connect_server, free_port

import zskip
from zskip import cli
from zskip.cli import remote

sys.path.insert(0, str(Path(__file__).parent))
import cli_page


def fails(*arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The error of a command in this process."""
    monkeypatch.setattr(sys, "argv", ["zskip", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert len(printed.err.splitlines()) == 1, printed.err
    return printed.err


def test_every_command_but_the_demo_takes_it() -> None:
    for name, command in cli_page.commands():
        options = {flag for param in command.params for flag in param.opts}
        assert ("--remote" in options) == (name != "zskip demo"), name


@pytest.mark.parametrize("url", ["localhost:15002", "", "local[2]", "https://host:443"])
def test_an_address_of_something_else(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = fails("verify", "t", "--remote", url, capsys=capsys, monkeypatch=monkeypatch)
    assert f'"{url}" of --remote or SPARK_REMOTE names no Spark Connect server; write sc://host:port' in error


def test_no_client(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    error = fails("info", "t", "--remote", "sc://localhost", capsys=capsys, monkeypatch=monkeypatch)
    assert 'run: pip install "pyspark[connect]"' in error


@pytest.mark.parametrize("url", ["sc://localhost:1/path", "sc://localhost:1/;token", "sc://:1", "sc://localhost:x"])
def test_an_address_that_is_damaged(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("grpc")
    assert "--remote" in fails("files", "t", "--remote", url, capsys=capsys, monkeypatch=monkeypatch)


def test_nothing_answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc")
    monkeypatch.setattr(remote, "_SECONDS", 1)
    address, start = f"sc://localhost:{free_port()}", time.monotonic()
    error = fails("sql", "SELECT 1", "--remote", f"{address}/;x-key=secret", capsys=capsys, monkeypatch=monkeypatch)
    assert f"no Spark Connect server answers at {address} within 1 s" in error
    assert "secret" not in error
    assert time.monotonic() - start < 20


def run(server: Server, *arguments: str, code: int = 0) -> str:
    """What a command says in a process of its own."""
    command = [sys.executable, "-m", "zskip.cli", *arguments, "--remote", server.url()]
    environment = {**os.environ, "PYTHONPATH": str(Path(zskip.__file__).parents[1]), "JAVA_HOME": "/none"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.slow  # A server in a JVM of its own.
def test_commands_use_the_server(tmp_path: Path) -> None:
    events = str(tables.make_events(tmp_path / "events"))
    with connect_server(tmp_path / "server", token="a-token") as server:
        assert json.loads(run(server, "index", events, "--json"))["files"] == 6
        answer = json.loads(run(server, "query", "SELECT id FROM e WHERE id = 3", "--table", f"e={events}", "--json"))
        assert answer["rows"] == [[3]]
        assert 0 < len(run(server, "files", events, "--where", "id = 3").splitlines()) < 6
        assert json.loads(run(server, "info", events, "--json"))["rows"] > 0
        assert (
            json.loads(run(server, "optimize", events, "--by", "id,day", "--files", "4", "--json"))["files_after"] == 4
        )
        assert json.loads(run(server, "verify", events, "--queries", "2", "--json"))["ok"]
        assert "Spark refuses the query" in run(server, "query", "SELECT nothing", "--table", f"e={events}", code=2)
        server.token = "another"
        assert "oken" in run(server, "info", events, code=2)
