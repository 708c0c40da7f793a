"""How long it takes before anything happens: `import zskip` and `zskip --help`, beside a Python that does nothing.

python bench/startup.py --rounds 30
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from shared import common

CALLS = {
    "python": ["-c", "pass"],
    "import": ["-c", "import zskip"],
    "help": ["-c", "from zskip.cli import main; main()", "--help"],
}
"""`help` is what the installed command runs."""


def main() -> None:
    """Start each in turns, in fresh processes, and print medians."""
    options = common.arguments(__doc__ or "", rounds=30)
    took: dict[str, list[float]] = {name: [] for name in CALLS}
    busy: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(options.rounds + 1):
        for name, call in CALLS.items():
            before = processor_seconds()
            took[name].append(1000 * common.seconds(lambda call=call: start(call)))
            busy[name].append(1000 * (processor_seconds() - before))
    figures: dict[str, Any] = {"machine": common.machine(), "rounds": options.rounds}
    for name in CALLS:
        figures[f"{name}_ms"] = common.median(took[name][1:])  # The first finds nothing in the caches of the disk.
        figures[f"{name}_least_ms"] = round(min(took[name][1:]), 3)
        figures[f"{name}_cpu_ms"] = common.median(busy[name][1:])
    common.emit(figures, options.json)


def processor_seconds() -> float:
    """What all processes that have ended took of the processors."""
    spent = os.times()
    return spent.children_user + spent.children_system


def start(call: list[str]) -> None:
    """Run one to its end; raises where it fails."""
    subprocess.run([sys.executable, *call], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
