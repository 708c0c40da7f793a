"""Explain why a predicate reads or skips each file of a table."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow.compute as pc

from zskip.errors import InputError
from zskip.index import BoundIndex
from zskip.predicate import Predicate, Unknown, conjunction, conjuncts, nodes, to_sql
from zskip.records import Bools, Explanation, LeafReport, Regret, ScanStep, Snapshot
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index, known_rows
from zskip.table.predicates import is_only_about, read_where
from zskip.table.read.info import last_layout
from zskip.table.read.query import open_frame
from zskip.table.refresh_index import Conditions
from zskip.table.version import file_positions, open_version

_PRIVATE = {"spark.sql.session.timeZone": "UTC", "spark.sql.parquet.filterPushdown": "false"}
"""Settings under which a predicate's text keeps its meaning, and Spark loses no NaN inside files of some writers."""


def explain(handle: Handle, where: str | pc.Expression | None, *, analyze: bool) -> Explanation:
    """Report what is left after the partitions and after each conjunct, and what each leaf did.

    analyze: also run the query, and count the kept files without a matching row; needs a Spark session.
    """
    if analyze:
        handle.need_spark("analyze=True")
    version = open_version(handle)
    snapshot = version.snapshot
    predicate = read_where(handle, snapshot, where)
    if (
        isinstance(where, str)
        and handle.spark is not None
        and any(isinstance(part, Unknown) for part in nodes(predicate))
    ):
        predicate = Conditions(version).read(where) or predicate
    text = where if where is None or isinstance(where, str) else to_sql(predicate)
    if analyze and text is not where:
        handle = _private_handle(handle, predicate)
    bound = bind_index(handle, snapshot, warn=where is not None)
    layout = last_layout(version)
    steps, leaves, kept = _steps(predicate, snapshot, bound)
    return Explanation(
        path=handle.storage.root,
        where=text,
        steps=tuple(steps),
        leaves=tuple(leaves),
        regret=_regret(handle, text, snapshot, bound, kept) if analyze else None,
        reader=version.metadata.feature,
        tree=str(layout.tree) if layout and layout.tree else "",
    )


def _private_handle(handle: Handle, predicate: Predicate) -> Handle:
    """A handle whose session reads the text of a predicate as zskip does; raises InputError where zskip cannot."""
    from zskip.spark.jvm.compat import private_session

    unknown = next((node for node in nodes(predicate) if isinstance(node, Unknown)), None)
    if unknown is not None:
        raise InputError(
            f"analyze=True cannot run {unknown.sql}, which zskip does not understand; write it as SQL text"
        )
    return dataclasses.replace(handle, spark=private_session(handle.need_spark("analyze=True"), _PRIVATE))


def _steps(
    predicate: Predicate, snapshot: Snapshot, bound: BoundIndex
) -> tuple[list[ScanStep], list[LeafReport], Bools]:
    names: set[tuple[str, ...]] = {(name,) for name in snapshot.partition_names}
    partition_parts: list[Predicate] = []
    others: list[Predicate] = []
    for part in conjuncts(predicate):
        (partition_parts if is_only_about(part, names) else others).append(part)
    kept: Bools = np.ones(len(snapshot), np.bool_)
    steps = [_step("table", kept, snapshot, bound)]
    leaves: list[LeafReport] = []
    for part in partition_parts:
        result = bound.prune(part)
        kept = kept & result.kept
        leaves += result.leaves
    steps.append(_step("partitions", kept, snapshot, bound))
    for part in others:
        result = bound.prune(part)
        kept = kept & result.kept
        leaves += result.leaves
        steps.append(_step(to_sql(part, shorten=True), kept, snapshot, bound))
    if len(others) > 1:
        # Conditions that only several conjuncts imply.
        whole = bound.prune(conjunction(tuple(others)))
        more = [leaf for leaf in whole.leaves if leaf.kind == "matches" and leaf not in leaves]
        if more:
            kept, leaves = kept & whole.kept, [*leaves, *more]
            steps.append(_step("all of these together", kept, snapshot, bound))
    return steps, leaves, kept


def _step(name: str, kept: Bools, snapshot: Snapshot, bound: BoundIndex) -> ScanStep:
    return ScanStep(
        step=name, files=int(kept.sum()), bytes=int(snapshot.sizes[kept].sum()), rows=known_rows(bound, kept)
    )


def _regret(handle: Handle, where: str | None, snapshot: Snapshot, bound: BoundIndex, kept: Bools) -> Regret:
    """Run the query and count the kept files without a matching row."""
    from zskip.spark.collect.statistics import aggregate_by_file

    frame = open_frame(handle)
    matching = frame if where is None else frame.where(where)
    positions = file_positions(handle, snapshot)
    files, counts = aggregate_by_file(matching, {"rows": "count(1)"}, positions, "count the matching rows of each file")
    idle = kept.copy()
    idle[files] = False
    return Regret(
        files=int(idle.sum()),
        bytes=int(snapshot.sizes[idle].sum()),
        rows=int(np.maximum(bound.rows[idle], 0).sum()),
        matching_rows=sum(counts["rows"].to_pylist()) if len(files) else 0,
    )
