"""The data-skipping index: statistics of every file, stored beside the table.

`refresh` reads the footers of files without a valid entry; `Index.load(...).bind(snapshot)` returns the statistics of
each live file, column by column. An entry is valid for one path, size and modification time.
"""

from __future__ import annotations

from zskip.index.bound_index import BoundIndex, bind_without_index, partition_stats
from zskip.index.collect.fill_gaps import (
    CALENDAR_TYPES,
    CountedColumn,
    Counting,
    Gaps,
    first_unambiguous,
    has_plain_days,
    ordered_columns,
)
from zskip.index.expressions import key_specs
from zskip.index.index import Index, bind_footers, find_garbage, refresh, refresh_sketches
from zskip.index.indexed_parts import list_indexed_parts
from zskip.index.row_groups import KeptRowGroups, prune_row_groups
from zskip.index.store.manifest import DamagedIndexError
from zskip.index.store.sketches import Versions
