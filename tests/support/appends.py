"""Appends and overwrites of a format, without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from crashes import Dying
from format_tables import content, count_commits, opened_in, with_ids

from zskip.formats import BatchId, StagedFile, TableFormat
from zskip.formats.base import STAGED

NEW = content(24, 60)
INFO = {"operation": "append", "by": ["id"]}


def stage(form: TableFormat, root: Path, rows: pa.Table = NEW, parts: int = 2, name: str = "added") -> list[StagedFile]:
    staging, size = form.stage(), -(-len(rows) // parts)
    added = []
    for i in range(parts):
        path = f"{staging}/{name}-{i}.parquet{STAGED}"
        pq.write_table(with_ids(rows.slice(i * size, size)), root / path)
        added.append(StagedFile(path=path, directory="", size=(root / path).stat().st_size))
    return added


def append(form: TableFormat, root: Path, batch: BatchId | None = None, name: str = "added") -> int | None:
    base, added = form.snapshot(), stage(form, root, name=name)
    try:
        version = form.append(base, added, INFO, batch)
    except BaseException:
        form.abort(added[0].path.rpartition("/")[0])
        raise
    if version is None:
        form.abort(added[0].path.rpartition("/")[0])
    return version


def overwrite(form: TableFormat, root: Path, rows: pa.Table = NEW, name: str = "over") -> int:
    base, added = form.snapshot(), stage(form, root, rows, name=name)
    try:
        return form.overwrite(base, added, INFO)
    except BaseException:
        form.abort(added[0].path.rpartition("/")[0])
        raise


def die_in_append(path: str, step: int, after: bool, overwrites: bool = False) -> None:
    """Write to a table in a process that is killed at a step; the commits of libraries are steps, too."""
    storage = Dying(path, step, after)
    form = opened_in(storage)
    count_commits(storage.steps, form.name)
    (overwrite if overwrites else append)(form, Path(path), name="dead")
