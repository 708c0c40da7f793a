"""dev.py: what it installs, when it installs again, and what it says where it cannot."""

from __future__ import annotations

import ast
import builtins
import errno
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import scripts

ROOT = Path(__file__).resolve().parents[2]


class Recorder:
    """Stands in for subprocess.run: keeps the commands, makes what `venv` makes, fails where told to."""

    def __init__(self, module: ModuleType) -> None:
        self.commands: list[list[str]] = []
        self.fail: Callable[[list[str]], bool] = lambda command: False
        self.module = module
        self.said = "ERROR: no such package"
        self.code = 1

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        command = list(map(str, command))
        self.commands.append(command)
        self.variables = options.get("env") or {}
        if self.fail(command):
            if options["check"]:
                raise subprocess.CalledProcessError(1, command)
            return subprocess.CompletedProcess(command, self.code, "", self.said)
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        if "-c" in command and "print(sys.version)" in command[-1]:
            if not Path(command[0]).exists():
                raise FileNotFoundError(command[0])
            return subprocess.CompletedProcess(command, 0, sys.version + "\n", "")
        return subprocess.CompletedProcess(command, 0, "", "")

    def installs(self) -> list[str]:
        """The installs so far, without the installer."""
        found = (command[command.index("install") + 2 :] for command in self.commands if "install" in command)
        return [" ".join(word for word in words if word not in ("--use-pep517", "--no-compile")) for words in found]


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """dev.py, in an empty project, on a machine without uv."""
    module = scripts.load(ROOT / "dev.py")
    (tmp_path / "requirements").mkdir()
    for name in ("pyproject.toml", "requirements/dev.txt", "requirements/spark35.txt"):
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module.os, "name", "posix")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    return module


