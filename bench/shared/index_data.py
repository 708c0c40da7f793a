"""Indexes of made-up tables: the bounds that footers of such files would hold.

Each column has a type and a domain of its own, and each file the least and the greatest of some thousand values drawn
from it, so that the low digits of all bounds are random: integers below 10^3 to 10^12, timestamps of some years,
doubles, decimals of two digits, dates of ten years, strings of 6 to 20 letters or hexadecimal digits. Every third
column has no nulls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zskip.index import Index
from zskip.index.store.leaves import Column
from zskip.index.store.manifest import Manifest, manifest_path
from zskip.index.store.segment import ENTRIES_SCHEMA, FILES_SCHEMA, MAX_ENTRIES, Segment, new_name, write_segment
from zskip.records import Field, Partition, Snapshot
from zskip.storage import LocalStorage
from zskip.types import DataType

TYPES = (
    "long", "long", "double", "string", "timestamp", "decimal(12,2)", "long", "date", "string", "integer",
)  # fmt: skip
ARROW = {
    "long": pa.int64(), "timestamp": pa.timestamp("us", "UTC"), "decimal(12,2)": pa.decimal128(12, 2),
    "date": pa.date32(), "integer": pa.int32(),
}  # fmt: skip
ROWS = 5_000
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True)
class Made:
    """An index on disk, and the snapshot it is of."""

    storage: LocalStorage
    snapshot: Snapshot
    segments: tuple[Segment, ...]


def make_index(root: str, files: int, columns: int, seed: int) -> Made:
    """Write the index of a table of some files and columns, as refreshes would."""
    rng = np.random.default_rng(seed)
    types = [TYPES[i % len(TYPES)] for i in range(columns)]
    names = tuple(f"column_{i:04d}" for i in range(columns))
    held = tuple(Column((name,), kind) for name, kind in zip(names, types, strict=True))
    storage = LocalStorage(root)
    paths = [f"part-{i:07d}-{h:016x}-c000.snappy.parquet" for i, h in enumerate(rng.integers(0, 2**63, files).tolist())]
    sizes, times = rng.integers(10**7, 10**8, files), 1_700_000_000_000 + np.sort(rng.integers(0, 10**9, files))
    identities = rng.integers(0, 2**63, files)
    each = max(1, MAX_ENTRIES // columns)
    segments = []
    for start in range(0, files, each):
        count = min(each, files - start)
        rows = slice(start, start + count)
        numbers = np.full(count, ROWS), np.zeros(count, np.int32), np.ones(count, np.int64)
        values = (paths[rows], sizes[rows], times[rows], identities[rows], *numbers)
        listing = pa.table(dict(zip(FILES_SCHEMA.names, values, strict=True)), schema=FILES_SCHEMA)
        schema = (tuple(range(columns)),)
        segments.append(write_segment(storage, new_name(), listing, held, schema, (), entries(rng, types, count)))
    manifest = Manifest(version=1, table_version=1, zskip="bench", segments=tuple(segments))
    storage.write(manifest_path(1), manifest.to_bytes())
    return Made(storage, snapshot_of(root, zip(names, types, strict=True), paths, sizes, times), tuple(segments))


def snapshot_of(root: str, columns: Iterable[tuple[str, str]], paths: list[str], sizes: Any, times: Any) -> Snapshot:
    """A snapshot without partitions."""
    return Snapshot(
        root=root, version=1, fields=tuple(Field(name=name, type=DataType(kind)) for name, kind in columns),
        partition_fields=(), partitions=(Partition(directory=""),), paths=tuple(paths), sizes=sizes,
        mtimes_ms=times, partition_of=np.zeros(len(paths), np.int32),
    )  # fmt: skip


def keep(path: Path, made: Made) -> None:
    """Write the list of files that a snapshot holds beside an index."""
    snapshot = made.snapshot
    listed = {"path": snapshot.paths, "size": snapshot.sizes, "mtime_ms": snapshot.mtimes_ms}
    pq.write_table(pa.table(listed), path / "_snapshot.parquet")


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot of a table, from what `keep` wrote."""
    listed = pq.read_table(path / "_snapshot.parquet")
    manifest = Index.load(LocalStorage(str(path))).manifest  # type: ignore[union-attr]
    columns = ((column.path[0], column.type or "") for column in manifest.segments[0].columns)
    sizes, times = (listed[name].to_numpy() for name in ("size", "mtime_ms"))
    return snapshot_of(str(path), columns, listed["path"].to_pylist(), sizes, times)


