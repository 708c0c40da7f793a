"""The notes of a query for a scan, applied when the scan lists its files: one function per kind of note."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from zskip.index import BoundIndex
from zskip.spark.scan.conditions.conditions import keep_matches
from zskip.spark.scan.counts.counts import drop_counted
from zskip.spark.scan.first_rows.first_rows import keep_enough, keep_top
from zskip.spark.scan.joins.keys import keep_partners
from zskip.spark.scan.listings.choice import Choice

Refine: TypeAlias = Callable[[BoundIndex, Choice, Any], Choice]
"""Narrows a choice of files by a note, as read from JSON; if it raises, the choice stays as it was."""

REFINE: dict[str, Refine] = {
    "condition": keep_matches,
    "join": keep_partners,
    "top-k": keep_top,
    "limit": keep_enough,
}
"""By the kind of note, in the order in which they are applied."""

NEEDED: dict[str, Refine] = {"count": drop_counted}
"""Notes that a correct answer needs: their errors are the query's."""
