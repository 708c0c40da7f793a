#!/usr/bin/env python3
"""Set up a development environment and run a task in it: `python3 dev.py demo|test|test-engines|fuzz|lint|...`.

Needs Python 3.10 or later and nothing else: it makes `.venv` with uv where that is installed, else with venv and pip,
installs the locked versions, a Java among them, and runs the task. `ZSKIP_JAVA=system` runs it on the machine's own
Java instead. Only the standard library is used here, and only what Python 3.6 can read.
"""

import argparse
import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST = (3, 10)
STAMP = "zskip-installed"
UNFINISHED = "unfinished"
TASKS = {
    "demo": "cluster TPC-H data and answer the same queries before and after",
    "test": "run the tests of twelve minutes; `--rest` runs the others, `--nightly` what repeats at random, `--all` "
    "all; more arguments go to pytest; `--spark 3.5` runs the Spark tests on Spark 3.5, `--once` each with its first "
    "parameters",
    "test-engines": "run the tests against Delta Lake, Iceberg, Hudi and HDFS themselves, which Maven fetches; "
    "`--nightly` runs what repeats at random, `--all` all",
    "test-stores": "run the tests against an object store, an emulator if no other is named; `core` needs no Maven",
    "test-browser": "run the tests that open reports in Chromium, which is installed where apt-get can",
    "fuzz": "random predicates against the oracle, or `--queries` against plain Spark, for as long as you let it; "
    "`--histories` plays random histories of tables under the engines' own writers",
    "lint": "ruff, mypy, the order and size of the rooms, and whether the locks agree",
    "docs": "run the examples of the README, the docs and the docstrings; `--site` builds the site",
    "matrix": "run the core tests from the wheel on each Python and Spark; `--only 3.12-4.1` picks a pair",
    "build": "build the source and the wheel into dist/; `--tag v0.1.0` checks that all places agree on the version",
    "bench": "run the benchmarks and write docs/benchmarks.md",
}
SETS = {
    "demo": ["-c", "requirements/dev.txt", "-e", ".[spark,java,demo,report]"],
    "dev": ["-r", "requirements/dev.txt"],
    "spark35": ["-r", "requirements/spark35.txt"],
}
"""What pip is asked to install for a task, in the versions of the lock."""
PAGES = [
    f"tests/{name}.py"
    for name in ("project/test_docs", "project/test_site", "project/test_engines", "sketch/test_docs")
]
"""The tests that run what the docs show."""
ENGINES = {
    "dev": (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
    ),
    "spark35": (
        "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",
        "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",
    ),
}
"""The jars of table formats for the Spark of each environment, as Maven names them."""
HDFS_JARS = ("org.apache.hadoop:hadoop-client-minicluster:3.4.2", "junit:junit:4.13.2")
"""HDFS in one process, with the rest of Hadoop from PySpark; its test classes, which start it, ask for JUnit."""
STORE_JARS = ("org.apache.hadoop:hadoop-aws:3.4.2", "software.amazon.awssdk:bundle:2.29.52")
"""What the Spark of the developer's environment reaches S3 with."""
BROWSER = (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))
"""What has to be on the PATH for the tests in a browser, one of each, and below what holds it."""
BROWSER_PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
ENGINE_TESTS = {"dev": ["delta", "hdfs", "iceberg"], "spark35": ["hudi", "iceberg/older_spark"]}
HISTORIES = {"dev": ["delta", "iceberg"], "spark35": ["hudi"]}
# In the order of tests/conftest.py: the many short files come last and even out what the two have left.
WORKERS = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
"""Where nothing else is asked for: processes with a Spark session each, one more than cores, since tests wait."""
FULL = re.compile(r"No space left on device|Disk quota exceeded|os error 28|Errno 28|ENOSPC", re.I)
OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Connection refused|Connection reset|ProxyError|"
    r"Network is unreachable|name resolution|Name or service not known|dns error|error sending request|client error",
    re.I,
)
"""What pip, uv and Maven say of a full disk and of a network that does not answer."""


class Problem(Exception):
    """What stops a task; its text says what to do."""


