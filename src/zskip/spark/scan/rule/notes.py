"""What the rule noted of a query for a scan, applied when the scan lists its files: one function a kind of note."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from zskip.spark.jvm.gateway import JavaObject
from zskip.spark.scan.counts.counts import without_counted
from zskip.spark.scan.first_rows.first_rows import keep_enough, keep_top
from zskip.spark.scan.joins import keys as joins
from zskip.spark.scan.listings.choice import Choice

if TYPE_CHECKING:
    from zskip.spark.scan.rule.file_index import PrunedFileIndex

Refine: TypeAlias = Callable[["PrunedFileIndex", Choice, JavaObject], Choice]
"""What a note, an object in the JVM, leaves of a choice of files; what it raises leaves the choice as it was."""

REFINE: dict[str, Refine] = {"join": joins.with_partners, "top-k": keep_top, "limit": keep_enough}
"""By the kind of note, in the order in which they are applied."""

NEEDED: dict[str, Refine] = {"count": without_counted}
"""The same of notes without which a query would be wrong: what they raise, the query raises."""

PLANNED = frozenset({"count", "top-k", "limit"})
"""Kinds that take no time, so that plans tell what they leave."""
