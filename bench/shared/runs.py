"""What the scripts are run for, what their figures should be, and what they were.

A script says in `RUNS`, a list of literals, what stands on the pages: name, title, case (plain, usual or hard), text,
options, and goals: a figure, or a pattern of figures, with an operator and a limit. What an entry leaves out is that of
the entry before it. `hours` marks what takes hours; `shown` are the figures in docs/growth.md.
"""

from __future__ import annotations

import ast
import json
import operator
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
RESULTS = BENCH / "results"
OPERATORS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge}

Figures = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A script with options."""

    script: str
    name: str
    title: str
    case: str
    text: str
    options: str
    goals: dict[str, tuple[str, Any]]
    hours: bool = False
    shown: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        return f"bench/{self.script} {self.options}"


@dataclass(frozen=True)
class Goal:
    """What one figure should be, and what it is: None if it was not measured."""

    figure: str
    pattern: str
    text: str
    value: Any
    is_met: bool


def all_runs() -> list[Run]:
    """The runs of all scripts, none of which is imported."""
    runs = []
    for path in sorted(BENCH.rglob("*.py")):
        before: Figures = {}
        for entry in literal(path, "RUNS") or ():
            before |= entry
            runs.append(Run(script=path.relative_to(BENCH).as_posix(), **before))
    return runs


def literal(path: Path, name: str) -> Any:
    """The value of a literal at the top of a module; None if there is none."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return ast.literal_eval(node.value)
    return None


def compare(run: Run, figures: Figures) -> list[Goal]:
    """Each figure of a run that has a goal."""
    goals = []
    for pattern, (sign, limit) in run.goals.items():
        for name in [name for name in figures if fnmatchcase(name, pattern)] or [pattern]:
            value = figures.get(name)
            is_met = value is not None and bool(OPERATORS[sign](value, limit))
            goals.append(Goal(name, pattern, f"{sign} {limit}", value, is_met))
    return goals


def save(result: Figures) -> None:
    """Write a result in place of the last one of its name, a line for each figure."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=1)
    short = re.sub(r"\[\s+([^\[\]]*?)\s+\]", lambda lines: f"[{' '.join(lines[1].split())}]", text)
    (RESULTS / f"{result['name']}.json").write_text(short + "\n")


def results() -> dict[str, Figures]:
    """The results that were kept, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
