"""Run the benchmarks, compare figures with goals, keep the figures in bench/results, and write the pages from there.

python3 dev.py bench [WORD ...] [--all] [--page] [--list]

Ends with 1 if a figure that was measured misses its goal.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
from typing import Any

from pages.write import write_pages
from shared.runs import BENCH, Figures, Run, all_runs, compare, results, save

ROOT = BENCH.parent


def main(arguments: list[str]) -> int:
    """Run what is asked for, one process each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only runs with one of these words in name, title or script")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="the same")
    parser.add_argument("--all", action="store_true", help="also what takes hours, which a word names, too")
    parser.add_argument("--page", action="store_true", help="run nothing; write the pages again")
    parser.add_argument("--list", action="store_true", help="run nothing; list the runs")
    options = parser.parse_args(arguments)
    words = [word.lower() for word in (*options.words, *options.only)]
    runs = all_runs()
    chosen = [run for run in runs if is_chosen(run, words, options.all)]
    if options.list:
        print("\n".join(f"{run.name:<32} {run.case:<6} {run.command}" for run in chosen))
        return 0
    misses = [] if options.page else [miss for run in chosen for miss in missed(run)]
    for page in write_pages(runs, results()):
        print(f"wrote {page.relative_to(ROOT)}")
    print("\n".join(misses))
    return 1 if misses else 0


def is_chosen(run: Run, words: list[str], all_of_them: bool) -> bool:
    """Whether to run this; without words all but what takes hours."""
    if not words:
        return all_of_them or not run.hours
    return any(word in f"{run.name} {run.title} {run.script}".lower() for word in words)


def missed(run: Run) -> list[str]:
    """Run a script and keep its figures; a line for each that misses its goal."""
    print(run.command, file=sys.stderr, flush=True)
    goals = compare(run, measure(run)["figures"])
    return [f"{run.name}: {goal.figure} is {goal.value} (goal {goal.text})" for goal in goals if not goal.is_met]


def measure(run: Run) -> Figures:
    """The result of a script, run in a process of its own and kept."""
    python = ROOT / ".venv-spark35" / "bin" / "python" if "hudi" in run.options else sys.executable
    command = [str(python), str(BENCH / run.script), *run.options.split(), "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    printed = json.loads(done.stdout.splitlines()[-1])
    result = {
        "name": run.name,
        "command": f"python {run.command}",
        "machine": printed.pop("machine"),
        "load": printed.pop("load"),
        "date": dt.date.today().isoformat(),
        "commit": commit(),
        **({"series": printed.pop("series")} if "series" in printed else {}),
        "figures": flat(printed),
    }
    save(result)
    return result


def commit() -> str:
    """The commit that is measured, with a mark if files differ from it."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()


def flat(figures: Figures) -> Figures:
    """Figures of parts under the part's name and their own."""
    named: dict[str, Any] = {}
    for name, value in figures.items():
        named |= {f"{name}_{part}": v for part, v in value.items()} if isinstance(value, dict) else {name: value}
    return named


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
