"""What calls on a table in an object store cost in requests and seconds, without Spark.

The store is in memory and answers after a delay. A table of small files, all with the same footer but for one bound, is
indexed, opened in a new process and asked twice; the listing of its files is measured by itself.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from common import arguments, emit, log

KEPT = 10
ROWS = 100


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
    started = time.perf_counter()
    opened(endpoint).index()
    indexed = time.perf_counter() - started
    of_index = requests(endpoint)
    set_delay(endpoint, options.query_delay_ms)
    asked = [sys.executable, __file__, "--once", "x", "--endpoint", endpoint]
    found = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    return {
        "files": options.files,
        "index_delay_ms": options.index_delay_ms,
        "index_seconds": round(indexed, 1),
        "index_files_per_second": round(options.files / indexed),
        "index_requests_a_file": round(sum(of_index.values()) / options.files, 3),
        "query_delay_ms": options.query_delay_ms,
        **found,
    }


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
    log(f"putting {files} files")

    def put(i: int) -> None:
        first = pa.array(range(i * ROWS, (i + 1) * ROWS))
        rows = pa.table({"c0": first, **{f"c{j}": first for j in range(1, columns)}})
        stream = io.BytesIO()
        pq.write_table(rows, stream)
        url = f"{endpoint}/bucket/t/part-{i:08}.parquet"
        urllib.request.urlopen(urllib.request.Request(url, data=stream.getvalue(), method="PUT")).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(files)))


if __name__ == "__main__":
    main()
