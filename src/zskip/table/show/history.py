"""What zskip did to a table, and what its queries read between one operation and the next."""

from __future__ import annotations

import dataclasses

from zskip.records import Operation
from zskip.table.handle import Handle
from zskip.table.journal import read_journal
from zskip.table.workload.recording import recorded


def history(handle: Handle) -> tuple[Operation, ...]:
    """All operations, the latest first, each with what the scans read that were recorded after it."""
    found = [record.operation for record in reversed(read_journal(handle.home))]
    moments = sorted({of.time_ms for of in found})
    measured = dict(zip(moments, recorded(handle).shares_since(moments), strict=True)) if moments else {}
    told = ((of, *measured[of.time_ms]) for of in found)
    return tuple(dataclasses.replace(of, share_measured=share, scans=scans) for of, share, scans in told)
