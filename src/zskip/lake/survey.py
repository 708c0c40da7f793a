"""Survey a lake: examine each table by its metadata, and draw samples of the few that are worth a look."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from zskip.errors import InputError, ZskipError
from zskip.lake.examine import Examined, Known, Terms, describe_action, examine
from zskip.lake.find import FoundTable
from zskip.lake.ranking import PAY_DAYS
from zskip.lake.results import Survey, TableHealth
from zskip.table.advice.advise import advise
from zskip.table.optimize_request import AUTO, check_request
from zskip.terminal import bar

_AT_ONCE = 32
"""Tables examined at the same time on stores, where each waits for answers."""
_log = logging.getLogger("zskip.lake")


def check_deep(deep: bool | int) -> int | None:
    """The most tables to draw samples of, None for all that are worth a look; raises InputError."""
    if isinstance(deep, bool):
        return None if deep else 0
    if not isinstance(deep, int) or deep < 0:
        raise InputError(f"deep={deep!r}: give True, or how many tables Spark may draw a sample of")
    return deep


def survey(tables: Sequence[FoundTable], deep: bool | int, known: Known | None = None) -> Survey:
    """Survey tables; see `Lake.survey`. known: results of an earlier survey, where nothing has changed."""
    started = time.monotonic()
    most = check_deep(deep)
    healths = [examined.health for examined in examine_all(tables, Terms(), known)]
    if most != 0:
        healths = _deepen(tables, healths, most)
    healths.sort(key=lambda health: (bool(health.error), -health.gain, -health.bytes_read_a_day, health.table))
    return Survey(tables=tuple(healths), seconds=round(time.monotonic() - started, 3))


def examine_all(tables: Sequence[FoundTable], terms: Terms, known: Known | None = None) -> list[Examined]:
    """Examine tables, several at once where they are far away."""

    def look(table: FoundTable) -> Examined:
        if table.handle is None:
            return Examined(health=TableHealth(table=table.name, error=table.error))
        return examine(table.name, table.handle, terms, known)

    is_far = any(table.handle is not None and table.handle.storage.kind != "disk" for table in tables)
    results: list[Examined] = []
    with bar("examine tables", "tables") as progress, ThreadPoolExecutor(_AT_ONCE if is_far else 1) as pool:
        for examined in pool.map(look, tables):
            results.append(examined)
            progress.update(len(results), len(tables))
    return results


def _deepen(tables: Sequence[FoundTable], healths: Sequence[TableHealth], most: int | None) -> list[TableHealth]:
    """Draw a sample of the tables that queries read most and no layout serves, and compare layouts on it."""
    by_name = {table.name: table for table in tables}
    worthwhile = [h for h in healths if h.is_recorded and not h.clustered_by and not h.error and h.queries_a_day > 0]
    worthwhile.sort(key=lambda health: -health.bytes_read_a_day)
    chosen = {health.table for health in worthwhile[:most]}
    return [_advise(by_name[health.table], health) if health.table in chosen else health for health in healths]


def _advise(table: FoundTable, health: TableHealth) -> TableHealth:
    assert table.handle is not None
    table.handle.need_spark("survey(deep=...)")
    try:
        advice = advise(table.handle, check_request(by=AUTO, curve=AUTO))
    except ZskipError as error:
        _log.info("%s: no advice: %s", table.name, error)
        return dataclasses.replace(health, reason=f"{health.reason}; there is no advice: {error}")
    best, current = advice.best, advice.current
    if best is None:
        return health
    saved = health.queries_a_day * (current.kept - best.kept) * health.bytes
    deepened = describe_action(
        health,
        f"optimize by {', '.join(best.by)}",
        best.by,
        rewritten=best.bytes_to_write,
        saved_bytes=saved,
        saved_files=health.queries_a_day * (current.kept * health.files - best.kept * best.files),
        saved=saved,
    )
    is_better = deepened.saved_bytes_a_day >= health.saved_bytes_a_day or health.action.startswith("optimize")
    pays = deepened.days_to_pay is not None and deepened.days_to_pay <= PAY_DAYS
    return deepened if is_better and pays else health