def entries(rng: np.random.Generator, types: list[str], files: int) -> Iterator[pa.Table]:
    """What is known of one column after another."""
    for number, kind in enumerate(types):
        lower, upper = bounds(rng, kind, files)
        share = 0.0 if number % 3 == 0 else rng.random()
        form = DataType(kind).form
        assert form is not None
        given: dict[str, Any] = {
            "column": np.full(files, number, np.int32),
            "file": np.arange(files, dtype=np.int32),
            "nulls": rng.binomial(ROWS, share, files),
            f"{form.value}_min": lower,
            f"{form.value}_max": upper,
        }
        arrays = [
            pa.array(given[f.name], f.type) if f.name in given else pa.nulls(files, f.type) for f in ENTRIES_SCHEMA
        ]
        yield pa.table(arrays, schema=ENTRIES_SCHEMA)


def bounds(rng: np.random.Generator, kind: str, files: int) -> tuple[Any, Any]:
    """The least and the greatest of some thousand values a file."""
    if kind == "string":
        return strings(rng, files)
    low, high = rng.exponential(1 / ROWS, (2, files)).clip(0, 0.4)
    share = rng.random() * 0.9
    start = rng.random(files) * share
    width = 1 - share
    low, high = start + low * width, start + (1 - high) * width
    if kind == "double":
        scale = 10.0 ** rng.integers(-2, 9)
        return low * scale, high * scale
    scale = {
        "long": 10 ** int(rng.integers(3, 13)),
        "integer": 10 ** int(rng.integers(3, 10)),
        "decimal(12,2)": 10 ** int(rng.integers(4, 9)),
        "timestamp": 5 * 365 * 86_400_000_000,
        "date": 3_650,
    }[kind]
    return (low * scale).astype(np.int64), (high * scale).astype(np.int64)


def strings(rng: np.random.Generator, files: int) -> tuple[list[bytes], list[bytes]]:
    """Strings of random letters; the first ones lie close to the ends, as the bounds of many values do."""
    alphabet = HEX if rng.random() < 0.5 else LETTERS
    length = int(rng.integers(6, 21))
    digits = rng.integers(0, len(alphabet), (2, files, length))
    digits[:, :, 0] = [[0], [len(alphabet) - 1]]
    digits[:, :, 1] = np.minimum(rng.geometric(0.5, (2, files)) - 1, len(alphabet) - 1)
    digits[1, :, 1] = len(alphabet) - 1 - digits[1, :, 1]
    texts = alphabet[digits].tobytes()
    cut = [texts[i : i + length] for i in range(0, len(texts), length)]
    return cut[:files], cut[files:]


def random_rows(rng: np.random.Generator, columns: int, rows: int) -> pa.Table:
    """The rows of a small file of such a table."""

    def values(kind: str) -> pa.Array:
        numbers = rng.integers(0, 3_000 if kind == "date" else 10**9, rows)
        if kind == "double":
            return pa.array(numbers / 7)
        if kind == "string":
            return pa.array([f"{number:016x}" for number in numbers.tolist()])
        if kind == "decimal(12,2)":
            return pa.array(numbers / 100).cast(ARROW[kind])
        return pa.array(numbers.astype(np.int32) if kind in ("date", "integer") else numbers).cast(ARROW[kind])

    return pa.table({f"column_{i:04d}": values(TYPES[i % len(TYPES)]) for i in range(columns)})
