"""Import a table's workload from Spark's event logs."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa

from zskip.advisor.workload.event_logs import LoggedScan, is_at, read_scans, to_spark_sql
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


def import_event_logs(handle: Handle, path: str) -> Workload:
    """Add the scans in event logs to the recorded workload; see `Table.import_workload`."""
    entry_of = scan_reader(handle)
    entries: list[Entry] = []
    problems: list[Problem] = []
    scans = 0
    logs = find_logs(handle.storage_at, path)
    for name, scan in read_logs(logs, problems):
        scans += 1
        if is_at(scan.location, handle.storage.root):
            entries.append(entry_of(scan, name, problems))
    if not entries:
        why = "; ".join(map(str, problems[:1])) or f"none of the {scans:,} scans in them reads it"
        raise InputError(f'the {len(logs[1]):,} event logs in "{path}" have no scan of "{handle.storage.root}": {why}')
    add_scans(handle, entries)
    return dataclasses.replace(read_workload(handle), problems=tuple(problems))


def read_logs(logs: tuple[Storage, list[str]], problems: list[Problem]) -> Iterator[tuple[str, LoggedScan]]:
    """Read the scans of all tables in some logs, each with the name of its log; logs: as `find_logs` gives them."""
    storage, paths = logs
    for path in paths:
        name = path.rpartition("/")[2].removesuffix(".inprogress")
        for scan in read_scans(_lines(storage, path, problems)):
            yield name, scan


def scan_reader(handle: Handle) -> Callable[[LoggedScan, str, list[Problem]], Entry]:
    """Make the function that turns a scan of the table in a log of some name into an entry of its workload."""
    columns, zone = table_columns(handle, read_snapshot(handle)), time_zone(handle)

    def read(scan: LoggedScan, log: str, problems: list[Problem]) -> Entry:
        where = _where(scan, columns, zone, problems)
        return Entry(_priority(scan, where, log), scan.time_ms, where, -1, -1)

    return read


def _where(scan: LoggedScan, columns: Columns, timezone: str, problems: list[Problem]) -> str:
    """Join the readable filters into one predicate; the others become problems."""
    predicates = []
    for text in scan.filters:
        try:
            predicates.append(parse(to_spark_sql(text, columns), columns, timezone=timezone))
        except InputError as error:
            if len(problems) < _MOST_PROBLEMS:
                problems.append(Problem(number=scan.execution, text=text, reason=str(error).splitlines()[0]))
    return text_of(predicates)


def _priority(scan: LoggedScan, where: str, name: str) -> float:
    """A priority that is the same each time the log is read."""
    digest = hashlib.blake2b(f"{name}\n{scan.execution}\n{where}".encode(), digest_size=8).digest()
    return priority(scan.time_ms, (int.from_bytes(digest, "big") + 0.5) / 2**64)


def find_logs(storage_at: Callable[[str], Storage], path: str) -> tuple[Storage, list[str]]:
    """Find the files of a log, or of all logs in a directory; a rolling log is a directory of files.

    storage_at: opens a directory. Raises InputError where there is no log.
    """
    storage = storage_at(path)
    info = storage.stat("")
    if info is None:
        raise InputError(f'there is nothing at "{path}"; give the directory of spark.eventLog.dir')
    if not info.is_dir:
        parent, _, name = path.rpartition("/")
        return storage_at(parent or ("/" if path.startswith("/") else ".")), [name]
    paths = []
    for entry in storage.list_dir(""):
        name = entry.path.rpartition("/")[2]
        if entry.is_dir and name.startswith("eventlog_v2_"):
            files = storage.list_dir(entry.path)
            paths += sorted(f.path for f in files if _ROLLED.fullmatch(f.path.rpartition("/")[2]))
        elif not entry.is_dir and (_ROLLED.fullmatch(name) or not name.startswith((".", "_", "appstatus_"))):
            paths.append(entry.path)
    if not paths:
        raise InputError(f'"{path}" holds no Spark event log; give the directory of spark.eventLog.dir')
    return storage, paths


def _lines(storage: Storage, path: str, problems: list[Problem]) -> Iterator[str]:
    """The lines of a log; one that is still written, or was cut short, ends early."""
    if path.removesuffix(".inprogress").endswith(_OTHERS):
        reason = "zskip does not read its compression; write logs with spark.eventLog.compression.codec=zstd"
        problems.append(Problem(number=0, text=path, reason=reason))
        return
    try:
        with storage.open(path) as stream:
            yield from _decode(stream)
    except (OSError, pa.ArrowException, StorageError) as error:
        problems.append(Problem(number=0, text=path, reason=f"it ends early ({str(error).splitlines()[0]})"))


def _decode(stream: BinaryIO) -> Iterator[str]:
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
