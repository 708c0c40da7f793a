"""Bring a table's index up to date: from footers, and from the rows where footers do not tell."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import InputError, ZskipError, ZskipWarning
from zskip.index import Counted, Counting, Gaps, refresh
from zskip.records import IndexInfo, Ints, PruneResult
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from zskip.spark.schema import TableSchema

COLLECTORS = ("auto", "footers", "scan")
_PRIVATE = {
    # The bytes as they are: what depends on the calendar is not used.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}


def refresh_index(handle: Handle, collect: str = "auto", *, new_only: bool = False) -> IndexInfo:
    """Read the footers of files that have no valid entry yet, and count what they do not tell.

    collect: as `Table.index` says; new_only: count only in files that had no entry.
    """
    if collect not in COLLECTORS:
        raise InputError(f'collect="{collect}" is none of {", ".join(COLLECTORS)}')
    if collect == "scan":
        handle.need_spark('collect="scan"')
    counting, everything = None, collect == "scan"
    if collect == "footers" or handle.spark is None:
        snapshot = handle.snapshot()
    else:
        schema = handle.schema()
        snapshot = schema.snapshot
        counting = Counting(
            count=lambda gaps: _count(handle, schema, gaps, strict=everything), new_only=new_only, everything=everything
        )
    index = refresh(
        handle.storage,
        snapshot,
        counting=counting,
        case_sensitive=handle.case_sensitive,
        check=not new_only,
        index_storage=handle.index_storage,
    )
    return index.bind(snapshot, case_sensitive=handle.case_sensitive).info()


def _count(
    handle: Handle, schema: TableSchema, gaps: Gaps, *, strict: bool
) -> tuple[Ints, Mapping[tuple[str, ...], Counted]]:
    """Count with Spark, one aggregation by file; nothing, and a warning, where that fails and is not `strict`."""
    from zskip.spark.compat import private_session
    from zskip.spark.failures import explained
    from zskip.spark.file_index import Pruning
    from zskip.spark.relation import scan
    from zskip.spark.statistics import Places, count

    step = f"count what {int(gaps.files.sum()):,} files hold of {len(gaps.columns):,} columns"
    try:
        private = private_session(handle.need_spark("this"), _PRIVATE)
        result = PruneResult(kept=gaps.files, full=gaps.files)
        frame = scan(private, schema, Pruning(prune=lambda _: result))
        places = Places([handle.storage.uri(path) for path in schema.snapshot.paths])
        return count(frame, gaps.columns, places, step)
    except Exception as error:
        failure = explained(step, error)
        if strict or not isinstance(failure, ZskipError):
            raise failure from error
        warnings.warn(f"the index knows only what footers tell: {failure}", ZskipWarning, stacklevel=4)
        return np.full(len(gaps.files), -1, np.int64), {}
