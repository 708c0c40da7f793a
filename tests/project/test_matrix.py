"""dev.py matrix: which pairs it runs, and what it writes down."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
import scripts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    return scripts.load(ROOT / "tests" / "project" / "matrix.py")


def test_it_covers_the_pythons_that_the_package_names(matrix: ModuleType) -> None:
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert set().union(*matrix.PYTHONS.values()) == set(named)
    assert all((ROOT / test.partition("::")[0]).exists() for test in matrix.CORE)


def test_a_pair_that_spark_does_not_support_is_refused_before_anything_is_made(
    matrix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        matrix.main(["--only", "3.13-3.5", "--place", str(tmp_path / "new")])
    assert "'3.13-3.5' is no pair that Spark supports" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_page_keeps_the_rows_of_what_did_not_run(matrix: ModuleType) -> None:
    def result(python: str, spark: str, outcome: str, skipped: bool = False) -> object:
        return matrix.Result(python=python, spark=spark, outcome=outcome, skipped=skipped)

    first = matrix.page(
        "", [result("3.11.7", "4.1.4", "9 passed"), result("3.10.2", "4.1.4", "8 passed"), result("3.13", "4.1", "-")]
    )
    again = [
        result("3.11.9", "4.1.5", "1 failed"),
        result("3.10", "4.1", "none", True),
        result("3.12", "3.5", "-", True),
    ]
    second = matrix.page(first, again)
    rows = re.findall(r"^\| (\d.*) \|$", second, re.MULTILINE)
    assert rows == ["3.12 | 3.5 | -", "3.10.2 | 4.1.4 | 8 passed", "3.11.9 | 4.1.5 | 1 failed", "3.13 | 4.1 | -"]


def test_the_lock_limits_all_but_spark(matrix: ModuleType) -> None:
    assert "pandas==2" in matrix.constraints("3.5")
    for spark in matrix.PYTHONS:
        lines = matrix.constraints(spark).splitlines()
        assert any(line.startswith("pyarrow==") for line in lines)
        assert not any(line.startswith(("pyspark==", "py4j==")) for line in lines)


def test_a_python_that_is_not_here_is_none(matrix: ModuleType) -> None:
    assert matrix.interpreter("3.99") is None
