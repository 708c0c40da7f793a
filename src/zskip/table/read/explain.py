"""Why each file of a table is read or skipped under a predicate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.compute as pc

from zskip.errors import InputError
from zskip.index import BoundIndex
from zskip.predicate import Predicate, Unknown, conjuncts, is_unread, nodes, to_sql
from zskip.records import Bools, Explanation, LeafReport, PruneResult, Regret, ScanStep, Snapshot
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.predicates import is_only_about, read_where
from zskip.table.read.query import known_rows, open_frame
from zskip.table.snapshot import file_positions, read_snapshot

_PRIVATE = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.filterPushdown": "false"}
"""A session in which the text of a predicate means what it does; inside files Spark would lose NaN of some writers."""


def explain(handle: Handle, where: str | pc.Expression | None, *, analyze: bool) -> Explanation:
    """What is left after the partitions and after each conjunct of a predicate, and what each leaf did.

    analyze: run the query, too, and say which kept files held no matching row; needs a Spark session.
    """
    if analyze:
        handle.need_spark("analyze=True")
    snapshot = read_snapshot(handle)
    predicate = read_where(handle, snapshot, where)
    text = where if where is None or isinstance(where, str) else to_sql(predicate)
    if analyze and text is not where:
        handle = _able_to_run(handle, predicate)
    stats = bind_index(handle, snapshot, warn=where is not None)
    steps, leaves, kept = _steps(handle, predicate, snapshot, stats)
    return Explanation(
        path=handle.storage.root,
        where=text,
        steps=tuple(steps),
        leaves=tuple(leaves),
        regret=_regret(handle, text, snapshot, stats, kept) if analyze else None,
        reader=snapshot.reader,
    )


def _able_to_run(handle: Handle, predicate: Predicate) -> Handle:
    """A handle under which Spark takes the text of a predicate as it is meant, if all of it has a meaning."""
    from zskip.spark.jvm.compat import private_session

    unknown = next((node for node in nodes(predicate) if isinstance(node, Unknown)), None)
    if unknown is not None:
        raise InputError(
            f"analyze=True cannot run {unknown.sql}, which zskip does not understand; write it as SQL text"
        )
    return dataclasses.replace(handle, spark=private_session(handle.need_spark("analyze=True"), _PRIVATE))


def _steps(
    handle: Handle, predicate: Predicate, snapshot: Snapshot, stats: BoundIndex
) -> tuple[list[ScanStep], list[LeafReport], Bools]:
    held = (*(field.name for field in snapshot.partition_fields), *snapshot.grouped_by)
    names: set[tuple[str, ...]] = {(name,) for name in held}
    of_partitions: list[Predicate] = []
    others: list[Predicate] = []
    for part in conjuncts(predicate):
        (of_partitions if is_only_about(part, names) else others).append(part)
    kept: Bools = np.ones(len(snapshot), np.bool_)
    steps = [_step("table", kept, snapshot, stats)]
    leaves: list[LeafReport] = []
    for part in of_partitions:
        result = stats.prune(part)
        kept = kept & result.kept
        leaves += result.leaves
    steps.append(_step("partitions", kept, snapshot, stats))
    for part in others:
        result = _pruned(handle, part, snapshot, stats)
        kept = kept & result.kept
        leaves += result.leaves
        steps.append(_step(to_sql(part, shorten=True), kept, snapshot, stats))
    return steps, leaves, kept


def _pruned(handle: Handle, part: Predicate, snapshot: Snapshot, stats: BoundIndex) -> PruneResult:
    """What a conjunct keeps; with a session, Spark decides what zskip cannot read in files of constant columns."""
    if handle.spark is None or snapshot.reader is not None or not is_unread(part):
        return stats.prune(part)
    from zskip.spark.scan.filters.constants import prune_text

    return prune_text(open_frame(handle, lambda _: None), stats, part)


def _step(name: str, kept: Bools, snapshot: Snapshot, stats: BoundIndex) -> ScanStep:
    return ScanStep(
        step=name, files=int(kept.sum()), bytes=int(snapshot.sizes[kept].sum()), rows=known_rows(stats, kept)
    )


def _regret(handle: Handle, where: str | None, snapshot: Snapshot, stats: BoundIndex, kept: Bools) -> Regret:
    """Run the query and count the kept files in which nothing matched."""
    from zskip.spark.collect.statistics import aggregate_by_file

    frame = open_frame(handle, lambda _: None)
    matching = frame if where is None else frame.where(where)
    places = file_positions(handle, snapshot)
    at, counts = aggregate_by_file(matching, {"rows": "count(1)"}, places, "count the matching rows of each file")
    idle = kept.copy()
    idle[at] = False
    return Regret(
        files=int(idle.sum()),
        bytes=int(snapshot.sizes[idle].sum()),
        rows=int(np.maximum(stats.rows[idle], 0).sum()),
        matching_rows=sum(counts["rows"].to_pylist()) if len(at) else 0,
    )