def main(arguments: "list[str]") -> int:
    """Run one task and return its exit code."""
    if sys.version_info < OLDEST:
        return say(too_old())
    shown = "\n".join(f"  {name:<12} {text}" for name, text in TASKS.items())
    parser = argparse.ArgumentParser(
        prog="dev.py", description="Run a task.", epilog=shown, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="arguments of the task")
    options = parser.parse_args(arguments)
    tasks = {"demo": demo, "test": test, "test-engines": test_engines, "fuzz": fuzz, "lint": lint, "docs": docs}
    tasks |= {
        "test-stores": test_stores,
        "test-browser": test_browser,
        "matrix": matrix,
        "build": build,
        "bench": bench,
    }
    try:
        return tasks[options.task](options.rest)
    except Problem as problem:
        return say(str(problem))
    except subprocess.CalledProcessError as error:
        return say(f"failed: {' '.join(map(str, error.cmd))}\nmend what is said above and call again: it goes on there")
    except OSError as error:
        return say(refused(error))
    except KeyboardInterrupt:
        say("interrupted; call again to go on")
        return 130


def too_old() -> str:
    """Name a newer Python where there is one."""
    names = [f"python3.{minor}" for minor in range(19, OLDEST[1] - 1, -1)]
    found = next((name for name in names if starts(name)), "a newer python3")
    return f"zskip needs Python 3.10 or later, this is {sys.version.split()[0]}: run dev.py with {found}"


