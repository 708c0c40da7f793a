"""What the queries of a workload read of a table, by its metadata alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zskip.errors import InputError
from zskip.index import BoundIndex, prune_row_groups
from zskip.predicate import Predicate, columns_of, conjunction, conjuncts
from zskip.prune import prune
from zskip.records import Bools, LeafReport, Snapshot
from zskip.report import Asked, Queries
from zskip.table.explain import only_about
from zskip.table.handle import Handle
from zskip.table.query import read_where

Workload = Sequence[str | tuple[str, float]] | None


def ask(handle: Handle, snapshot: Snapshot, bound: BoundIndex, workload: Workload) -> Queries | None:
    """What each query of a workload reads; None where there is no workload.

    Raises InputError for what is no workload; a query that does not parse is one of the problems.
    """
    if workload is None:
        return None
    asked: list[Asked] = []
    problems: list[str] = []
    reads = np.zeros(len(snapshot))
    for number, (text, weight) in enumerate(_given(workload), 1):
        try:
            predicate = read_where(handle, snapshot, text)
        except InputError as error:
            problems.append(f"query {number} ({text}): {error}")
            continue
        found, kept = _asked(bound, predicate, text, weight)
        asked.append(found)
        reads[kept] += weight
    total = sum(query.weight for query in asked)
    return Queries(source="given", asked=tuple(asked), problems=tuple(problems), reads=reads / max(total, 1e-300))


def _given(workload: Workload) -> list[tuple[str, float]]:
    if isinstance(workload, str) or not isinstance(workload, Sequence):
        raise InputError(f"workload={workload!r} is no list of queries; give SQL texts, or pairs of text and weight")
    found = []
    for number, entry in enumerate(workload, 1):
        pair = entry if isinstance(entry, tuple | list) and len(entry) == 2 else (entry, 1.0)
        text, weight = pair
        if (
            not isinstance(text, str)
            or isinstance(weight, bool)
            or not isinstance(weight, int | float)
            or not weight > 0
        ):
            raise InputError(f"query {number} of the workload is {entry!r}; write SQL text, or (text, weight)")
        found.append((text, float(weight)))
    return found


def _asked(bound: BoundIndex, predicate: Predicate, text: str, weight: float) -> tuple[Asked, Bools]:
    snapshot = bound.snapshot
    result = bound.prune(predicate)
    kept = result.kept
    names: set[tuple[str, ...]] = {
        (name,) for name in (*(field.name for field in snapshot.partition_fields), *snapshot.grouped_by)
    }
    held = [part for part in conjuncts(predicate) if only_about(part, names)]
    by_partitions = prune(conjunction(tuple(held)), bound).kept if held else np.ones_like(kept)
    by_bounds = by_partitions & (kept if bound.sketches is None else prune(predicate, bound).kept | kept)
    row_groups = prune_row_groups(bound, predicate, kept)
    share = None
    if row_groups is not None and row_groups.total:
        share = sum(map(len, row_groups.of_file.values())) / row_groups.total
    columns = dict.fromkeys(".".join(column.path) for column in columns_of(predicate))
    return Asked(
        where=text,
        weight=weight,
        columns=tuple(sorted(columns)),
        files=int(kept.sum()),
        bytes=int(snapshot.sizes[kept].sum()),
        by_partitions=int((~by_partitions).sum()),
        by_bounds=int((by_partitions & ~by_bounds).sum()),
        by_sketches=int((by_bounds & ~kept).sum()),
        row_groups=share,
        reason=_reason(result.leaves, int(kept.sum()), len(snapshot)),
    ), kept


def _reason(leaves: Sequence[LeafReport], files: int, total: int) -> str:
    """Why a query does not read less."""
    found = [f"{leaf.sql}: {leaf.reason}" for leaf in leaves if leaf.reason]
    if found:
        return "; ".join(dict.fromkeys(found))
    if not leaves:
        return "it has no condition"
    return f"{files:,} of {total:,} files have matching values within their bounds" if files else ""
