"""Tables that benchmarks read, made once below `HOME`, and random queries of them."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from shared.measure import log

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("ZSKIP_BENCH_HOME") or ROOT / ".bench")
CLUSTER_BY = ["l_partkey", "l_suppkey", "l_shipdate"]
EPOCH = dt.date(1970, 1, 1)
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


def emptied(path: Path) -> Path:
    """An empty directory in place of what was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def once(path: Path, make: Callable[[Path], Any]) -> Path:
    """A directory that is made once, beside its place, and moved there when it is complete."""
    if not path.exists():
        log(f"making {path.name}")
        staging = emptied(path.with_name(f"staging-{path.name}"))
        make(staging)
        staging.rename(path)
    return path


def connections(scale: float) -> Path:
    """Connections of a month in the order in which they were seen, 4,000,000 a scale factor, in 16 files.

    Any address connects, to a million hosts of which few are asked for most (Zipf, 1.3), four times in five at a
    well-known port.
    """
    rows, span = int(4_000_000 * scale / PARTS), DAYS * 86_400_000_000 // PARTS

    def make(directory: Path) -> None:
        random = np.random.default_rng(42)
        hosts = random.integers(0, 2**32, HOSTS)
        for part in range(PARTS):
            begun = 1_700_000_000_000_000 + part * span + np.sort(random.integers(0, span, rows))
            late = (random.exponential(600e6, rows)).astype(np.int64)
            is_known = random.random(rows) < 0.8
            ports = np.where(is_known, random.choice(WELL_KNOWN, rows), random.integers(1_024, 65_536, rows))
            columns = {
                "src_ip": random.integers(0, 2**32, rows),
                "src_port": random.integers(0, 65_536, rows).astype(np.int32),
                "dst_ip": hosts[np.minimum(random.zipf(1.3, rows), HOSTS) - 1],
                "dst_port": ports.astype(np.int32),
                "ts": pa.array(begun + late, pa.timestamp("us", tz="UTC")),
                "bytes": random.lognormal(7, 2, rows).astype(np.int64),
                "payload": [random.bytes(10).hex() for _ in range(rows)],
            }
            pq.write_table(pa.table(columns), directory / f"part-{part:02d}.parquet", compression="zstd")

    return once(HOME / f"connections-sf{scale:g}", make)


def mix(source: Path, table: Table, weights: tuple[float, ...], seed: int) -> tuple[list[str], list[str]]:
    """100 queries to train with and 100 to measure: drawn from many by the weights of their columns."""
    rng = np.random.default_rng(seed)
    wanted = random_queries(source, table.by, 1_500, seed)
    chances = np.array([max(w for c, w in zip(table.by, weights, strict=True) if c in q) for q in wanted])
    chances *= [0.2 if q.count("BETWEEN") == 2 and max(weights) > 1 else 1.0 for q in wanted]
    taken = rng.choice(len(wanted), 200, replace=False, p=chances / chances.sum()).tolist()
    return [wanted[i] for i in taken[:100]], [wanted[i] for i in taken[100:]]


def lineitem(scale: float) -> Path:
    """TPC-H lineitem of a scale factor as a directory of 16 Parquet files, made once."""

    def make(directory: Path) -> None:
        generate(directory, scale, "lineitem", 16)
        for file in list(directory.rglob("*.parquet")):
            file.rename(directory / file.name)

    return once(HOME / f"lineitem-sf{scale:g}", make)


def generate(directory: Path, scale: float, table: str, parts: int) -> None:
    """Write a table of TPC-H as a directory of Parquet files."""
    tool = Path(sys.executable).with_name("tpchgen-cli")
    place = [directory / table] if parts == 1 else [directory, "--parts", parts]
    command = [tool, "parquet", "-s", f"{scale:g}", "-T", table, "-o", *place]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read_whole(files: Sequence[Path]) -> pa.Table:
    """The rows of some files, with texts of the type that can be taken apart."""
    rows = pa.concat_tables([pq.read_table(file) for file in files])
    views = pa.types.is_string_view
    return rows.cast(pa.schema([field.with_type(pa.string()) if views(field.type) else field for field in rows.schema]))


def link_files(source: Path, path: Path, most: int | None = None) -> Path:
    """Give a new directory the same files, or some of them; links cost nothing."""
    emptied(path)
    for file in islice(source.glob("*.parquet"), most):
        os.link(file, path / file.name)
    return path


def random_queries(path: Path, columns: Sequence[str], count: int, seed: int) -> list[str]:
    """Random predicates: 35 % equality, 30 % one range of 0.1-5 %, 35 % two ranges of 1-20 % of the rows."""
    rng = np.random.default_rng(seed)
    table = ds.dataset(path, format="parquet").to_table(columns=list(columns))
    taken = table.take(np.sort(rng.choice(table.num_rows, min(400_000, table.num_rows), replace=False)))
    values = {name: np.sort(_whole(taken[name])) for name in columns}
    kinds = {name: str(table.schema.field(name).type)[:4] for name in columns}

    def literal(name: str, value: int) -> str:
        if kinds[name] == "date":
            return f"DATE '{EPOCH + dt.timedelta(days=int(value))}'"
        if kinds[name] == "time":
            return f"TIMESTAMP '{dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(value))}'"
        return str(int(value))

    def between(name: str, low: float, high: float) -> str:
        share = float(np.exp(rng.uniform(np.log(low), np.log(high))))
        start, n = rng.random() * (1 - share), len(values[name]) - 1
        first, last = values[name][int(start * n)], values[name][int((start + share) * n)]
        return f"{name} BETWEEN {literal(name, first)} AND {literal(name, last)}"

    result = []
    for _ in range(count):
        kind = rng.random()
        if kind < 0.35:
            name = columns[rng.integers(2)]
            result.append(f"{name} = {literal(name, rng.choice(values[name]))}")
        elif kind < 0.65:
            result.append(between(columns[rng.integers(len(columns))], 0.001, 0.05))
        else:
            pair = rng.permutation(len(columns))[:2]
            result.append(" AND ".join(between(columns[i], 0.01, 0.2) for i in pair))
    return result


def _whole(column: Any) -> np.ndarray:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return np.asarray(column.to_numpy(), dtype=np.int64)


TABLES = {
    "lineitem": Table(
        make=lineitem,
        by=("l_partkey", "l_suppkey", "l_shipdate"),
        summed="l_extendedprice",
        text="l_comment",
        key="l_orderkey,l_linenumber",
    ),
    "connections": Table(
        make=connections, by=("src_ip", "dst_ip", "ts"), summed="bytes", text="payload", key="src_ip,src_port,ts"
    ),
}
