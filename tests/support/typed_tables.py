"""Random tables with a column of each orderable type, in files of uneven sizes."""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS, FILES = 600, 12
MOST = 10**38 - 1
WIDE = Context(prec=50)
EXTREME_DAYS = [
    dt.date(1, 1, 1),
    dt.date(1582, 10, 15),
    dt.date(1900, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(9999, 12, 31),
]
STRUCT = pa.struct([("v", pa.int32()), ("w", pa.struct([("z", pa.string())]))])
WORDS = ["", "a", "ab", "abc", "b%", "é", "日本", "z'q", 'd"q', "x\\y", "\U0001f600"]


def random_table(rng: np.random.Generator) -> pa.Table:
    """Columns of each orderable type: sorted, so that files differ, with nulls, NaN and extremes."""
    base = np.sort(rng.integers(-50, 50, ROWS))

    def nulled(values: list[Any], kind: pa.DataType) -> pa.Array:
        share = rng.choice([0.0, 0.2])
        holes = (rng.random(ROWS) < share) | ((base > 20) & (base < 30) & (share > 0))
        return pa.array([None if h else v for v, h in zip(values, holes, strict=True)], kind)

    floats = base * rng.choice([0.5, 1e300, 1e-3])
    floats[rng.random(ROWS) < 0.03] = np.nan
    floats[base == 7] = -0.0
    day, zero = dt.date(2024, 1, 1), dt.datetime(2024, 3, 31)
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "i": nulled(base.tolist(), pa.int32()),
            "l": nulled((base * 2**40).tolist(), pa.int64()),
            "h": nulled((base % 128).tolist(), pa.int16()),
            "f": nulled(floats.tolist(), pa.float64()),
            "g": nulled(np.float32(base / 3).tolist(), pa.float32()),
            "d": nulled([day + dt.timedelta(days=int(b)) for b in base], pa.date32()),
            "t": nulled([zero + dt.timedelta(minutes=37 * int(b)) for b in base], pa.timestamp("us", "UTC")),
            "n": nulled([zero + dt.timedelta(hours=int(b)) for b in base], pa.timestamp("us")),
            "m": nulled([Decimal(int(b)) / 4 for b in base], pa.decimal128(9, 2)),
            "w": nulled([Decimal(int(b)) * 10**20 for b in base], pa.decimal128(30, 1)),
            "s": nulled([WORDS[int(b) // 10 + 5] + str(b % 3) for b in base], pa.string()),
            "y": nulled([WORDS[int(b) // 10 + 5].encode() for b in base], pa.binary()),
            "b": nulled((base > 3).tolist(), pa.bool_()),
            "k": nulled([Decimal(MOST * int(b) // 50).scaleb(-5, WIDE) for b in base], pa.decimal128(38, 5)),
            "e": nulled([EXTREME_DAYS[(int(b) + 50) // 21] for b in base], pa.date32()),
            "x": nulled([b"\xff" * ((int(b) + 50) // 10) + bytes([int(b) % 3]) for b in base], pa.binary()),
            "q": nulled([f"{'long ' * 30}{int(b):+04d}" for b in base], pa.string()),
            "u": nulled([{"v": int(b), "w": {"z": f"z{int(b) // 10}"}} for b in base], STRUCT),
            "v": nulled((base * 3 % 50).tolist(), pa.int32()),
        }
    )


def write_files(table: pa.Table, path: Path, rng: np.random.Generator) -> None:
    """Files of uneven sizes, one of them empty and one of a single row."""
    path.mkdir()
    cuts = [0, 0, 1, *np.sort(rng.choice(range(2, ROWS), FILES - 3, replace=False)).tolist(), ROWS]
    for i in range(FILES):
        part = table.slice(cuts[i], cuts[i + 1] - cuts[i])
        pq.write_table(part, path / f"{i:03d}.parquet", row_group_size=20)
