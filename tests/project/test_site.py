"""The site: the tutorial prints what it says, its notebook is the same, and no link of any page is dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the site is built in the developer's environment")
sys.path.insert(0, str(Path(__file__).parent))
import tutorial  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def test_the_notebook_is_the_tutorial() -> None:
    text = tutorial.NOTEBOOK.read_text("utf-8")
    assert text == nbformat.writes(tutorial.notebook()) + "\n", "run python tests/project/tutorial.py"
    kept = nbformat.reads(text, as_version=4)
    assert [cell["source"] for cell in kept["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in kept["cells"])


@pytest.mark.spark
@pytest.mark.slow
def test_the_tutorial_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zskip.spark.jvm.java import ensure_java

    ensure_java()
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    printed = tutorial.run(tmp_path)
    for said, found in zip(tutorial.expected(), printed, strict=True):
        assert [line.rstrip() for line in found.splitlines()] == said.splitlines()
    for name in ("before.html", "after.html"):
        assert (tmp_path / name).stat().st_size > 1_000_000


@pytest.mark.slow
def test_the_site_has_all_pages_and_no_dead_link(tmp_path: Path) -> None:
    """Strict: a page that is in no menu, a link or an anchor that leads nowhere are failures."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site"), "--quiet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    api = (tmp_path / "site" / "api.html").read_text()
    for name in ("optimize", "maintain", "report", "verify"):
        assert f'id="zskip.table.table.Table.{name}"' in api, name
    assert (tmp_path / "site" / "pictures" / "before.png").exists()
