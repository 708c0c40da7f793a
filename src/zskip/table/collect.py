"""Bring a table's index up to date: from footers, and from the rows where footers do not tell."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zskip.errors import InputError, ZskipError, ZskipWarning
from zskip.index import (
    CALENDAR_TYPES,
    BoundIndex,
    Counted,
    Counting,
    Gaps,
    Index,
    first_sure,
    refresh,
    refresh_sketches,
)
from zskip.records import ALL_NULL, Bools, IndexInfo, Ints, PruneResult, Snapshot
from zskip.sketch import Made, SketchOn, parse_sketch_on
from zskip.table.handle import Handle
from zskip.table.query import columns_of_table

if TYPE_CHECKING:
    from zskip.spark.schema import TableSchema

COLLECTORS = ("auto", "footers", "scan")
GRANULARITIES = ("file", "row_group")
_PRIVATE = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    # The bytes as they are: what depends on the calendar is not used.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}


def refresh_index(
    handle: Handle,
    collect: str = "auto",
    *,
    new_only: bool = False,
    sketches: Sequence[str] = (),
    drop: Sequence[str] = (),
    budget: int | None = None,
    granularity: str | None = None,
) -> IndexInfo:
    """Read the footers of files that have no valid entry yet, count what they do not tell, and build sketches.

    As `Table.index` says; new_only: count only in files that had no entry.
    """
    if collect not in COLLECTORS:
        raise InputError(f'collect="{collect}" is none of {", ".join(COLLECTORS)}')
    if granularity is not None and granularity not in GRANULARITIES:
        raise InputError(f'granularity="{granularity}" is none of {", ".join(GRANULARITIES)}')
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
    add = _read_sketches(handle, snapshot, sketches, drop)
    index = refresh(
        handle.storage,
        snapshot,
        counting=counting,
        case_sensitive=handle.case_sensitive,
        check=not new_only,
        index_storage=handle.index_storage,
        row_groups=None if granularity is None else granularity == "row_group",
    )
    if index.manifest.sketches or add or drop:
        index = refresh_sketches(
            index,
            snapshot,
            lambda wanted, zones, lacking: _sketched(handle, index.bind(snapshot), wanted, zones, lacking, budget),
            np.full(len(snapshot), handle.spark is not None),
            add=add,
            drop=_dropped(index, snapshot, handle, drop),
            timezone=handle.timezone,
            case_sensitive=handle.case_sensitive,
        )
    return index.bind(snapshot, case_sensitive=handle.case_sensitive).info()


def _read_sketches(handle: Handle, snapshot: Snapshot, sketches: Sequence[str], drop: Sequence[str]) -> list[SketchOn]:
    """The sketches that are asked for; whatever is wrong with them is said before anything is written."""
    if isinstance(sketches, str) or isinstance(drop, str):
        raise InputError("give sketches and drop as lists, such as ['bloom(0.01):l_comment']")
    if sketches:
        handle.need_spark("building sketches")
    columns = columns_of_table(handle, snapshot)
    return [parse_sketch_on(text, columns, timezone=handle.timezone) for text in sketches]


def _dropped(index: Index, snapshot: Snapshot, handle: Handle, drop: Sequence[str]) -> list[str]:
    """The specs of the sketches to drop; raises InputError for one that is not there."""
    known = {record.spec for record in index.manifest.sketches}
    columns, found = columns_of_table(handle, snapshot), []
    for text in drop:
        spec = text if text in known else str(parse_sketch_on(text, columns, timezone=handle.timezone))
        if spec not in known:
            held = ", ".join(sorted(known)) or "none"
            raise InputError(f'the index has no sketch "{text}"; it has {held}')
        found.append(spec)
    return found


def _sketched(
    handle: Handle,
    bound: BoundIndex,
    wanted: Sequence[SketchOn],
    zones: Sequence[str],
    lacking: Sequence[Bools],
    budget: int | None,
) -> list[dict[int, Made]]:
    """Build sketches with Spark, one job for each time zone."""
    snapshot = bound.snapshot
    from zskip.spark.failures import explained
    from zskip.spark.sketching import build_sketches

    uris = [handle.storage.uri(path) for path in snapshot.paths]
    spark, schema = handle.need_spark("building sketches"), dataclasses.replace(handle.schema(), snapshot=snapshot)
    found: list[dict[int, Made]] = [{} for _ in wanted]
    try:
        for zone in dict.fromkeys(zones):
            mine = [i for i, other in enumerate(zones) if other == zone]
            sketches, files = [wanted[i] for i in mine], [lacking[i] for i in mine]
            made = build_sketches(spark, schema, sketches, files, uris, timezone=zone, budget=budget)
            for i, states in zip(mine, made, strict=True):
                found[i] = _of_sure_days(wanted[i], states, bound)
    except Exception as error:
        raise explained(f"sketch {len(wanted)} columns or expressions", error) from error
    return found


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


def _of_sure_days(on: SketchOn, states: dict[int, Made], bound: BoundIndex) -> dict[int, Made]:
    """No states of files that hold days before 1900, or may: which they are depends on the calendar of who reads."""
    unsure: Bools = np.zeros(len(bound.snapshot), np.bool_)
    for column in on.columns:
        if column.type.name in CALENDAR_TYPES:
            stats = bound.column(column.path)
            if stats is None:
                return dict.fromkeys(states, Made(None, "nothing is known of its days"))
            sure = stats.bounded & (stats.lower >= first_sure(column.type))
            unsure |= ~(sure | (stats.nulls == ALL_NULL) | (stats.nulls == bound.rows))
    early = Made(None, "it may hold days before 1900, which calendars read differently")
    return {place: early if unsure[place] else made for place, made in states.items()}
