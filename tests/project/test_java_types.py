"""The check of the Java's types finds what is planted."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import scripts


@pytest.fixture(scope="module")
def java_types() -> ModuleType:
    return scripts.load(Path(__file__).with_name("java_types.py"))


def test_a_planted_fault_is_named(java_types: ModuleType, tmp_path: Path) -> None:
    javac = java_types.find_javac()
    if javac is None:
        pytest.skip("no javac")
    (tmp_path / "One.java").write_text("import SEQ;\nfinal class One {\n  Seq none() { return new String(); }\n}\n")
    assert "One.java:3: error: incompatible types" in java_types.check(javac, tmp_path, [])


def test_without_javac_it_says_so(
    java_types: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(java_types, "find_javac", lambda: None)
    assert java_types.main() == 0
    assert "types not checked" in capsys.readouterr().out
