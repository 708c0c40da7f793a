"""Scans under ORDER BY ... LIMIT and LIMIT: only the files that may hold the first rows, or as few as hold enough."""

from __future__ import annotations

import json

import numpy as np

from zskip.index import BoundIndex
from zskip.prune import Order, enough_files, top_files
from zskip.records import Bools, Ints, LeafReport
from zskip.spark.scan.bridge.expressions import find_typed_stats
from zskip.spark.scan.listings.choice import Choice


def keep_top(stats: BoundIndex, choice: Choice, note: str) -> Choice:
    """Keep the files that may hold one of the first rows by a column.

    note: as `FirstRows.java` writes it: name, key and type of the column, whether it is descending, nulls first, and
    not the only one, and how many rows.
    """
    name, key, type_json, descending, nulls_first, ties, rows = json.loads(note)
    text = f"top {rows} by {name}{' DESC' * descending}"
    column = find_typed_stats(stats, key, type_json)
    if column is None:
        return _narrow(choice, choice.kept, text, "top-k", f"no statistics of {name}")
    order = Order(rows=rows, descending=descending, nulls_first=nulls_first, ties=ties)
    kept = top_files(column, sure_rows(stats), order, kept=choice.kept, full=choice.full)
    kept = stats.snapshot.reading.add_changed(kept) & choice.kept
    return _narrow(choice, kept, text, "top-k", "fewer files might not hold the first rows")


def keep_enough(stats: BoundIndex, choice: Choice, note: int) -> Choice:
    """Keep as few files as surely hold the rows of a limit."""
    kept = enough_files(sure_rows(stats), note, kept=choice.kept, full=choice.full)
    return _narrow(choice, kept, f"limit {note}", "limit", "fewer files might not hold enough matching rows")


def sure_rows(stats: BoundIndex) -> Ints:
    """(files,) the rows of each file in a scan, -1 where unknown."""
    known = stats.rows >= 0
    return np.where(stats.snapshot.reading.drop_inexact(known), stats.rows, -1)


def _narrow(choice: Choice, kept: Bools, text: str, kind: str, reason: str) -> Choice:
    skipped = int((choice.kept & ~kept).sum())
    return choice.narrow(kept, LeafReport(sql=text, skipped=skipped, kind=kind, reason="" if skipped else reason))
