"""The pages of benchmarks say what was measured, and where a figure misses its goal."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = {"script": "x.py", "name": "x", "title": "X", "case": "usual", "text": "A text.", "options": ""}

CLAIMS = (
    ("queries decode about 5 % of the rows", "engines-delta", "zskip_rows_decoded_pct", 4.5, 5.5),
    ("`OPTIMIZE ZORDER BY` 31 %", "engines-delta", "engine_rows_decoded_pct", 30.5, 31.5),
    ("a quarter of the time of `OPTIMIZE ZORDER BY`", "engines-delta", "time_over_engine", 0.2, 0.28),
    ("no longer than a plain copy", "clustering-lineitem", "sorted_over_copy", 0.5, 1.0),
    ("a third on tables with deletion vectors", "engines-delta-deletion-vectors", "time_over_engine", 0.28, 0.36),
    ("or position deletes", "engines-iceberg-position-deletes", "time_over_engine", 0.28, 0.36),
    ("it takes 1.15 times as long as a copy", "growth-rows", "optimize_over_copy", 1.1, 1.154),
    ("on Iceberg tables with deletes, 1.2 to", "engines-iceberg-v3", "time_over_copy", 1.15, 1.25),
    ("2.1 times", "engines-iceberg-equality-deletes", "time_over_copy", 2.05, 2.15),
)
"""What the README says, and where it was measured."""


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))


def test_the_pages_are_those_of_the_results() -> None:
    from pages.cells import Cells
    from pages.growth import growth_page
    from pages.write import benchmarks_page
    from shared.runs import all_runs, results

    runs = all_runs()
    assert max(Counter(run.name for run in runs).values()) == 1
    assert {run.case for run in runs} == {"plain", "usual", "hard"}
    assert results().keys() <= {run.name for run in runs}
    cells = Cells(runs, results())
    for name, text in (("benchmarks", benchmarks_page(cells)), ("growth", growth_page(cells))):
        assert (ROOT / "docs" / f"{name}.md").read_text() == text, "python3 dev.py bench --page"
        assert len(text.splitlines()) <= 250


def test_a_figure_that_misses_its_goal_is_marked() -> None:
    from pages.cells import Cells
    from shared.runs import Run

    run = Run(**RUN, goals={"*_s": ("<=", 1.1), "rows": ("=", 3), "never": ("<", 1)})
    figures = {"one_s": 1.1, "two_s": 5.0, "three_s": 0.5, "rows": 3, "other": 9}
    result = {"figures": figures, "command": "python bench/x.py", "machine": "M", "load": 0.5, "date": "2026-01-01"}
    line = Cells([run], {"x": result}).remaining(run)
    assert "python bench/x.py`; M, load 0.5; 2026-01-01. A text." in line
    assert "`two_s` **missed**: 5 (goal <= 1.1); `never` **missed**: not measured (goal < 1)" in line
    assert line.endswith("`*_s` 2 figures of 0.5 to 1.1 (<= 1.1); `rows` 3 (= 3).")


def test_scripts_that_docs_name_exist() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"bench/[\w/]+\.py", page.read_text())}
    assert "bench/planning.py" in named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_claims_of_the_readme_are_measured() -> None:
    from shared.runs import all_runs, results

    readme = " ".join((ROOT / "README.md").read_text().split())
    runs = {run.name for run in all_runs()}
    for claim, name, figure, low, high in CLAIMS:
        assert claim in readme, "change CLAIMS with the README"
        assert name in runs
        assert low <= results()[name]["figures"][figure] <= high, claim


def test_scripts_import_what_there_is() -> None:
    for path in sorted((ROOT / "bench").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zskip."):
                missing = {alias.name for alias in node.names} - names_of(node.module or "")
                assert missing == set(), f"{path.relative_to(ROOT)} imports {missing} from {node.module}"


@cache
def names_of(module: str) -> set[str]:
    """What a module defines or imports, and its own modules; nothing is run."""
    place = ROOT / "src" / module.replace(".", "/")
    page = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    names = {path.stem for path in place.glob("*")}
    for node in ast.parse(page.read_text()).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names
