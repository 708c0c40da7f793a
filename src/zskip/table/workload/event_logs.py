"""Spark's event logs as a source of a table's workload."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from zskip.advisor.workload.event_logs import LoggedScan, is_at, scans_of, sql_of
from zskip.advisor.workload.predicate_text import text_of
from zskip.advisor.workload.reservoir import Entry, priority
from zskip.advisor.workload.workload import Problem, Workload
from zskip.errors import InputError, StorageError
from zskip.predicate import Columns, parse
from zskip.storage import Storage
from zskip.table.handle import Handle
from zskip.table.predicates import table_columns
from zskip.table.session import time_zone
from zskip.table.snapshot import read_snapshot
from zskip.table.workload.recording import add_scans, read_workload

_ROLLED = re.compile(r"events_\d+_.*")
_ZSTD = b"\x28\xb5\x2f\xfd"
_OTHERS = (".lz4", ".lzf", ".snappy")
_MOST_PROBLEMS = 1_000


def import_event_logs(handle: Handle, place: str) -> Workload:
    """Read the logs in a place into the recorded workload; as `Table.import_workload` says."""
    columns = table_columns(handle, read_snapshot(handle))
    entries: list[Entry] = []
    problems: list[Problem] = []
    logs = seen = 0
    storage, paths = _logs(handle, place)
    for path in paths:
        logs += 1
        name = path.rpartition("/")[2].removesuffix(".inprogress")
        for scan in scans_of(_lines(storage, path, problems)):
            seen += 1
            if is_at(scan.location, handle.storage.root):
                where = _where(scan, columns, time_zone(handle), problems)
                entries.append(Entry(_priority(scan, where, name), scan.time_ms, where, -1, -1))
    if not logs:
        raise InputError(f'"{place}" holds no event log of Spark; give the directory of spark.eventLog.dir')
    if not entries:
        why = "; ".join(map(str, problems[:1])) or f"none of the {seen:,} scans of files in them lies there"
        raise InputError(f'the {logs:,} event logs in "{place}" tell of no scan of "{handle.storage.root}": {why}')
    add_scans(handle, entries)
    return dataclasses.replace(read_workload(handle), problems=tuple(problems))


def _where(scan: LoggedScan, columns: Columns, timezone: str, problems: list[Problem]) -> str:
    """The filters that can be read, as one predicate; those that cannot are problems."""
    found = []
    for text in scan.filters:
        try:
            found.append(parse(sql_of(text, columns), columns, timezone=timezone))
        except InputError as error:
            if len(problems) < _MOST_PROBLEMS:
                problems.append(Problem(number=scan.execution, text=text, reason=str(error).splitlines()[0]))
    return text_of(found)


def _priority(scan: LoggedScan, where: str, name: str) -> float:
    """The same for the same scan, however often its log is read."""
    digest = hashlib.blake2b(f"{name}\n{scan.execution}\n{where}".encode(), digest_size=8).digest()
    return priority(scan.time_ms, (int.from_bytes(digest, "big") + 0.5) / 2**64)


def _logs(handle: Handle, place: str) -> tuple[Storage, list[str]]:
    """The files of a log, or of all in a directory; rolling logs are directories with several."""
    storage = handle.storage_at(place)
    found = storage.stat("")
    if found is None:
        raise InputError(f'there is nothing at "{place}"; give the directory of spark.eventLog.dir')
    if not found.is_dir:
        parent, _, name = place.rpartition("/")
        return handle.storage_at(parent or ("/" if place.startswith("/") else ".")), [name]
    paths = []
    for entry in storage.list_dir(""):
        name = entry.path.rpartition("/")[2]
        if entry.is_dir and name.startswith("eventlog_v2_"):
            inside = storage.list_dir(entry.path)
            paths += sorted(f.path for f in inside if _ROLLED.fullmatch(f.path.rpartition("/")[2]))
        elif not entry.is_dir and (_ROLLED.fullmatch(name) or not name.startswith((".", "_", "appstatus_"))):
            paths.append(entry.path)
    return storage, paths


def _lines(storage: Storage, path: str, problems: list[Problem]) -> Iterator[str]:
    """The lines of a log, as far as they go: one that is being written, or was cut short, ends early."""
    if path.removesuffix(".inprogress").endswith(_OTHERS):
        reason = "zskip does not read its compression; write logs with spark.eventLog.compression.codec=zstd"
        problems.append(Problem(number=0, text=path, reason=reason))
        return
    try:
        with storage.open(path) as stream:
            yield from _decoded(stream)
    except (OSError, pa.ArrowException, StorageError) as error:
        problems.append(Problem(number=0, text=path, reason=f"it ends early ({str(error).splitlines()[0]})"))


def _decoded(stream: BinaryIO) -> Iterator[str]:
    start = stream.read(4)
    stream.seek(0)
    source = pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd") if start == _ZSTD else stream
    rest = b""
    while chunk := source.read(1 << 20):
        *lines, rest = (rest + bytes(chunk)).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
