"""What calls on a table in an object store cost in requests and seconds, without Spark.

The store is in memory and answers after a delay. A table of small files, all with the same footer but for one bound, is
indexed, opened in a new process and asked twice; the listing of its files is measured by itself. Of more than `INDEXED`
files the index is made without asking the store for footers.
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

from memory_store import FIRST, LAST, ROWS, copy_of

from shared.common import arguments, emit, log
from zskip.index import refresh
from zskip.storage import Storage
from zskip.table.snapshot import read_snapshot

KEPT = 10
INDEXED = 20_000


def main() -> None:
    options = arguments(
        __doc__ or "", files=10_000, query_delay_ms=20.0, index_delay_ms=50.0, columns=10, once="", endpoint=""
    )
    if options.once:
        print(json.dumps(query(options.endpoint)))
        return
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("memory_store.py")), "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        emit(measure(f"http://127.0.0.1:{int(server.stdout.readline())}", options), options.json)
    finally:
        server.kill()


def measure(endpoint: str, options: Any) -> dict[str, Any]:
    fill(endpoint, options.files, options.columns)
    set_delay(endpoint, options.index_delay_ms)
    requests(endpoint)
    log(f"indexing {options.files} files")
    of_index = index(endpoint, options) if options.files <= INDEXED else made_index(endpoint, options)
    set_delay(endpoint, options.query_delay_ms)
    asked = [sys.executable, __file__, "--once", "x", "--endpoint", endpoint]
    found = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    return {
        "files": options.files,
        **of_index,
        "query_delay_ms": options.query_delay_ms,
        **found,
    }


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
    cold, of_cold = timed(endpoint, lambda: check(table.files(where)))
    warm, of_warm = timed(endpoint, lambda: check(table.files(where)))
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


def check(files: list[Any]) -> None:
    assert len(files) == KEPT, len(files)


def timed(endpoint: str, work: Callable[[], Any]) -> tuple[float, dict[str, int]]:
    requests(endpoint)
    started = time.perf_counter()
    work()
    return time.perf_counter() - started, requests(endpoint)


def opened(endpoint: str) -> zskip.Table:
    options = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "aws_region": "x", "aws_endpoint_url": endpoint}
    return zskip.open("s3://bucket/t", storage_options=options)


def requests(endpoint: str) -> dict[str, int]:
    """How many there were of each kind since the last time."""
    with urllib.request.urlopen(f"{endpoint}/requests") as answer:
        found: dict[str, int] = json.load(answer)
    return found


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
