"""The demo: the same answers before and after, and a difference is found where there is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zskip.demo import run, run_demo


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_ends_with_identical_results(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_BYTES_PER_FILE", 150_000)
    shown: list[Path] = []
    assert run_demo(0.02, str(tmp_path / "kept"), as_json=True, show=shown.append)
    document = json.loads(capsys.readouterr().out)
    assert document["identical"] is True
    assert len(document["queries"]) >= 10
    assert all(query["identical"] for query in document["queries"])
    assert sum(query["bytes"] for query in document["queries"]) < sum(q["bytes_total"] for q in document["queries"])
    assert all(result["files_after"] > 0 for result in document["optimize"])
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["lineitem", "orders"]
    assert shown == [tmp_path / "kept-report.html"] == [Path(document["report"])]
    assert "queries could not be used" in shown[0].read_text()  # those of orders alone


def test_a_difference_is_seen() -> None:
    nan = float("nan")
    assert run.same_rows([("a", nan, None)], [("a", nan, None)])
    assert not run.same_rows([("a", 1.0)], [("a", 1.00001)])
    assert not run.same_rows([("a", None)], [("a", 0)])
    assert not run.same_rows([("a",)], [("a",), ("a",)])
    assert not run.same_rows([("a", 1)], [("a",)])
