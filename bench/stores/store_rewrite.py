"""Clustering TPC-H lineitem in an object store beside the same on the local disk, through Spark.

python bench/stores/store_rewrite.py --scale 1 --files 64 --rounds 2 --delay-ms 20

The store speaks S3 on this machine, keeps all in memory and shares its cores; an answer takes `--delay-ms`. Hadoop's
S3A comes from `python3 dev.py test-stores`, or --jars names its jars.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common

BUCKET = "bench"


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", scale=1.0, files=64, rounds=2, jars="", delay_ms=0.0)
    found = [str(path) for name in ("hadoop-aws", "bundle") for path in common.JARS.glob(f"{name}-*.jar")]
    jars = options.jars or ",".join(found)
    if not jars:
        raise SystemExit("no jars of S3A: run `python3 dev.py test-stores`, or name them with --jars A,B")
    store = [sys.executable, str(Path(__file__).with_name("memory_store.py")), str(options.delay_ms)]
    server = subprocess.Popen(store, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
        common.emit(measure(endpoint, jars, options), options.json)
    finally:
        server.terminate()


def measure(endpoint: str, jars: str, options: Any) -> dict[str, Any]:
    """Seconds of whole rewrites into a new table on either side, in turns."""
    settings = {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "access.key": "x",
        "secret.key": "y",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    reach = {f"spark__hadoop__fs__s3a__{name.replace('.', '__')}": value for name, value in settings.items()}
    spark = common.session(spark__jars=jars, **reach)
    here = common.lineitem(options.scale)
    there = f"s3a://{BUCKET}/lineitem"
    spark.read.parquet(str(here)).write.parquet(there)
    local = common.HOME / "store-rewrite"
    shutil.rmtree(local, ignore_errors=True)
    spark.read.parquet(there).write.parquet(str(local / "lineitem"))
    took: dict[str, list[float]] = {"disk": [], "store": []}
    asked: dict[str, int] = {}
    for turn in range(options.rounds + 1):
        for side in ("disk", "store") if turn % 2 else ("store", "disk"):
            source, home = (str(local / "lineitem"), str(local)) if side == "disk" else (there, f"s3a://{BUCKET}")
            told(endpoint)
            job = functools.partial(rewrite, spark, source, f"{home}/out-{turn}", options.files)
            took[side].append(common.seconds(job))
            asked = told(endpoint) if side == "store" else asked
            common.log(f"{side}: {took[side][-1]:.1f} s")
    rows = [spark.read.parquet(f"{home}/out-{options.rounds}").count() for home in (local, f"s3a://{BUCKET}")]
    assert rows[0] == rows[1], rows
    # The first of each warms Spark up.
    disk, store = (common.median(took[side][1:]) for side in ("disk", "store"))
    figures = {"machine": common.machine(), "spark": spark.version, "disk_s": disk, "store_s": store}
    figures |= {"store_over_disk": round(store / disk, 2)}
    return figures | {f"asked_{name.lower()}": count for name, count in sorted(asked.items())}


def rewrite(spark: Any, source: str, target: str, files: int) -> None:
    """One rewrite into a new table."""
    zskip.table(spark, source).optimize(common.CLUSTER_BY, files=files, into=target)


def told(endpoint: str) -> dict[str, int]:
    """What the store was asked for since the last time."""
    with urllib.request.urlopen(f"{endpoint}/requests") as answer:
        return dict(json.loads(answer.read()))


if __name__ == "__main__":
    main()
