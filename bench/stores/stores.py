"""What calls on a table in an object store cost in requests and seconds, without Spark.

python bench/stores/stores.py --files 10000

All files have the same footer but for one bound. Of more than `INDEXED` files the index is made without asking the
store for footers.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

import zskip

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memory_store import FIRST, LAST, ROWS, copy_of, requests, running

from shared.measure import arguments, emit, log
from zskip.index import refresh
from zskip.storage import Storage
from zskip.table.version import read_snapshot

RUNS = [
    {"name": "store-10000-files", "title": "10,000 files in an object store", "case": "usual",
     "text": "Without Spark, on a store in memory that waits before each answer: the index of 10,000 files of 10 "
     "columns with 50 ms a request, then, in a new process with 20 ms, a query that keeps 10 files, twice. `beyond` "
     "is what comes on top of listing the table's files. With 100,000 files the index is made of footers that the "
     "store is not asked for.",
     "options": "--files 10000",
     "goals": {"index_seconds": ("<=", 60), "cold_requests_beyond": ("<=", 12), "cold_seconds_beyond": ("<=", 1.5),
     "warm_requests_beyond": ("<=", 4)}},
    {"name": "store-100000-files", "title": "100,000 files in an object store", "case": "hard",
     "options": "--files 100000",
     "goals": {"cold_requests_beyond": ("<=", 12), "cold_seconds_beyond": ("<=", 1.5),
     "warm_requests_beyond": ("<=", 4)}},
]  # fmt: skip

KEPT = 10
INDEXED = 20_000


def main() -> None:
    options = arguments(
        __doc__ or "", files=10_000, query_delay_ms=20.0, index_delay_ms=50.0, columns=10, once="", endpoint=""
    )
    if options.once:
        print(json.dumps(query(options.endpoint)))
        return
    with running() as endpoint:
        emit(measure_queries(endpoint, options), options.json)


def measure_queries(endpoint: str, options: Any) -> dict[str, Any]:
    fill(endpoint, options.files, options.columns)
    set_delay(endpoint, options.index_delay_ms)
    requests(endpoint)
    log(f"indexing {options.files} files")
    of_index = index(endpoint, options) if options.files <= INDEXED else made_index(endpoint, options)
    set_delay(endpoint, options.query_delay_ms)
    once = [sys.executable, __file__, "--once", "x", "--endpoint", endpoint]
    of_query = json.loads(subprocess.run(once, check=True, capture_output=True, text=True).stdout)
    return {"files": options.files, **of_index, "query_delay_ms": options.query_delay_ms, **of_query}


def index(endpoint: str, options: Any) -> dict[str, Any]:
    """Index the table, and say what that takes."""
    started = time.perf_counter()
    opened(endpoint).index()
    seconds = time.perf_counter() - started
    return {
        "index_delay_ms": options.index_delay_ms,
        "index_seconds": round(seconds, 1),
        "index_files_per_second": round(options.files / seconds),
        "index_requests_a_file": round(sum(requests(endpoint).values()) / options.files, 3),
    }


def made_index(endpoint: str, options: Any) -> dict[str, Any]:
    """Index the table by footers that are here."""
    set_delay(endpoint, 0)
    handle, data = opened(endpoint)._handle, template(options.columns)
    refresh(cast("Storage", Near(handle.storage, data)), read_snapshot(handle))
    return {}


class Near:
    """A storage of which data files are read here."""

    def __init__(self, base: Storage, data: bytes) -> None:
        self._base = base
        self._data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        if path.startswith("_"):
            return self._base.open(path, size)
        return io.BytesIO(copy_of(self._data, int(path[5:13])))


def query(endpoint: str) -> dict[str, Any]:
    """Ask twice in a process that knows nothing yet."""
    where = f"c0 between {5 * ROWS} and {(5 + KEPT) * ROWS - 1}"
    listing = timed(endpoint, lambda: opened(endpoint).files)  # reaches the store, and asks nothing of it
    assert listing[1] == {}
    storage = opened(endpoint)._handle.storage
    walked, of_walk = timed(endpoint, lambda: storage.walk(lambda name: name.startswith("_")))
    table = opened(endpoint)
    cold, of_cold = timed(endpoint, lambda: len(table.files(where)))
    warm, of_warm = timed(endpoint, lambda: len(table.files(where)))
    pages = sum(of_walk.values())
    return {
        "listing_seconds": round(walked, 2),
        "listing_requests": pages,
        "cold_seconds_beyond": round(cold - walked, 2),
        "cold_requests_beyond": sum(of_cold.values()) - pages,
        "warm_seconds_beyond": round(warm - walked, 2),
        "warm_requests_beyond": sum(of_warm.values()) - pages,
        "cold_requests": of_cold,
        "warm_requests": of_warm,
    }


def timed(endpoint: str, work: Callable[[], Any]) -> tuple[float, dict[str, int]]:
    requests(endpoint)
    started = time.perf_counter()
    work()
    return time.perf_counter() - started, requests(endpoint)


def opened(endpoint: str) -> zskip.Table:
    options = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "aws_region": "x", "aws_endpoint_url": endpoint}
    return zskip.open("s3://bucket/t", storage_options=options)


def set_delay(endpoint: str, milliseconds: float) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/delay?{milliseconds}", method="PUT")).close()


def fill(endpoint: str, files: int, columns: int) -> None:
    """Put the files; the first column of each holds numbers that no other has."""
    url = f"{endpoint}/copies?{files}"
    urllib.request.urlopen(urllib.request.Request(url, data=template(columns), method="PUT")).close()


def template(columns: int) -> bytes:
    """The file that all are copies of."""
    first = pa.array([FIRST, LAST, *range(FIRST + 1, FIRST + ROWS - 1)])
    same = pa.array(range(ROWS))
    stream = io.BytesIO()
    pq.write_table(pa.table({"c0": first, **{f"c{j}": same for j in range(1, columns)}}), stream)
    return stream.getvalue()


if __name__ == "__main__":
    main()
