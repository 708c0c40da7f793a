"""The docs say what is true: their examples run, and every command, option and error is in them."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import tables
import tiers
from connected_suite import CLASSIC_LINES
from typer.testing import CliRunner

import zskip
from zskip import cli, errors
from zskip.spark.jvm.compat import is_connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parent))
import cli_page

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the table `events` that the README talks of, as the working directory."""
    import pyarrow.parquet as pq

    table = tables.events()
    names = ["user_id" if name == "user" else name for name in table.column_names]
    (tmp_path / "events").mkdir()
    for i in range(4):
        pq.write_table(table.rename_columns(names).slice(i * 1500, 1500), tmp_path / "events" / f"part-{i}.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    tiers.first(
        [
            "README",
            "docs/guide",
            "docs/writing",
            "docs/maintenance",
            "docs/lake",
            "docs/predicates",
            "docs/report",
            "docs/sql",
        ]
    ),
)
def test_python_blocks_run(spark: object, events: Path, page: str) -> None:
    found = blocks(f"{page}.md", "python")
    assert found
    for code in found:
        # The JVM keeps the directory in which it was started.
        placed = code.replace('"events"', repr(str(events / "events")), 1)
        placed = placed.replace("'events'", f"'{events}/events'").replace("`events`", f"`{events}/events`")
        placed = placed.replace('"ordered"', repr(str(events / "ordered")))
        if is_connected(spark):
            placed = re.sub(CLASSIC_LINES, "", placed)
        exec(compile(placed, page, "exec"), {"spark": spark})


@pytest.mark.spark
@pytest.mark.slow
def test_recipes_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In their order, as written, but for the paths; the stream is killed after a commit and started again.

    Under Spark Connect it is not: there the server calls the function, in a process of its own.
    """
    rows = spark.range(300).selectExpr(
        "id % 40 AS user_id", "DATE '2024-03-01' AS day", "id / 2 AS amount", "concat('n', id) AS note"
    )
    rows.write.csv(str(tmp_path / "landing" / "csv"), header=True)
    rows.limit(50).write.json(str(tmp_path / "landing" / "2024-03-02"))
    rows.limit(60).repartition(3).write.json(str(tmp_path / "incoming"))
    monkeypatch.setattr(sys, "argv", ["nightly.py"])
    load, nightly, dbt, stream = (
        re.sub(r'"((?:landing|lake|incoming|checkpoints)\b)', rf'"{tmp_path}/\1', code)
        for code in blocks("docs/recipes.md", "python")
    )
    for code in (load, nightly, nightly):
        exec(code, {})
    table = zskip.table(spark, str(tmp_path / "lake" / "events"))
    assert table.df().count() == 350
    scope: dict[str, Any] = {}
    exec(dbt, scope)
    project = SimpleNamespace(config=lambda **options: None, ref=lambda name: rows)
    for _ in range(2):
        assert scope["model"](project, spark).collect()[0]["rows"] == 300
    if not is_connected(spark):
        _kill_stream(stream, monkeypatch)
    exec(stream, {})
    assert table.df().count() == 410


def _kill_stream(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append, deaths = zskip.Table.append, [RuntimeError("killed")]

    def append_and_die(*arguments: Any, **options: Any) -> Any:
        result = append(*arguments, **options)
        if result.version % 2 and deaths:
            raise deaths.pop()
        return result

    monkeypatch.setattr(zskip.Table, "append", append_and_die)
    with pytest.raises(Exception, match="killed"):
        exec(stream, {})


@pytest.mark.spark
@pytest.mark.slow
def test_shell_blocks_run(events: Path) -> None:
    script = "\n".join(blocks("README.md", "bash"))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "clustered by" in done.stdout
    assert "part-0000" in done.stdout
    asked = [line for line in done.stdout.splitlines() if line.startswith("e: read")]
    assert [line.partition(",")[0] for line in asked] == [f"e: read {files} of 8 files" for files in (2, 8, 8, 2)]


@pytest.mark.spark
@pytest.mark.slow
def test_commands_of_other_pages_run(spark: SparkSession, events: Path) -> None:
    """In one process: each of the README's starts its own."""
    zskip.table(spark, str(events / "events")).optimize(by=["user_id", "day"], files=8)
    for line in (blocks("docs/cli.md", "bash")[0] + blocks("docs/lake.md", "bash")[0]).splitlines():
        # The JVM keeps the directory in which it was started.
        program, *arguments = shlex.split(re.sub(r"\bevents\b", str(events / "events"), line))
        assert program == "zskip"
        done = CliRunner().invoke(cli.app, arguments)
        assert done.exit_code == 0, (line, done.output)
        assert done.output
    assert (events / "lake.html").stat().st_size > 100_000


