"""Figures, tables and lists of goals as the pages show them."""

from __future__ import annotations

from collections.abc import Sequence

from pages.tables import Table
from shared.runs import Figures, Goal, Run, compare

JSON = "https://github.com/zskip/zskip/blob/main/bench/results"


class Cells:
    """Figures as the pages show them."""

    def __init__(self, runs: Sequence[Run], results: dict[str, Figures]) -> None:
        self.runs = {run.name: run for run in runs}
        self.results = results
        self._figures = {name: results.get(name, {}).get("figures", {}) for name in self.runs}
        self.goals = {name: {g.figure: g for g in compare(run, self._figures[name])} for name, run in self.runs.items()}
        self._shown: set[tuple[str, str]] = set()
        self._texts: set[str] = set()

    def figure(self, name: str, figure: str) -> str:
        """A figure of a run, marked if it misses its goal."""
        self._shown.add((name, figure))
        if goal := self.goals[name].get(figure):
            return goal_text(goal)
        return shown(self._figures[name].get(figure))

    def section(self, table: Table) -> str:
        """A table below its title, and above the runs that it is of."""
        lines = [f"## {table.title}", "", table.text, ""] if table.title else []
        lines += [f"| {' | '.join(table.columns)} |", "|---" * len(table.columns) + "|"]
        for label, name, figures in table.rows:
            cells = [
                " / ".join(self.figure(name, one) for one in part.split(" & ")) if name else part for part in figures
            ]
            lines.append(f"| {label} | {' | '.join(cells)} |")
        names = dict.fromkeys(name for _, name, _ in table.rows if name)
        return "\n".join([*lines, "", *(self.source(name) for name in names)])

    def source(self, name: str) -> str:
        """The command, the machine and the file of a run."""
        result = self.results.get(name)
        if result is None:
            return f"- `python {self.runs[name].command}` was not run yet."
        load = "" if result["load"] is None else f", load {result['load']}"
        notes = f" {result['notes']}" if "notes" in result else ""
        facts = f"`{result['command']}`; {result['machine']}{load}; {result['date']}.{notes}"
        return f"- [{name}]({JSON}/{name}.json): {facts}"

    def remaining(self, run: Run) -> str:
        """A line with the goals of a run whose figures stand in no table."""
        goals = [goal for goal in self.goals[run.name].values() if (run.name, goal.figure) not in self._shown]
        if not goals:
            return ""
        missed = [f"`{goal.figure}` {goal_text(goal)}" for goal in goals if not goal.is_met]
        texts = missed + [
            met(pattern, goals) for pattern in run.goals if any(g.is_met for g in goals if g.pattern == pattern)
        ]
        source = self.source(run.name).replace(f"[{run.name}]", f"**{run.title}** ({run.case} case) [{run.name}]", 1)
        text = "" if run.text in self._texts else f" {run.text}"
        self._texts.add(run.text)
        return f"{source}{text}\n  {'; '.join(texts)}."


def met(pattern: str, goals: Sequence[Goal]) -> str:
    """Figures with one goal that meet it."""
    some = [goal for goal in goals if goal.pattern == pattern and goal.is_met]
    if len(some) == 1:
        return f"`{some[0].figure}` {goal_text(some[0])}"
    values = sorted(goal.value for goal in some)
    ends = dict.fromkeys((shown(values[0]), shown(values[-1])))
    return f"`{pattern}` {len(some)} figures of {' to '.join(ends)} ({some[0].text})"


def goal_text(goal: Goal) -> str:
    """A figure that has a goal."""
    if goal.is_met:
        return f"{shown(goal.value)} ({goal.text})"
    value = "not measured" if goal.value is None else shown(goal.value)
    return f"**missed**: {value} (goal {goal.text})"


def shown(value: object) -> str:
    """A figure as people read it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value + 0.0:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
