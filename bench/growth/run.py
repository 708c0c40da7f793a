"""Run the benchmarks of growth that take minutes, or all, one process each, and write the page.

python3 dev.py bench growth [--all] [WORD ...]
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

MINUTES = (
    "history.py --format parquet --appends 1000",
    "history.py --format delta --appends 400",
    "history.py --format iceberg --appends 400",
    "files.py --sizes 1000,3000,10000,30000",
    "columns.py --sizes 10,30,100,300,1000",
    "session.py --queries 400",
    "rows.py --scales 0.03,0.1,0.3,1",
    "workers.py --scale 0.3 --files 16",
    "concurrency.py --minutes 2",
)
ALL = (
    "history.py --format parquet --appends 10000",
    "history.py --format delta --appends 2000",
    "history.py --format iceberg --appends 2000",
    "files.py --sizes 1000,10000,100000,1000000",
    "columns.py --sizes 10,50,200,1000,5000",
    "session.py --queries 50000",
    "rows.py --scales 1,10,30,100",
    "workers.py --scale 10 --files 128",
    "concurrency.py --minutes 60",
)


def main(words: list[str]) -> None:
    """Run those with one of the words in their command, or all."""
    commands = ALL if "--all" in words else MINUTES
    words = [word for word in words if word != "--all"]
    for command in commands:
        if not words or any(word in command for word in words):
            print(f"bench/growth/{command}", file=sys.stderr, flush=True)
            script, *options = command.split()
            subprocess.run([sys.executable, str(HERE / script), *options], check=True)
    subprocess.run([sys.executable, str(HERE / "page.py")], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
