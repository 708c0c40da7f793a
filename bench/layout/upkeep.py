"""Planning maintenance of a table of a million files, from its index alone: what a dry run takes.

python bench/layout/upkeep.py --files 1000000

Files are boxes of 100 by 100 by 100 in three columns, and every fiftieth lies across everything, as new ones do. `mb`
is what the process grows by, beside the list of the files and the libraries.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared import common
from shared.index_data import keep, make_index, read_snapshot
from zskip.formats.parquet.format import ParquetFormat

SIDE, WIDTH = 100, 10_000_000


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=1_000_000, only="", make="")
    if options.make:
        ends = boxes(options.files, options.seed)
        keep(Path(options.make), make_index(options.make, options.files, len(ends), options.seed, ends))
    elif options.only:
        print(json.dumps(planned(common.HOME / "upkeep")))
    else:
        given = [f"--files={options.files}", f"--seed={options.seed}"]
        figures = common.in_a_process(__file__, "plan", given, common.HOME / "upkeep")
        common.emit({"machine": common.machine(), **figures}, options.json)


def boxes(files: int, seed: int) -> list[tuple[Any, Any]]:
    """The bounds of the files in each column."""
    rng = np.random.default_rng(seed)
    places = np.arange(files)
    new = rng.choice(files, files // 50, replace=False)
    found: list[tuple[Any, Any]] = []
    for number, step in enumerate((SIDE * SIDE, SIDE, 1)):
        lower = places // step % SIDE * (WIDTH // SIDE)
        upper = lower + WIDTH // SIDE - 1
        lower[new] = rng.integers(0, WIDTH // 50, len(new))
        upper[new] = WIDTH - rng.integers(0, WIDTH // 50, len(new))
        # The third column is of doubles.
        found.append((lower, upper) if number < 2 else (lower.astype(np.float64), upper.astype(np.float64)))
    return found


def planned(path: Path) -> dict[str, Any]:
    """A dry run on a table of which only the index and the list of files exist."""
    import zskip

    snapshot = read_snapshot(path)
    ParquetFormat.snapshot = lambda self: snapshot  # type: ignore[method-assign]
    table = zskip.open(str(path), format="parquet")
    before = common.resident()
    found: list[Any] = []
    by = [field.name for field in snapshot.fields]
    took = common.seconds(lambda: found.append(table.maintain(by=by, target_file_size="50MB", dry_run=True)))
    return {
        "files": len(snapshot),
        "plan_s": round(took, 2),
        "mb": round(common.peak() - before, 1),
        "files_to_rewrite": found[0].files_removed,
        "kept_before_pct": round(100 * found[0].kept_before, 2),
        "kept_after_pct": round(100 * found[0].kept_after, 2),
    }


if __name__ == "__main__":
    main()
