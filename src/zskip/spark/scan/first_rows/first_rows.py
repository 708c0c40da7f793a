"""Scans under ORDER BY ... LIMIT and LIMIT: only the files that may hold the first rows, or as few as hold enough."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zskip.index import BoundIndex
from zskip.prune import Order, enough_files, top_files
from zskip.records import Bools, ColumnStats, Ints, LeafReport
from zskip.spark.scan.listings.choice import Choice

if TYPE_CHECKING:
    from zskip.spark.scan.rule.file_index import PrunedFileIndex


def keep_top(index: PrunedFileIndex, choice: Choice, note: str) -> Choice:
    """Leave the files that may hold one of the first rows by a column.

    note: as `TopK.java` writes it: name and type of the column, whether it is descending, nulls first, and not the only
    one, and how many rows.
    """
    name, type_json, descending, nulls_first, ties, rows = json.loads(note)
    text = f"top {rows} by {name}{' DESC' * descending}"
    known = index.pruning.stats
    if known is None:
        return _left(choice, choice.kept, text, "top-k", "there is no index")
    stats = column_of(known, name, type_json)
    if stats is None:
        return _left(choice, choice.kept, text, "top-k", f"no statistics of {name}")
    order = Order(rows=rows, descending=descending, nulls_first=nulls_first, ties=ties)
    kept = top_files(stats, sure_rows(known), order, kept=choice.kept, full=choice.full)
    altered = known.snapshot.altered
    if altered is not None:
        kept = kept | (choice.kept & altered)
    return _left(choice, kept, text, "top-k", "no files surely hold so many rows before those of another")


def keep_enough(index: PrunedFileIndex, choice: Choice, note: int) -> Choice:
    """Leave as few files as surely hold as many matching rows as are wanted."""
    text = f"limit {note}"
    known = index.pruning.stats
    if known is None:
        return _left(choice, choice.kept, text, "limit", "there is no index")
    kept = enough_files(sure_rows(known), note, kept=choice.kept, full=choice.full)
    return _left(choice, kept, text, "limit", "no fewer files surely hold so many matching rows")


def sure_rows(stats: BoundIndex) -> Ints:
    """(files,) rows that a scan gives of each file, -1 where that is not known."""
    altered = stats.snapshot.altered
    if stats.snapshot.reader is not None:
        return np.full_like(stats.rows, -1)
    return stats.rows if altered is None else np.where(altered, -1, stats.rows)


def column_of(stats: BoundIndex, name: str, type_json: str) -> ColumnStats | None:
    """What is known of a top-level column, if that is of the type by which a query knows it.

    type_json: as Spark writes it.
    """
    found = stats.column((name,))
    return found if found is not None and f'"{found.type}"' == type_json and not found.type.is_char else None


def _left(choice: Choice, kept: Bools, text: str, kind: str, reason: str) -> Choice:
    skipped = int((choice.kept & ~kept).sum())
    leaf = LeafReport(sql=text, skipped=skipped, kind=kind, reason="" if skipped else reason)
    return replace(choice, kept=kept, leaves=(*choice.leaves, leaf))
