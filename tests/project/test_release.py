"""What a release needs: one version everywhere, and workflows that call dev.py and nothing of their own."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import scripts

import zskip

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return scripts.load(ROOT / "tests" / "project" / "release.py")


def test_all_places_speak_of_one_version(release: ModuleType) -> None:
    assert release.disagreements(f"v{zskip.__version__}") == []


def test_a_tag_that_differs_is_refused_before_anything_is_built(
    release: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release.subprocess, "run", lambda *_, **__: pytest.fail("it builds"))
    assert release.main(["--tag", "v99.0.0"]) == 1
    said = capsys.readouterr().err
    assert all(place in said for place in release.PLACES)


def test_a_version_without_a_date_is_no_version(release: ModuleType, tmp_path: Path) -> None:
    for place in release.PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text((ROOT / place).read_text())
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.1.0\n")
    found = release.disagreements(f"v{zskip.__version__}", tmp_path)
    assert found == [f"CHANGELOG.md says no version, the tag is v{zskip.__version__}"]


def test_workflows_call_the_tasks_of_dev_py() -> None:
    sys.path.insert(0, str(ROOT))
    try:
        import dev
    finally:
        sys.path.remove(str(ROOT))
    pages = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [page.name for page in pages] == ["ci.yml", "nightly.yml", "release.yml", "site.yml"]
    # What publishes the site that a task has built is git and mike.
    commands = [found for page in pages for found in re.findall(r"run: (?!\||\.venv/bin/mike)(.*)", page.read_text())]
    assert len(commands) >= 6
    for command in commands:
        task = re.match(r"python dev\.py (\S+)", command)
        assert task, command
        assert task[1] in dev.TASKS
