"""The value of rewrites: bytes that queries are spared a day, for each byte written, whichever table they belong to.

The planner says which rows a query no longer reads; the table's queries a day turn that into bytes a day. Merged files
save what opening the others would cost. AutoComp (SIGMOD 2025, arXiv 2504.04186) ranks tables by a weighted sum of
normalized benefit and cost instead, and knows no queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zskip.advisor.maintenance.planner import Batch
from zskip.lake.results import OPEN_COST
from zskip.records import Bools, Floats, Ints, Snapshot
from zskip.table.rewrite.compact import BINS_AT_ONCE

PAY_DAYS = 30
"""Days in which a rewrite must save what it writes."""
_MOST_MERGED = 16_000_000_000
"""Bytes of files that one commit merges."""
_COMMITS_A_BUDGET = 8
"""A commit merges at most this part of a budget, so that little of it stays unused."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileReads:
    """Which files queries read."""

    share: Floats
    """(files,) of the queries, by weight."""
    masks: Bools | None = None
    """(queries, files) whether a query reads a file; None where only the share is known."""
    weights: Floats | None = None
    """(queries,), their sum is 1."""

    def of_any(self, positions: Ints) -> float:
        """The share (0 to 1) of queries that read at least one of some files, at most."""
        if self.masks is None or self.weights is None:
            return min(1.0, float(self.share[positions].sum()))
        return float(self.weights @ self.masks[:, positions].any(axis=1))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Rewrite:
    """One commit, and what it saves a day."""

    batches: tuple[Batch, ...]
    """One that clusters, or some that merge."""
    bytes: int
    """Of the files that are replaced."""
    saved_bytes: float
    saved_files: float
    """That queries no longer open."""
    largest_file: int = 0
    """Bytes of the largest of several files that are clustered."""

    @property
    def merges(self) -> bool:
        """Whether files are only merged."""
        return self.batches[0].merges

    @property
    def files(self) -> int:
        """Files that are replaced."""
        return sum(len(batch.positions) for batch in self.batches)

    def fits(self, budget: float) -> bool:
        """Whether it fits into a budget in bytes; a batch that clusters may exceed it by one of its files."""
        return self.bytes - self.largest_file <= budget

    @property
    def new_files(self) -> int:
        """Files that replace them."""
        return sum(batch.files for batch in self.batches)

    @property
    def saved(self) -> float:
        """Bytes a day, with those that opening files costs."""
        return self.saved_bytes + OPEN_COST * self.saved_files

    @property
    def gain(self) -> float:
        """Bytes saved a day for each byte written."""
        return self.saved / max(self.bytes, 1)

    def pays(self, min_gain: float) -> bool:
        """Whether it saves `min_gain` bytes in `PAY_DAYS` for each byte written."""
        return self.saved > 0 and self.gain * PAY_DAYS >= min_gain


def rank_rewrites(
    snapshot: Snapshot,
    batches: Sequence[Batch],
    *,
    reads: FileReads,
    rows: Ints,
    queries: float,
    min_gain: float,
    budget: int | None,
    served: float = 1.0,
    planned_reads: Floats | None = None,
) -> tuple[Rewrite, ...]:
    """Value a plan's batches, and join merges into commits; those that pay, the best for their bytes first.

    rows: (files,); queries: a day; min_gain: as in `Rewrite.pays`; budget: bytes, of which one commit merges a part;
    served: the share (0 to 1) of the queries that the plan's clustering columns serve; planned_reads: (files,) share of
    the plan's queries that read each file.
    """
    singles = []
    for batch in batches:
        if batch.merges:
            singles.append(_value_merge(snapshot, batch, reads, queries))
        elif planned_reads is not None:
            singles.append(_value_clustering(snapshot, batch, rows, queries * served, planned_reads))
    singles.sort(key=lambda rewrite: -rewrite.gain)
    ranked = [rewrite for rewrite in singles if not rewrite.merges]
    most = _MOST_MERGED if budget is None else min(_MOST_MERGED, budget // _COMMITS_A_BUDGET)
    group: list[Rewrite] = []
    for rewrite in (rewrite for rewrite in singles if rewrite.merges and rewrite.saved > 0):
        if group and (len(group) == BINS_AT_ONCE or sum(r.bytes for r in group) + rewrite.bytes > most):
            ranked.append(_join(group))
            group = []
        group.append(rewrite)
    ranked += [_join(group)] if group else []
    return tuple(sorted((r for r in ranked if r.pays(min_gain)), key=lambda rewrite: -rewrite.gain))


def _value_merge(snapshot: Snapshot, batch: Batch, reads: FileReads, queries: float) -> Rewrite:
    """A query that reads one of the merged files will read all of their bytes."""
    files, share = batch.positions, reads.of_any(batch.positions)
    bytes_before = float(reads.share[files] @ snapshot.sizes[files])
    return Rewrite(
        batches=(batch,),
        bytes=batch.bytes,
        saved_bytes=queries * (bytes_before - share * batch.bytes),
        saved_files=queries * (float(reads.share[files].sum()) - share * batch.files),
    )


def _value_clustering(snapshot: Snapshot, batch: Batch, rows: Ints, queries: float, reads: Floats) -> Rewrite:
    files = batch.positions
    row_count = max(int(rows[files].sum()), 1)
    share_after = max(float(reads[files] @ rows[files]) - batch.saves, 0.0) / row_count
    return Rewrite(
        batches=(batch,),
        bytes=batch.bytes,
        saved_bytes=queries * batch.saves * batch.bytes / row_count,
        saved_files=queries * (float(reads[files].sum()) - share_after * batch.files),
        largest_file=int(snapshot.sizes[files].max()) if len(files) > 1 else 0,
    )


def _join(merges: Sequence[Rewrite]) -> Rewrite:
    return Rewrite(
        batches=tuple(batch for merge in merges for batch in merge.batches),
        bytes=sum(merge.bytes for merge in merges),
        saved_bytes=sum(merge.saved_bytes for merge in merges),
        saved_files=sum(merge.saved_files for merge in merges),
    )