def starts(name: str) -> bool:
    """Whether a Python of this name is on the PATH and is no empty shell of a version manager."""
    try:
        return subprocess.run([name, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def refused(error: OSError) -> str:
    """What to do about a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full()
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{error}: this user may not write there; clone the project into a directory of your own"
    return str(error)


def full() -> str:
    """What to do about a full disk."""
    return (
        f"the disk is full: free 3 GB for {ROOT} and {tempfile.gettempdir()} (TMPDIR names another place), "
        "and call again: it goes on there"
    )


def demo(rest: "list[str]") -> int:
    """The demo needs Spark, a Java and the TPC-H generator, nothing of the developer's tools."""
    return run(environment("demo"), "-m", "zskip.cli", "demo", *rest)


def test(rest: "list[str]") -> int:
    """The tests of twelve minutes, all tests, or those that these leave out; on either version of Spark."""
    parser = tier_parser("quick", "once", "rest", "nightly", "all")
    parser.add_argument("--spark", choices=["3.5", "4.1"], default="4.1")
    options, more = parser.parse_known_args(rest)
    if options.spark == "4.1":
        return run(environment("dev"), "-m", "pytest", *(more or WORKERS), ZSKIP_TIER=options.tier)
    return run(environment("spark35"), "-m", "pytest", *(more or ["-m", "spark", *WORKERS]), ZSKIP_TIER=options.tier)


def tier_parser(default: str, *names: str) -> argparse.ArgumentParser:
    """A parser of the options that select a tier; tests/support/tiers.py says which tests are in it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    tier = parser.add_mutually_exclusive_group()
    for name in names:
        tier.add_argument(f"--{name}", dest="tier", action="store_const", const=name, default=default)
    return parser


def test_engines(rest: "list[str]") -> int:
    """The tests that need the engines' own jars, in one pytest for each version of Spark."""
    options, more = tier_parser("daily", "nightly", "all").parse_known_args(rest)
    return run_engines(ENGINE_TESTS, "test_*.py", more or WORKERS, ZSKIP_TIER=options.tier)


def run_engines(tests: "dict[str, list[str]]", pattern: str, more: "list[str]", **variables: str) -> int:
    """Run the files of these names in some folders, with the engines' jars; returns the worst exit code."""
    worst = 0
    for packages, names in tests.items():
        files = [path for name in names for path in sorted((ROOT / "tests" / "engines" / name).glob(pattern))]
        python, shown = environment(packages), [path.relative_to(ROOT).as_posix() for path in files]
        jars = {"ZSKIP_ENGINE_JARS": os.pathsep.join(engine_jars(packages))}
        if "hdfs" in names:
            jars["ZSKIP_HDFS_JARS"] = os.pathsep.join(fetched(HDFS_JARS))
        worst = max(worst, run(python, "-m", "pytest", *shown, *more, **jars, **variables))
    return worst


def test_stores(rest: "list[str]") -> int:
    """The tests that need an object store; `core` for those that need no Spark, and so no jars."""
    python = environment("dev")
    if rest[:1] == ["core"]:
        names = [f"tests/stores/test_{name}.py" for name in ("objects", "open", "formats")]
        return run(python, "-m", "pytest", *names, *rest[1:], ZSKIP_STORE_JARS="")
    jars = os.pathsep.join(fetched((*STORE_JARS, *ENGINES["dev"])))
    return run(python, "-m", "pytest", *(rest or ["tests/stores"]), ZSKIP_STORE_JARS=jars)


def test_browser(rest: "list[str]") -> int:
    """The tests that need Chromium and its driver."""
    if not all(any(map(shutil.which, names)) for names in BROWSER):
        install_browser()
    return run(environment("dev"), "-m", "pytest", "tests/browser", *rest, ZSKIP_BROWSER="1")


def install_browser() -> None:
    """Debian's Chromium, where this user may install it."""
    if not shutil.which("apt-get") or not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise Problem(
            "the tests in a browser need Chromium and its driver: run "
            "`sudo apt-get install chromium chromium-driver`, or put both on the PATH, and call again"
        )
    with alone(".venv") as held:
        fetch(["apt-get", "update", "-qq"], held)
        fetch(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *BROWSER_PACKAGES], held)


def engine_jars(packages: str) -> "list[str]":
    """Paths of the jars of the engines for one environment."""
    return fetched(ENGINES[packages])


def fetched(artifacts: "tuple[str, ...]") -> "list[str]":
    """Paths of some jars, fetched with Maven where they are not here yet."""
    place, paths = ROOT / ".engines", []
    for artifact in artifacts:
        path = place / f"{'-'.join(artifact.split(':')[1:])}.jar"
        if not path.exists():
            maven = shutil.which("mvn")
            if maven is None:
                raise Problem(
                    "the tests against engines and stores fetch jars with Maven: put `mvn` on the PATH, call again"
                )
            goal = [f"-Dartifact={artifact}", f"-DoutputDirectory={place}"]
            with alone(place.name) as held:
                if not path.exists():
                    fetch([maven, "-q", "-B", "dependency:copy", *goal], held)
        paths.append(str(path))
    return paths


def fuzz(rest: "list[str]") -> int:
    """Random tables and predicates, queries, or histories of tables."""
    if "--histories" in rest:
        return fuzz_histories([argument for argument in rest if argument != "--histories"])
    return run(environment("dev"), "tests/support/fuzz.py", *rest)


def fuzz_histories(rest: "list[str]") -> int:
    """Random histories of Delta, Iceberg and Hudi tables; more arguments, such as `-k hudi`, go to pytest."""
    parser = argparse.ArgumentParser(prog="dev.py fuzz --histories", allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, of which each plays every kind of table")
    parser.add_argument("--steps", type=int, default=300, help="how many steps a history has")
    options, more = parser.parse_known_args(rest)
    seeds = ",".join(str(options.seed + i) for i in range(options.seeds))
    variables = {"ZSKIP_HISTORY_SEEDS": seeds, "ZSKIP_HISTORY_STEPS": str(options.steps)}
    # A history takes minutes, so each is handed to the next process that is free.
    more = ["-n", "2", "--maxschedchunk", "1", "--timeout", "0", *more]
    return run_engines(HISTORIES, "test_histories.py", more, **variables)


def lint(rest: "list[str]") -> int:
    """All checks, each shown, the worst exit code returned."""
    python = environment("dev")
    checks = (
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
        ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        ["tests/project/rooms.py"],
        ["tests/project/java_types.py"],
        ["tests/project/locks.py"],
    )
    return max(run(python, *check) for check in checks)


def docs(rest: "list[str]") -> int:
    """Examples in the README, the docs and the docstrings; or the site of the docs."""
    if rest[:1] == ["--site"]:
        return run(environment("dev"), "-m", "mkdocs", "build", *rest[1:], NO_MKDOCS_2_WARNING="1")
    if rest[:1] == ["--pictures"]:
        return run(environment("dev"), "tests/project/tutorial.py", "--pictures")
    return run(environment("dev"), "-m", "pytest", "src", *PAGES, *rest)


def matrix(rest: "list[str]") -> int:
    """The core tests on each pair of Python and Spark, from the wheel."""
    return run(environment("dev"), "tests/project/matrix.py", *rest)


def build(rest: "list[str]") -> int:
    """What is published."""
    return run(environment("dev"), "tests/project/release.py", *rest)


def bench(rest: "list[str]") -> int:
    """All benchmarks but those that take hours, or those with a word in their names, as in `bench growth`."""
    return run(environment("dev"), "bench/run.py", *rest)


def environment(packages: str) -> str:
    """Make or reuse the virtual environment that holds a set of packages, and return its python."""
    place = ROOT / (".venv-spark35" if packages == "spark35" else ".venv")
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not installed(place, python, packages):
        with alone(place.name) as held:
            # Another call may have installed it while this one waited.
            if not installed(place, python, packages):
                install(place, python, packages, held)
    return str(python)


def installed(place: Path, python: Path, packages: str) -> bool:
    """Whether an environment holds what it should."""
    stamp = place / STAMP
    done = stamp.read_text(encoding="utf-8").split() if stamp.exists() else []
    return python.exists() and done[1:] == [fingerprint()] and done[0] in (packages, "dev")


def install(place: Path, python: Path, packages: str, held: "int | None") -> None:
    """Install a set of packages, on top of what is there, unless a killed call has left it."""
    print(f"installing into {place.name} (once; some minutes)", file=sys.stderr, flush=True)
    uv, stamp = shutil.which("uv"), place / STAMP
    cut_off = stamp.exists() and stamp.read_text(encoding="utf-8") == UNFINISHED
    if cut_off:
        print(f"the installation before this one was cut off: making {place.name} anew", file=sys.stderr, flush=True)
    if cut_off or not usable(python, uv):
        make(place, uv)
    stamp.write_text(UNFINISHED, encoding="utf-8")
    tool = installer(str(python), uv)
    steps = [SETS[packages]] if packages == "demo" else [SETS[packages], ["--no-deps", "-e", "."]]
    try:
        for step in steps:
            fetch([*tool, *step], held)
    except (subprocess.CalledProcessError, Problem) as error:
        # An installer that was killed may have left half of itself.
        if getattr(error, "returncode", 1) > 0:
            stamp.unlink()
        raise
    stamp.write_text(f"{packages} {fingerprint()}", encoding="utf-8")


def fetch(command: "list[str]", held: "int | None") -> None:
    """Run a command that downloads, which keeps the lock until it ends, even where this process is killed before."""
    passed = {} if held is None or os.name == "nt" else {"pass_fds": (held,)}
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, errors="replace", check=False, **passed)
    said = done.stderr or ""
    print(said, end="", file=sys.stderr, flush=True)
    if done.returncode == 0:
        return
    if FULL.search(said):
        raise Problem(full())
    if OFFLINE.search(said):
        raise Problem(
            "the network does not answer, and this call has to download: connect (or set HTTPS_PROXY, or for a mirror "
            "PIP_INDEX_URL), and call again: it goes on there"
        )
    raise subprocess.CalledProcessError(done.returncode, command)


@contextlib.contextmanager
def alone(place: str):
    """Let one call at a time download into a place; gives the lock, None where the file system knows none."""
    with open(ROOT / f"{place}.lock", "a+", encoding="utf-8") as file:
        try:
            held = lock(file)
        except OSError:
            held = None
        if held is not None:
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
        yield held


def lock(file) -> "int | None":
    """Wait until no other process holds the file's lock, which the system lets go when its holders have ended."""
    if os.name == "nt":
        return None
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        other = file.read() or "?"
        say(f"another call (process {other}) is installing into this checkout: waiting for it to end")
        fcntl.flock(file, fcntl.LOCK_EX)
    return file.fileno()


def fingerprint() -> str:
    """Changes whenever something else is to be installed."""
    digest = hashlib.sha256(sys.version.encode())
    for path in ("pyproject.toml", "requirements/dev.txt", "requirements/spark35.txt"):
        digest.update((ROOT / path).read_bytes())
    return digest.hexdigest()


def usable(python: Path, uv: "str | None") -> bool:
    """Whether an environment is whole, has an installer, and is of the Python that runs this."""
    asked = f"import sys{'' if uv else ', pip'}; print(sys.version)"
    try:
        shown = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return shown.stdout.strip() == sys.version.strip()


def make(place: Path, uv: "str | None") -> None:
    """Make a virtual environment, in place of any that is there, from the python that runs this."""
    if uv:
        command = [uv, "venv", "-q", "--clear", "--no-python-downloads", "--python", sys.executable, str(place)]
        subprocess.run(command, check=True)
        return
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise Problem(
            f"this Python cannot make virtual environments; on Debian or Ubuntu run "
            f"`sudo apt-get install python{version}-venv`, or put uv on the PATH, then call again"
        ) from None
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)


def installer(python: str, uv: "str | None") -> "list[str]":
    """The command that installs into an environment, quietly."""
    if uv:
        return [uv, "pip", "install", "-q", "--python", python]
    # As uv does: Python compiles what is imported, which is the least part.
    return [python, "-m", "pip", "install", "-q", "--use-pep517", "--no-compile"]


def run(*command: str, **variables: str) -> int:
    """Run a command to its end, in the root of the project, with more environment variables.

    Its Python keeps bytecode in the environment, even where this shell wants none in the tree: compiling the tests and
    what they import takes each process 20 s.
    """
    print("$", " ".join(command), file=sys.stderr, flush=True)
    bytecode = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(Path(command[0]).parent.parent / "bytecode"),
    }
    return subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, **bytecode, **variables}).returncode


def say(text: str) -> int:
    """Print an error and return 1."""
    print(f"dev.py: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
