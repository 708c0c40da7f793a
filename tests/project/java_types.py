"""Check the types of all Java with javac, since Janino compiles it only when a session needs it.

Run by `python3 dev.py lint`. Janino takes generics for comments, so a cast that javac calls redundant may be needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "zskip" / "spark"
JARS = Path(pyspark.__file__).parent / "jars"
LINT = "-Xlint:all,-cast,-classfile,-deprecation,-options,-path,-rawtypes,-serial,-unchecked"
OLDEST = 17
"""The version of Java that Spark 4 is compiled for."""


def find_javac() -> str | None:
    """The javac of `JAVA_HOME` or of the machine; None where there is none of a version that can read Spark's jars."""
    home = os.environ.get("JAVA_HOME")
    places = [*([str(Path(home) / "bin")] if home else []), *os.environ.get("PATH", "").split(os.pathsep)]
    for place in places:
        javac = shutil.which("javac", path=place)
        if javac is not None and _version(javac) >= OLDEST:
            return javac
    return None


def _version(javac: str) -> int:
    result = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r"javac (\d+)", result.stdout + result.stderr)
    return int(found[1]) if found else 0


def check(javac: str, source: Path, jars: list[Path]) -> str:
    """What javac objects to in the Java below a folder; empty where it objects to nothing.

    jars: of formats. Java that is compiled apart, with Delta Lake, is left out without its jar.
    """
    has_delta = any(jar.name.startswith("delta-spark_4") for jar in jars)
    with tempfile.TemporaryDirectory() as directory:
        copies = []
        for path in sorted(source.rglob("*.java")):
            if has_delta or path.parent.name != "apart":
                copy = Path(directory) / path.name
                # Janino gets the class that Spark's Scala has.
                text = path.read_text(encoding="utf-8")
                copy.write_text(text.replace("import SEQ;", "import scala.collection.immutable.Seq;"), encoding="utf-8")
                copies.append(str(copy))
        path = os.pathsep.join([f"{JARS}/*", *map(str, jars)])
        options = ["-proc:none", "-XDsuppressNotes", LINT, "-Werror", "-d", f"{directory}/classes", "-cp", path]
        result = subprocess.run([javac, *options, *copies], capture_output=True, text=True, check=False)
        text = (result.stdout + result.stderr).replace(f"{directory}/", "")
        return text.strip() if result.returncode else ""


def main(source: Path = SOURCE) -> int:
    """Print what is wrong, and return 1 where anything is."""
    javac = find_javac()
    if javac is None:
        print(f"Java: types not checked, there is no javac {OLDEST} or later in JAVA_HOME or on the path")
        return 0
    text = check(javac, source, sorted((ROOT / ".engines").glob("*.jar")))
    print(text or f"Java: {javac} has no objections")
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main())