def test_the_page_of_commands_is_their_help() -> None:
    for name, command in cli_page.commands():
        assert "Example: zskip " in command.help, name
        assert all(parameter.help for parameter in command.params), name
    assert cli_page.PAGE.read_text("utf-8") == cli_page.text(), "run python tests/project/cli_page.py"


def test_every_error_is_documented() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    for name, found in inspect.getmembers(errors, inspect.isclass):
        if issubclass(found, errors.ZskipError | errors.ZskipWarning):
            assert f"`{name}`" in page, name
            assert name in errors.__doc__, name


def test_security_counts_what_is_there() -> None:
    """Where Java is, which programs are started, and which files are kept outside of tables."""
    from zskip.spark.jvm.compiled import class_cache

    text, source = " ".join((ROOT / "SECURITY.md").read_text().split()), ROOT / "src" / "zskip"
    assert "The Java sources below `src/zskip/spark`" in text
    assert {path.relative_to(source).parts[0] for path in source.rglob("*.java")} == {"spark"}
    assert f"at most {class_cache._MOST_FILES} files" in text
    modules = {str(path.relative_to(source)): path.read_text() for path in source.rglob("*.py")}

    def having(pattern: str) -> set[str]:
        return {name for name, code in modules.items() if re.search(pattern, code, re.MULTILINE)}

    assert having(r"^ *import subprocess") == {"spark/jvm/java.py", "demo/data.py"}
    between_driver_and_executors = {"spark/collect/executors.py", "spark/shipping.py"}
    assert having(r"^ *import (pickle|marshal|dill)\b") == between_driver_and_executors
    assert having(r"^ +implements = ") == {"spark/scan/bridge/callbacks.py"}, "what a process of this machine may call"


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), (page, target)


def test_pages_are_short() -> None:
    assert [page.name for page in (ROOT / "docs").glob("*.md") if len(page.read_text().splitlines()) > 300] == []


def test_public_signatures_are_as_written_down() -> None:
    page = (ROOT / "tests" / "project" / "api.txt").read_text().splitlines()
    found = [
        f"{name}{inspect.signature(getattr(zskip, name))}"
        for name in ("disable", "enable", "enabled", "lake", "open", "scans", "sql", "table", "write")
    ]
    for kind in (zskip.Lake, zskip.Table):
        for name, member in sorted(vars(kind).items()):
            if not name.startswith("_") and callable(member):
                found.append(f"{kind.__name__}.{name}{inspect.signature(member)}")
    assert found == page


def test_importing_zskip_brings_in_nothing_that_is_optional_or_slow() -> None:
    optional = ("pyspark", "pandas", "py4j", "duckdb", "polars", "deltalake", "pyiceberg", "hudi", "plotly", "jinja2")
    slow = ("numpy", "pyarrow", "sqlglot", "rich", "typer")  # ours, but a tenth of a second each: imported when used
    code = f"import sys, zskip; print([m for m in {optional + slow} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


WITHOUT_GRPC = """
import importlib, pkgutil, sys
sys.modules["grpc"] = None
import zskip
for module in pkgutil.walk_packages(zskip.__path__, "zskip."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError:
        print(module.name)
"""


def test_only_sessions_of_spark_connect_need_grpc() -> None:
    """PySpark comes without it, and a classic session must not need what a connected one does."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_GRPC], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "zskip.spark.connect.interceptor",
        "zskip.table.read.connected",
        "zskip.table.read.spark_connect",
    ]


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_lists_files(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    scripts = home / ("Scripts" if os.name == "nt" else "bin")
    uv = shutil.which("uv")
    tool = (
        [uv, "pip", "install", "-q", "--python", str(scripts / "python")] if uv else [str(scripts / "pip"), "install"]
    )
    subprocess.run([*tool, str(wheel)], check=True, capture_output=True)
    path = tables.make_events(tmp_path / "events")
    for command in (["index", str(path)], ["files", str(path), "--where", "id < 3"], ["info", str(path), "--json"]):
        done = subprocess.run([str(scripts / "zskip"), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
    refused = subprocess.run(
        [str(scripts / "zskip"), "optimize", str(path), "--by", "id,user"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert 'pip install "zskip[spark]"' in refused.stderr
