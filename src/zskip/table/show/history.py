"""List what zskip did to a table, and what queries read between operations."""

from __future__ import annotations

import dataclasses

from zskip.records import Operation
from zskip.table.handle import Handle
from zskip.table.journal import read_history
from zskip.table.workload.recording import read_reservoir


def history(handle: Handle) -> tuple[Operation, ...]:
    """All operations, the latest first, each with what the scans recorded after it read."""
    operations = [record.operation for record in reversed(read_history(handle.home))]
    times = sorted({operation.time_ms for operation in operations})
    measured = dict(zip(times, read_reservoir(handle).shares_since(times), strict=True)) if times else {}
    with_scans = ((operation, *measured[operation.time_ms]) for operation in operations)
    return tuple(dataclasses.replace(o, share_measured=share, scans=scans) for o, share, scans in with_scans)