def real(*command: object, cwd: Path, **variables: str) -> subprocess.Popen[str]:
    """A process of its own, whose stderr can be read."""
    environment = {**os.environ, **variables}
    return subprocess.Popen(
        list(map(str, command)), cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture
def calls(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder(dev)
    monkeypatch.setattr(subprocess, "run", recorder)
    return recorder


def test_an_old_python_is_told_so(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    assert dev.main(["test"]) == 1
    assert "needs Python 3.10 or later" in capsys.readouterr().err


def test_any_python_3_can_read_what_it_says(tmp_path: Path) -> None:
    ast.parse((ROOT / "dev.py").read_text(), feature_version=(3, 6))


def test_a_newer_python_is_named(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def codes(name: str) -> subprocess.CompletedProcess[bytes]:
        """Python 3.12 is installed with a version manager that does not use it."""
        if name not in ("python3.12", "python3.11", "python3.9"):
            raise FileNotFoundError(name)
        return subprocess.CompletedProcess([name], 127 if name == "python3.12" else 0)

    monkeypatch.setattr(sys, "version_info", (3, 8, 1))
    monkeypatch.setattr(subprocess, "run", lambda command, **_: codes(command[0]))
    assert dev.main(["demo"]) == 1
    assert capsys.readouterr().err.rstrip().endswith("run dev.py with python3.11")


def test_the_second_run_installs_nothing(dev: ModuleType, calls: Recorder) -> None:
    assert dev.main(["test", "tests/layout", "-q"]) == 0
    assert calls.installs() == ["-r requirements/dev.txt", "--no-deps -e ."]
    assert calls.commands[-1][1:] == ["-m", "pytest", "tests/layout", "-q"]
    calls.commands.clear()
    assert dev.main(["test", "-x"]) == 0
    assert [c[1:] for c in calls.commands] == [["-m", "pytest", "-x"]]


def test_the_demo_needs_less_and_is_happy_with_more(dev: ModuleType, calls: Recorder) -> None:
    dev.main(["demo", "--scale", "0.1"])
    assert calls.installs() == ["-c requirements/dev.txt -e .[spark,java,demo,report]"]
    assert calls.commands[-1][1:] == ["-m", "zskip.cli", "demo", "--scale", "0.1"]
    dev.main(["test"])
    assert len(calls.installs()) == 3
    dev.main(["demo"])
    assert len(calls.installs()) == 3


def test_a_changed_lock_is_installed(dev: ModuleType, calls: Recorder) -> None:
    dev.main(["test"])
    (dev.ROOT / "requirements" / "dev.txt").write_text("two")
    dev.main(["test"])
    assert len(calls.installs()) == 4
    assert sum("venv" in c for c in calls.commands) == 1


def test_an_interrupted_install_is_taken_up_again(
    dev: ModuleType, calls: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    calls.fail = lambda command: "requirements/dev.txt" in command
    assert dev.main(["test"]) == 1
    assert "call again" in capsys.readouterr().err
    calls.fail = lambda command: False
    assert dev.main(["test"]) == 0
    assert sum("venv" in c for c in calls.commands) == 1
    assert calls.commands[-1][1:] == ["-m", "pytest", *dev.WORKERS]


def test_a_killed_install_is_made_anew(dev: ModuleType, calls: Recorder, capsys: pytest.CaptureFixture[str]) -> None:
    def killed(command: list[str]) -> bool:
        if "requirements/dev.txt" in command:
            raise KeyboardInterrupt
        return False

    calls.fail = killed
    assert dev.main(["test"]) == 130
    assert "call again" in capsys.readouterr().err
    calls.fail = lambda command: False
    assert dev.main(["test"]) == 0
    assert "was cut off: making .venv anew" in capsys.readouterr().err
    assert sum("venv" in c for c in calls.commands) == 2
    calls.commands.clear()
    assert dev.main(["test"]) == 0
    assert calls.installs() == []


def test_what_a_killed_installer_left_is_made_anew(dev: ModuleType, calls: Recorder) -> None:
    calls.fail, calls.code = lambda command: "requirements/dev.txt" in command, -15
    assert dev.main(["test"]) == 1
    calls.fail = lambda command: False
    assert dev.main(["test"]) == 0
    assert sum("venv" in c for c in calls.commands) == 2


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "NameResolutionError(Failed to resolve 'pypi.org')\nERROR: No matching version",
            "network does not answer",
        ),
        ("error: Request failed\n  Caused by: error sending request for url", "network does not answer"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "the disk is full: free 3 GB"),
        ("failed to copy: Disk quota exceeded (os error 122)", "the disk is full: free 3 GB"),
        ("ERROR: ResolutionImpossible", "mend what is said above"),
    ],
)
def test_a_failed_download_says_what_to_do(
    dev: ModuleType, calls: Recorder, capsys: pytest.CaptureFixture[str], said: str, shown: str
) -> None:
    calls.fail, calls.said = lambda command: "requirements/dev.txt" in command, said
    assert dev.main(["test"]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert shown in told
    assert "call again" in told
    calls.fail = lambda command: False
    assert dev.main(["test"]) == 0
    assert sum("venv" in c for c in calls.commands) == 1


@pytest.mark.parametrize(
    ("number", "shown"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "into a directory of your own"), (errno.EIO, "Input/output")],
)
def test_a_file_that_cannot_be_written_says_what_to_do(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, shown: str
) -> None:
    def fails(place: Path, uv: str | None) -> None:
        raise OSError(number, os.strerror(number), str(place))

    monkeypatch.setattr(dev, "make", fails)
    assert dev.main(["test"]) == 1
    assert shown in capsys.readouterr().err


def test_no_network_is_one_line_of_pip_itself(dev: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """What pip says in truth, so that its words are known here."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        index = f"http://127.0.0.1:{nobody.getsockname()[1]}/simple"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries", "1", "-i", index, "numpy"]
        with pytest.raises(dev.Problem, match="network does not answer"):
            dev.fetch(command, None)


WAIT = """
import importlib.util, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("dev", sys.argv[1])
dev = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dev)
dev.ROOT = Path(sys.argv[2])
with dev.alone(".venv") as held:
    print("has it", flush=True)
    if sys.argv[3:]:
        dev.fetch([sys.executable, "-c", sys.argv[3]], held)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no flock: there two calls do not wait for each other")
def test_two_calls_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Even where the first is killed while what it has started still installs."""
    (tmp_path / "go").touch()
    busy = "import os, time\nprint('busy', flush=True)\nwhile os.path.exists('go'): time.sleep(0.05)"
    first = real(sys.executable, "-c", WAIT, ROOT / "dev.py", tmp_path, busy, cwd=tmp_path)
    assert first.stdout is not None
    assert [first.stdout.readline().strip() for _ in range(2)] == ["has it", "busy"]
    first.kill()
    second = real(sys.executable, "-c", WAIT, ROOT / "dev.py", tmp_path, cwd=tmp_path)
    assert second.stderr is not None
    said = second.stderr.readline()
    assert f"another call (process {first.pid}) is installing into this checkout: waiting" in said
    assert second.poll() is None
    (tmp_path / "go").unlink()
    assert second.communicate(timeout=60)[0].strip() == "has it"
    assert second.returncode == 0
    first.communicate()


def test_the_second_of_two_calls_finds_all_installed(
    dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waited(file: Any) -> None:
        monkeypatch.setattr(dev, "lock", lambda file: None)
        dev.main(["test"])

    monkeypatch.setattr(dev, "lock", waited)
    assert dev.main(["test", "-x"]) == 0
    assert len(calls.installs()) == 2


def test_a_file_system_without_locks_will_do(dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(file: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(dev, "lock", fails)
    assert dev.main(["test"]) == 0


@pytest.mark.parametrize(
    ("arguments", "tier"),
    [
        ([], "quick"),
        (["--all"], "all"),
        (["--rest", "-x"], "rest"),
        (["--nightly"], "nightly"),
        (["--spark", "3.5"], "quick"),
    ],
)
def test_the_tier_is_told_to_pytest(dev: ModuleType, calls: Recorder, arguments: list[str], tier: str) -> None:
    assert dev.main(["test", *arguments]) == 0
    assert calls.variables["ZSKIP_TIER"] == tier
    assert not {"--all", "--rest", "--nightly"} & set(calls.commands[-1])


def test_another_spark_gets_its_own_environment(dev: ModuleType, calls: Recorder) -> None:
    dev.main(["test", "--spark", "3.5"])
    assert calls.installs()[0] == "-r requirements/spark35.txt"
    assert ".venv-spark35" in calls.commands[-1][0]
    assert calls.commands[-1][1:] == ["-m", "pytest", "-m", "spark", *dev.WORKERS]
    dev.main(["test", "--spark", "3.5", "tests/spark"])
    assert calls.commands[-1][1:] == ["-m", "pytest", "tests/spark"]


def test_the_engines_jars_are_fetched_once(
    dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dev.main(["test-engines"]) == 1
    assert "put `mvn` on the PATH" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/mvn" if name == "mvn" else None)
    assert dev.main(["test-engines", "-q"]) == 0
    fetched = [command[4].split(":")[1] for command in calls.commands if command[0] == "/bin/mvn"]
    artifacts = (*dev.ENGINES["dev"], *dev.HDFS_JARS, *dev.ENGINES["spark35"])
    assert fetched == [artifact.split(":")[1] for artifact in artifacts]
    (dev.ROOT / ".engines").mkdir()
    for jar in dev.fetched(artifacts):
        Path(jar).touch()
    calls.commands.clear()
    assert dev.main(["test-engines"]) == 0
    assert [c[0].rpartition("/.")[2] for c in calls.commands] == ["venv/bin/python", "venv-spark35/bin/python"]
    assert all(c[-len(dev.WORKERS) :] == dev.WORKERS for c in calls.commands)
    assert calls.variables["ZSKIP_TIER"] == "daily"
    assert dev.main(["test-engines", "--all"]) == 0
    assert calls.variables["ZSKIP_TIER"] == "all"


def test_histories_are_played_with_the_jars_of_both_versions_of_spark(
    dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev, "fetched", list)
    for name in ("iceberg", "hudi"):
        directory = dev.ROOT / "tests" / "engines" / name
        directory.mkdir(parents=True)
        (directory / "test_histories.py").touch()
        (directory / "test_enabled.py").touch()
    assert dev.main(["fuzz", "--histories", "--seed", "7", "--seeds", "2", "--steps", "40", "-k", "cow"]) == 0
    played = [command for command in calls.commands if "pytest" in command]
    assert [[word for word in command if word.startswith("tests/")] for command in played] == [
        ["tests/engines/iceberg/test_histories.py"],
        ["tests/engines/hudi/test_histories.py"],
    ]
    assert all(command[-2:] == ["-k", "cow"] for command in played)
    assert calls.variables["ZSKIP_HISTORY_SEEDS"] == "7,8"
    assert calls.variables["ZSKIP_HISTORY_STEPS"] == "40"
    assert "hudi" in calls.variables["ZSKIP_ENGINE_JARS"]


def test_the_browser_is_installed_where_that_is_possible(
    dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert dev.main(["test-browser"]) == 1
    assert "sudo apt-get install chromium chromium-driver" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "apt-get" else None)
    assert dev.main(["test-browser"]) == 0
    assert [c[1] for c in calls.commands if c[0] == "apt-get"] == ["update", "install"]
    calls.commands.clear()
    here = {name: f"/bin/{name}" for name in ("google-chrome", "chromedriver")}
    monkeypatch.setattr(shutil, "which", here.get)
    assert dev.main(["test-browser", "-x"]) == 0
    assert [c[1:] for c in calls.commands] == [["-m", "pytest", "tests/browser", "-x"]]


def test_uv_makes_the_environment_from_this_python(
    dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/uv" if name == "uv" else None)
    dev.main(["test"])
    (made,) = [c for c in calls.commands if "venv" in c]
    assert made[0] == "/bin/uv"
    assert made[made.index("--python") + 1] == sys.executable
    assert "--no-python-downloads" in made
    assert not any("pip" in c[1:3] and c[0] != "/bin/uv" for c in calls.commands if "install" in c)


def test_a_missing_venv_module_names_the_package(
    dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "ensurepip":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert dev.main(["demo"]) == 1
    assert f"apt-get install python3.{sys.version_info.minor}-venv" in capsys.readouterr().err


def test_lint_returns_the_worst_code(dev: ModuleType, calls: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = iter([0, 1, 0, 0, 0, 0, 0])
    monkeypatch.setattr(dev, "environment", lambda packages: "python")
    monkeypatch.setattr(dev, "run", lambda *command: next(codes))
    assert dev.main(["lint"]) == 1
    assert next(codes, None) is None


def test_it_uses_the_standard_library_alone() -> None:
    known = set(sys.stdlib_module_names)
    lines = (ROOT / "dev.py").read_text().splitlines()
    found = {line.split()[1].split(".")[0] for line in lines if line.lstrip().startswith(("import ", "from "))}
    assert found <= known
