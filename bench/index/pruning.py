"""Pruning by a large predicate over many files, and what `Table.info()` tells of a million.

python bench/index/pruning.py --files 100000 --listed 10000
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from shared.common import arguments, emit, median, seconds
from zskip.predicate import Columns, parse
from zskip.prune import clustering, prune
from zskip.records import ColumnStats, Field
from zskip.types import DataType

TYPES = ("long", "date", "double", "decimal(12,2)", "string")
ROUNDS = 7


def main() -> None:
    """Print the figures of one run."""
    options = arguments(__doc__ or "", files=100_000, listed=10_000, info_files=1_000_000)
    rng = np.random.default_rng(options.seed)
    stats = {f"c{i}": column(rng, TYPES[i % len(TYPES)], options.files) for i in range(19)}
    columns = Columns([Field(name=name, type=known.type) for name, known in stats.items()])
    listed = ", ".join(map(str, rng.choice(10**9, options.listed, replace=False).tolist()))
    conjuncts = [f"c0 IN ({listed})", *(leaf(name, known.type.name) for name, known in stats.items())]
    predicate = parse(" AND ".join(conjuncts), columns)
    source = SimpleNamespace(rows=np.full(options.files, 1000), column=lambda path: stats[path[0]])
    result = prune(predicate, source)
    figures: dict[str, Any] = {
        "leaves": len(result.leaves),
        "listed": options.listed,
        "files": options.files,
        "files_kept": result.files,
        "prune_ms": 1000 * median([seconds(lambda: prune(predicate, source)) for _ in range(ROUNDS)]),
    }
    for type_name in ("long", "string"):
        known = column(rng, type_name, options.info_files)
        took = [seconds(lambda known=known: clustering("c", known)) for _ in range(3)]
        figures[f"clustering_{type_name}_s"] = median(took)
    emit(figures, options.json)


def column(rng: np.random.Generator, type_name: str, files: int) -> ColumnStats:
    """Random ranges of a thousandth of the domain."""
    lower = rng.integers(0, 10**9, files)
    upper = lower + rng.integers(0, 10**6, files)
    if type_name == "string":
        lower, upper = (np.array([b"%012d" % x for x in ends.tolist()], object) for ends in (lower, upper))
    elif type_name == "double":
        lower, upper = lower.astype(np.float64), upper.astype(np.float64)
    elif type_name == "date":
        lower, upper = lower % 20_000, lower % 20_000 + upper % 20
    no = np.zeros(files, np.bool_)
    return ColumnStats(
        type=DataType(type_name), lower=lower, upper=upper, bounded=~no, nulls=np.zeros(files, np.int64), may_nan=no
    )


def leaf(name: str, type_name: str) -> str:
    """A conjunct that some nine tenths of the files may hold a match for."""
    return {
        "long": f"{name} < 900000000",
        "date": f"{name} >= DATE '1975-06-01'",
        "double": f"{name} > 1e8",
        "decimal(12,2)": f"{name} <= 9000000.00",
        "string": f"{name} > '000100000000'",
    }[type_name]


if __name__ == "__main__":
    main()
