"""Write docs/benchmarks.md and docs/growth.md from bench/results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pages.cells import JSON, Cells
from pages.growth import growth_page
from pages.tables import TABLES
from shared.runs import BENCH, Figures, Run

DOCS = BENCH.parent / "docs"
INTRODUCTION = """# Benchmarks

Written by `python3 dev.py bench` from the files in [`bench/results`]({results}), which hold all figures:
{met} of {goals} goals are met. A figure that misses its goal says so where it stands. Ratios are taken side by side in
one run, since machines are noisy. The load of a machine is the mean number of busy processes in the quarter of an hour
before: if it is above the number of cores, seconds are those of a busy machine. `python3 dev.py bench WORD` repeats the
runs with a word in their names, and `--list` lists them. [How it grows](growth.md) shows what depends on the size of a
table."""


def write_pages(runs: Sequence[Run], results: dict[str, Figures]) -> list[Path]:
    """Write both; returns their paths."""
    cells = Cells(runs, results)
    pages = {"benchmarks.md": benchmarks_page(cells), "growth.md": growth_page(cells)}
    for name, text in pages.items():
        (DOCS / name).write_text(text)
    return [DOCS / name for name in pages]


def benchmarks_page(cells: Cells) -> str:
    """The text of docs/benchmarks.md: some tables, then all other figures that have goals."""
    goals = [goal for each in cells.goals.values() for goal in each.values()]
    results = JSON.replace("/blob/", "/tree/")
    parts = [INTRODUCTION.format(results=results, met=sum(goal.is_met for goal in goals), goals=len(goals))]
    parts += [cells.section(table) for table in TABLES]
    rest = [line for run in cells.runs.values() if (line := cells.remaining(run))]
    return "\n\n".join([*parts, "## All other figures that have goals", "\n".join(rest)]) + "\n"
