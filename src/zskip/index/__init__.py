"""The data-skipping index: statistics of every file, stored beside the table.

`refresh` reads the footers of files that have no valid entry, `Index.load(...).bind(snapshot)` answers what is
known of each live file, column by column. An entry is valid for one path, size and modification time.
"""

from __future__ import annotations

from zskip.index.bind import BoundIndex, bind_without_index
from zskip.index.collect.fill import CALENDAR_TYPES, Counted, Counting, Gaps, first_sure, ordered_columns
from zskip.index.describe import describe_parts
from zskip.index.index import Index, footers_only, garbage, refresh, refresh_sketches
from zskip.index.row_groups import KeptRowGroups, prune_row_groups
from zskip.index.store.manifest import DamagedIndexError

__all__ = [
    "CALENDAR_TYPES",
    "BoundIndex",
    "Counted",
    "Counting",
    "DamagedIndexError",
    "Gaps",
    "Index",
    "KeptRowGroups",
    "bind_without_index",
    "describe_parts",
    "first_sure",
    "footers_only",
    "garbage",
    "ordered_columns",
    "prune_row_groups",
    "refresh",
    "refresh_sketches",
]
