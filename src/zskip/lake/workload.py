"""Record the scans of a lake's tables, and import them from Spark's event logs in one pass."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence

from zskip.advisor.workload.event_logs import LoggedScan
from zskip.advisor.workload.reservoir import Entry
from zskip.advisor.workload.workload import Problem
from zskip.errors import InputError, StorageError, ZskipError, ZskipWarning
from zskip.lake.find import FoundTable, normalize_location
from zskip.lake.results import LakeWorkload
from zskip.table.handle import storage_at
from zskip.table.workload.event_logs import find_logs, read_logs, scan_reader
from zskip.table.workload.recording import add_scans
from zskip.table.workload.recording import record as record_table

_MOST_PROBLEMS = 100

Reader = Callable[[LoggedScan, str, list[Problem]], Entry]


def record(tables: Sequence[FoundTable], on: bool) -> None:
    """Switch recording on or off for all tables; see `Lake.record`."""
    if not isinstance(on, bool):
        raise InputError(f"record({on!r}): give True or False")
    failures: dict[str, str] = {}
    for table in tables:
        try:
            if table.handle is None:
                raise StorageError(table.error)
            record_table(table.handle, on)
        except ZskipError as error:
            if not table.is_foreign:
                failures[table.name] = str(error)
    if failures and len(failures) == len(tables):
        raise StorageError(f"no table can be recorded: {next(iter(failures.values()))}")
    for name, reason in failures.items():
        warnings.warn(f"scans of {name} are not recorded: {reason}", ZskipWarning, stacklevel=3)


def import_workload(tables: Sequence[FoundTable], event_logs: str) -> LakeWorkload:
    """Add the scans in event logs to the tables that they read; see `Lake.import_workload`."""
    by_location = {table.location: table for table in tables if table.handle is not None}
    spark = next((table.handle.spark for table in by_location.values() if table.handle is not None), None)
    logs = find_logs(lambda path: storage_at(path, spark), event_logs)
    readers: dict[str, Reader | None] = {}
    entries: defaultdict[str, list[Entry]] = defaultdict(list)
    problems: list[Problem] = []
    notes: list[str] = []
    scans = 0
    for name, scan in read_logs(logs, problems):
        scans += 1
        location = _find(scan.location, by_location)
        if location is None:
            continue
        if location not in readers:
            readers[location] = _reader(by_location[location], notes)
        reader = readers[location]
        if reader is not None:
            entries[location].append(reader(scan, name, problems))
    added: dict[str, int] = {}
    for location, found in entries.items():
        table = by_location[location]
        assert table.handle is not None
        try:
            add_scans(table.handle, found)
            added[table.name] = len(found)
        except ZskipError as error:
            notes.append(f"{table.name}: {error}")
    if not added:
        why = "; ".join([*notes, *map(str, problems[:1])][:1]) or f"none of the {scans:,} scans in them reads one"
        raise InputError(f'the {len(logs[1]):,} event logs in "{event_logs}" have no scan of these tables: {why}')
    texts = (*notes, *map(str, problems))
    return LakeWorkload(logs=len(logs[1]), scans=scans, tables=added, problems=texts[:_MOST_PROBLEMS])


def _reader(table: FoundTable, notes: list[str]) -> Reader | None:
    assert table.handle is not None
    try:
        return scan_reader(table.handle)
    except ZskipError as error:
        notes.append(f"{table.name}: {error}")
        return None


def _find(location: str, tables: dict[str, FoundTable]) -> str | None:
    """The location of the table that a scan's first path is, or lies in."""
    path = normalize_location(location.split(", ")[0])
    while path not in tables:
        path, slash, _ = path.rpartition("/")
        if not slash:
            return None
    return path
