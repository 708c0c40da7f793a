"""Record the scans of a lake's tables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from zskip.errors import StorageError, ZskipError, ZskipWarning
from zskip.lake.find import FoundTable
from zskip.table.optimize_request import read_flag
from zskip.table.workload.recording import record as record_table


def record(tables: Sequence[FoundTable], on: bool) -> None:
    """Switch recording on or off for all tables; see `Lake.record`."""
    read_flag("on", on)
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
