"""The tables that benchmarks cluster: TPC-H lineitem, and the connections of a network."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shared import common

WELL_KNOWN = (22, 25, 53, 80, 110, 123, 143, 161, 389, 443, 587, 636, 993, 995, 1883, 3306, 5432, 6379, 8080, 8443)
DAYS, HOSTS, PARTS = 30, 1_000_000, 16
MIXES = {"even": (1.0, 1.0, 1.0), "first": (6.0, 1.0, 1.0), "last": (1.0, 1.0, 6.0)}
"""How likely queries on each column are."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """What a benchmark has to know of a table."""

    make: Callable[[float], Path]
    """The directory of Parquet files of a scale, made once."""
    by: tuple[str, str, str]
    summed: str
    """A number that queries add up."""
    text: str
    """A long column that only some queries read."""
    key: str
    """Columns that name a row, with commas between."""


def connections(scale: float) -> Path:
    """Connections of a month in the order in which they were seen, 4,000,000 a scale factor, in 16 files.

    Any address connects, to a million hosts of which few are asked for most (Zipf, 1.3), four times in five at a
    well-known port.
    """
    target = common.HOME / f"connections-sf{scale:g}"
    if target.exists():
        return target
    common.log(f"making connections, scale factor {scale:g}")
    staging = common.HOME / f"staging-connections-sf{scale:g}"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    random = np.random.default_rng(42)
    hosts = random.integers(0, 2**32, HOSTS)
    rows = int(4_000_000 * scale / PARTS)
    span = DAYS * 86_400_000_000 // PARTS
    for part in range(PARTS):
        begun = 1_700_000_000_000_000 + part * span + np.sort(random.integers(0, span, rows))
        late = (random.exponential(600e6, rows)).astype(np.int64)
        ports = np.where(
            random.random(rows) < 0.8, random.choice(WELL_KNOWN, rows), random.integers(1_024, 65_536, rows)
        )
        held = {
            "src_ip": random.integers(0, 2**32, rows),
            "src_port": random.integers(0, 65_536, rows).astype(np.int32),
            "dst_ip": hosts[np.minimum(random.zipf(1.3, rows), HOSTS) - 1],
            "dst_port": ports.astype(np.int32),
            "ts": pa.array(begun + late, pa.timestamp("us", tz="UTC")),
            "bytes": random.lognormal(7, 2, rows).astype(np.int64),
            "payload": [random.bytes(10).hex() for _ in range(rows)],
        }
        pq.write_table(pa.table(held), staging / f"part-{part:02d}.parquet", compression="zstd")
    staging.rename(target)
    return target


def mix(source: Path, table: Table, weights: tuple[float, ...], seed: int) -> tuple[list[str], list[str]]:
    """100 queries to train with and 100 to measure: drawn from many by the weights of their columns."""
    rng = np.random.default_rng(seed)
    wanted = common.queries(source, table.by, 1_500, seed)
    chances = np.array([max(w for c, w in zip(table.by, weights, strict=True) if c in q) for q in wanted])
    chances *= [0.2 if q.count("BETWEEN") == 2 and max(weights) > 1 else 1.0 for q in wanted]
    taken = rng.choice(len(wanted), 200, replace=False, p=chances / chances.sum()).tolist()
    return [wanted[i] for i in taken[:100]], [wanted[i] for i in taken[100:]]


TABLES = {
    "lineitem": Table(
        make=common.lineitem,
        by=("l_partkey", "l_suppkey", "l_shipdate"),
        summed="l_extendedprice",
        text="l_comment",
        key="l_orderkey,l_linenumber",
    ),
    "connections": Table(
        make=connections, by=("src_ip", "dst_ip", "ts"), summed="bytes", text="payload", key="src_ip,src_port,ts"
    ),
}
