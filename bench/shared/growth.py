"""What the benchmarks of growth share: results that are kept as JSON, and slopes through them.

A result lies in `bench/growth/results/<name>.json`: the command, the seed and the machine, and a row for each size. The
slope of a figure is the exponent of the power of the size that fits it best (least squares of the logarithms): 1 grows
as the size does, 0 not at all.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shared import common

RESULTS = common.ROOT / "bench" / "growth" / "results"
Row = dict[str, Any]


def keep(name: str, size: str, rows: Sequence[Row], seed: int, **more: Any) -> Row:
    """Write the result of a benchmark, in place of its last one, and return it.

    size: the name of the figure that grows; rows: one a size.
    """
    script = Path(sys.argv[0]).resolve().relative_to(common.ROOT)
    command = shlex.join(["python", str(script), *(word for word in sys.argv[1:] if word != "--json")])
    result = {"command": command, "seed": seed, "machine": common.machine(), "size": size, **more, "rows": list(rows)}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def results() -> dict[str, Row]:
    """All results that were kept, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


LARGEST = 3
"""Of so many sizes the slope is taken alone, too: small ones show what every size costs."""


def slope(result: Row, figure: str, largest: int | None = None) -> float | None:
    """The exponent of a figure, or of its largest sizes alone; None for fewer than four sizes with one above 0."""
    points = [(row[result["size"]], row[figure]) for row in result["rows"] if row.get(figure, 0) > 0]
    if len(points) < 4:
        return None
    points = points[-largest:] if largest else points
    sizes, values = np.log(np.array(points, float)).T
    return float(np.polyfit(sizes, values, 1)[0])


def at(result: Row, figure: str, size: float) -> float:
    """What the slope of the largest sizes says of a figure at another one, from the largest that was measured."""
    last = [row for row in result["rows"] if row.get(figure, 0) > 0][-1]
    return float(last[figure]) * (size / last[result["size"]]) ** max(slope(result, figure, LARGEST) or 0.0, 0.0)


def rounded(figures: Row) -> Row:
    """Floats with four digits that count."""
    return {name: float(f"{v:.4g}") if isinstance(v, float) and math.isfinite(v) else v for name, v in figures.items()}
