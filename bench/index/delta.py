"""Opening a Delta table of many files, and planning a query that keeps three of them, by the log's own statistics.

What a query is said to cost is what it costs beyond plain Spark's planning over nothing but the three files.

python bench/index/delta.py --files 10000
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import planning
import zskip
from shared import common

TYPES = {"a": "long", "b": "long", "x": "double", "s": "string"}


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(__doc__ or "", files=10_000, rounds=20)
    path = make(options.files)
    spark = common.session()
    opening, planned, added = [], [], []
    for number in range(options.rounds + 3):
        frames: list[Any] = []
        opening.append(common.seconds(lambda held=frames: held.append(zskip.table(spark, str(path)).df())))
        first = 7 * number + 1
        where = f"a BETWEEN {first * planning.ROWS} AND {(first + 2) * planning.ROWS}"
        plain = spark.read.parquet(*(str(path / f"part-{first + i:06d}.parquet") for i in range(3)))
        took = planning.alternate(spark, ((plain, False), (frames[0], False)), where, 1)
        planned += took[1]
        added.append(took[1][0] - took[0][0])
        query = frames[0].where(where)
        found = len(query.collect()), common.files_and_bytes(query)[0]
        if found != (2 * planning.ROWS + 1, 3):
            raise SystemExit("the wrong files are kept")
    figures = {
        "machine": common.machine(),
        "spark": spark.version,
        "files": options.files,
        "open_ms": round(1000 * common.median(opening[3:])),
        "query_ms": round(1000 * common.median(planned[3:])),
        "query_added_ms": round(1000 * common.median(added[3:])),
        "first_open_ms": round(1000 * opening[0]),
    }
    common.emit(figures, options.json)


def make(files: int) -> Path:
    """The files of `planning.make` as a Delta table of one commit."""
    path, source = common.HOME / f"delta-{files}", planning.make(files, f"bare_{files}")
    shutil.rmtree(path, ignore_errors=True)
    (path / "_delta_log").mkdir(parents=True)
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in TYPES.items()]
    metadata = {
        "id": "00000000-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
    ]
    for i, file in enumerate(sorted(source.iterdir())):
        os.link(file, path / file.name)
        actions.append({"add": add(file, range(i * planning.ROWS, (i + 1) * planning.ROWS))})
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return path


def add(file: Path, ids: range) -> dict[str, Any]:
    """The log's action for one file of `planning.make`."""
    texts = sorted(f"n{k}" for k in ids)
    lower = {"a": ids[0], "b": 0, "x": ids[0] / 3, "s": texts[0]}
    upper = {"a": ids[-1], "b": 6, "x": ids[-1] / 3, "s": texts[-1]}
    stats = {"numRecords": len(ids), "minValues": lower, "maxValues": upper, "nullCount": dict.fromkeys(TYPES, 0)}
    found = file.stat()
    return {
        "path": file.name,
        "partitionValues": {},
        "size": found.st_size,
        "modificationTime": int(found.st_mtime * 1000),
        "dataChange": True,
        "stats": json.dumps(stats),
    }


if __name__ == "__main__":
    main()
