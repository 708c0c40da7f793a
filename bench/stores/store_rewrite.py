"""Clustering TPC-H lineitem in an object store beside the same on the local disk, through Spark.

python bench/stores/store_rewrite.py --scale 1 --files 64 --rounds 2 --delay-ms 20

The store speaks S3 on this machine, keeps all in memory and shares its cores; an answer takes `--delay-ms`. Hadoop's
S3A comes from `python3 dev.py test-stores`, or --jars names its jars.
"""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from memory_store import requests, running

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "store-rewrite", "title": "Clustering in an object store", "case": "usual",
     "text": "TPC-H lineitem by three columns into a new table, through Spark's S3A, beside the same on the local "
     "disk, in turns. The store speaks S3, keeps all in memory, shares the two cores, and answers at once or after "
     "20 ms; what the driver asks for one after another is a fixed part, which a larger table hides. `asked` are its "
     "requests in the last round.",
     "options": "--scale 1 --files 64 --rounds 2", "goals": {"store_over_disk": ("<=", 1.3), "asked_copy": ("<=", 64)}},
    {"name": "store-rewrite-20ms", "title": "Clustering in an object store that takes 20 ms", "case": "hard",
     "options": "--scale 1 --files 64 --rounds 2 --delay-ms 20", "goals": {}},
]  # fmt: skip

BUCKET = "bench"


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", scale=1.0, files=64, rounds=2, jars="", delay_ms=0.0)
    found = [str(path) for name in ("hadoop-aws", "bundle") for path in session.JARS.glob(f"{name}-*.jar")]
    jars = options.jars or ",".join(found)
    if not jars:
        raise SystemExit("no jars of S3A: run `python3 dev.py test-stores`, or name them with --jars A,B")
    with running(options.delay_ms) as endpoint:
        measure.emit(rewrite_times(endpoint, jars, options), options.json)


def rewrite_times(endpoint: str, jars: str, options: Any) -> dict[str, Any]:
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
    spark = session.start(spark__jars=jars, **reach)
    here = data.lineitem(options.scale)
    there = f"s3a://{BUCKET}/lineitem"
    spark.read.parquet(str(here)).write.parquet(there)
    local = data.HOME / "store-rewrite"
    shutil.rmtree(local, ignore_errors=True)
    spark.read.parquet(there).write.parquet(str(local / "lineitem"))
    took: dict[str, list[float]] = {"disk": [], "store": []}
    asked: dict[str, int] = {}
    for turn in range(options.rounds + 1):
        for side in ("disk", "store") if turn % 2 else ("store", "disk"):
            source, home = (str(local / "lineitem"), str(local)) if side == "disk" else (there, f"s3a://{BUCKET}")
            requests(endpoint)
            job = functools.partial(rewrite, spark, source, f"{home}/out-{turn}", options.files)
            took[side].append(measure.seconds(job))
            asked = requests(endpoint) if side == "store" else asked
            measure.log(f"{side}: {took[side][-1]:.1f} s")
    rows = [spark.read.parquet(f"{home}/out-{options.rounds}").count() for home in (local, f"s3a://{BUCKET}")]
    assert rows[0] == rows[1], rows
    # The first of each warms Spark up.
    disk, store = (measure.median(took[side][1:]) for side in ("disk", "store"))
    figures = {"disk_s": disk, "store_s": store}
    figures |= {"store_over_disk": round(store / disk, 2)}
    return figures | {f"asked_{name.lower()}": count for name, count in sorted(asked.items())}


def rewrite(spark: Any, source: str, target: str, files: int) -> None:
    """One rewrite into a new table."""
    zskip.table(spark, source).optimize(data.CLUSTER_BY, files=files, into=target)


if __name__ == "__main__":
    main()
