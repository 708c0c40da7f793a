"""Survey a lake: examine each table by its metadata."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from zskip.lake.examine import Examined, examine
from zskip.lake.find import FoundTable
from zskip.lake.results import Survey, TableHealth
from zskip.terminal import bar

_AT_ONCE = 32
"""Tables examined at the same time on stores, where each waits for answers."""


def survey(tables: Sequence[FoundTable]) -> Survey:
    """Survey tables; see `Lake.survey`."""
    started = time.monotonic()
    healths = [examined.health for examined in examine_all(tables, min_gain=1.0, budget=None)]
    healths.sort(key=lambda health: (bool(health.error), -health.gain, -health.bytes_read_a_day, health.table))
    return Survey(tables=tuple(healths), seconds=round(time.monotonic() - started, 3))


def examine_all(tables: Sequence[FoundTable], min_gain: float, budget: int | None) -> list[Examined]:
    """Examine tables, several at once where they are far away; min_gain, budget: as in `examine`."""

    def look(table: FoundTable) -> Examined:
        if table.handle is None:
            return Examined(health=TableHealth(table=table.name, error=table.error))
        return examine(table.name, table.handle, min_gain, budget)

    is_far = any(table.handle is not None and table.handle.storage.kind != "disk" for table in tables)
    results: list[Examined] = []
    with bar("examine tables", "tables") as progress, ThreadPoolExecutor(_AT_ONCE if is_far else 1) as pool:
        for examined in pool.map(look, tables):
            results.append(examined)
            progress.update(len(results), len(tables))
    return results
