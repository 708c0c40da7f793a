"""Recording a table's workload: scans are noted in memory, and written in the background and at exit.

The reservoir lies in `_zskip/workload/`, one file a version, of which the highest number counts; `on` beside it says
that scans are recorded. Two processes that write at once race for one number: who loses merges and takes the next.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import heapq
import logging
import random
import re
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zskip.advisor.workload.predicate_text import text_of
from zskip.advisor.workload.reservoir import MOST_ENTRIES, DamagedReservoirError, Entry, Reservoir, priority
from zskip.advisor.workload.workload import Workload
from zskip.errors import IndexFormatError, InputError, StorageError, ZskipError, ZskipWarning
from zskip.formats import HOME
from zskip.records import Field, ScanReport
from zskip.storage import Storage
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.scan.filters.catalyst import Filters

_log = logging.getLogger("zskip.workload")
_DIRECTORY = f"{HOME}/workload"
_ON = f"{_DIRECTORY}/on"
_NAME = re.compile(r"(\d{10})\.reservoir")
_TRIES = 20
_PERIOD, _SHARE = 15.0, 0.001
"""Seconds between two writes of the background, and the share of a processor that they may take."""

Text = Callable[[], str]
"""The predicate of a scan as SQL; asked for in the background."""


def record(handle: Handle, on: bool) -> None:
    """Switch recording on or off for all who read the table; raises as `Table.record`."""
    if not isinstance(on, bool):
        raise InputError(f"record({on!r}): say True or False")
    home = home_of(handle)
    _asked.pop(home.root, None)
    if on:
        home.write(_ON, b"", overwrite=True)
    else:
        flush()
        home.delete(_ON)


def read_workload(handle: Handle, *, clear: bool = False) -> Workload:
    """What was recorded, then emptied if asked for.

    Raises IndexFormatError where another version of zskip wrote it, unless it is emptied, and StorageError where it
    cannot be read.
    """
    flush()
    home = home_of(handle)
    held = _emptied(home) if clear else _latest_or_new(home)[1]
    rows, files = ([n for n in (getattr(e, name) for e in held.entries) if n >= 0] for name in ("rows", "files"))
    return Workload(
        queries=held.queries(_now_ms()),
        scans=held.scans,
        since=None if held.since_ms is None else dt.datetime.fromtimestamp(held.since_ms / 1000, dt.timezone.utc),
        rows_read=sum(rows) / len(rows) if rows else None,
        files_read=sum(files) / len(files) if files else None,
        recording=home.stat(_ON) is not None,
        source="recorded",
    )


def recorded(handle: Handle) -> Reservoir:
    """The scans that are kept; none where they cannot be read."""
    flush()
    try:
        return _latest(home_of(handle))[1]
    except (ZskipError, OSError) as error:
        _log.info("the recorded workload is left out: %s", error)
        return Reservoir()


def add_scans(handle: Handle, entries: Sequence[Entry]) -> None:
    """Add scans that others have noted; raises StorageError where they cannot be written."""
    _publish(home_of(handle), lambda held: held.add(entries, len(entries)))


class Recorder:
    """Notes the scans of one table; made once a process and table."""

    def __init__(self, home: Storage) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._random = random.Random()
        self._pending: list[tuple[float, int, int, tuple[int, int, int], Text]] = []
        self._scans = 0
        self._turn = 0
        self._threshold = float("-inf")
        self._rests_until = 0.0

    def note(self, text: Text, report: ScanReport) -> None:
        """Note a scan; text: its predicate, asked for later and only if the scan is kept."""
        now = _now_ms()
        rank = priority(now, self._random.random() or 0.5)
        with self._lock:
            self._scans += 1
            if rank <= self._threshold:
                return
            self._turn += 1
            rows, total = (-1 if n is None else n for n in (report.rows, report.rows_total))
            entry = (rank, self._turn, now, (rows, report.files, total), text)
            if len(self._pending) < MOST_ENTRIES:
                heapq.heappush(self._pending, entry)
            else:
                self._threshold = max(self._threshold, heapq.heappushpop(self._pending, entry)[0])

    def flush(self, *, now: bool = True) -> None:
        """Write what was noted, or only if it is time; raises ZskipError where that is not possible."""
        if not now and time.monotonic() < self._rests_until:
            return
        started = time.thread_time()
        with self._writing:
            with self._lock:
                pending, scans, left = self._pending, self._scans, self._threshold
                self._pending, self._scans = [], 0
            if not scans:
                return
            entries = [
                Entry(rank, now, where, *counts) for rank, _, now, counts, text in pending if (where := _text_of(text))
            ]
            self._threshold = _publish(self._home, lambda held: held.add(entries, scans, left)).threshold
            self._rests_until = time.monotonic() + (time.thread_time() - started) / _SHARE

    def forget(self) -> None:
        """Note whatever comes: the sample is empty again."""
        with self._lock:
            self._pending, self._scans, self._threshold = [], 0, float("-inf")


_asked: dict[str, tuple[float, bool]] = {}
"""When it was asked whether the scans of a table are recorded, and the answer."""
_recorders: dict[str, Recorder] = {}
_guard = threading.Lock()
_sources: dict[int, Callable[[], None]] = {}
"""By the JVM: what brings over scans of which only it knows."""


def recorder(home: Storage) -> Recorder | None:
    """Who notes the scans of the table whose workload lies here; None where it is not recorded, or nobody can tell."""
    try:
        return _recorder(home)
    except Exception:
        _log.debug("nobody can tell whether scans are recorded", exc_info=True)
        return None


def noting(
    home: Storage, fields: Sequence[Field], case_sensitive: bool
) -> Callable[[Sequence[Filters], ScanReport], None] | None:
    """Notes scans of Spark for the workload; None as `recorder` says.

    fields: all columns of the table.
    """
    found = recorder(home)
    if found is None:
        return None

    def note(filters: Sequence[Filters], report: ScanReport) -> None:
        found.note(lambda: text_of(f.predicate(fields, case_sensitive=case_sensitive) for f in filters), report)

    return note


def record_session(spark: SparkSession) -> None:
    """Let the queries of a session that reads through zskip by itself be noted, too, of tables that are recorded."""
    from zskip.spark.jvm.gateway import Jvm
    from zskip.spark.scan.rule.indexed import tell
    from zskip.spark.scan.rule.reports import bring

    try:
        jvm = Jvm.of(spark)
        tell(noting)
        _sources[id(jvm)] = lambda: bring(jvm)
    except Exception:
        _log.warning("the queries of this session will not be recorded", exc_info=True)


def _is_on(home: Storage) -> bool:
    """Whether scans are recorded; across a network it is asked now and then only."""
    known = _asked.get(home.root)
    if home.kind != "disk" and known is not None and time.monotonic() - known[0] < _PERIOD:
        return known[1]
    try:
        home.read(_ON)
        on = True
    except FileNotFoundError:
        on = False
    _asked[home.root] = time.monotonic(), on
    return on


def _recorder(home: Storage) -> Recorder | None:
    if not _is_on(home):
        return None
    with _guard:
        if not _recorders:
            atexit.register(flush)
            threading.Thread(target=_write_now_and_then, name="zskip-workload", daemon=True).start()
        return _recorders.setdefault(home.root, Recorder(home))


def flush(*, now: bool = True) -> None:
    """Write what all recorders have noted, or what it is time to write; whatever fails is logged and forgotten."""
    for bring in list(_sources.values()) if _recorders else []:
        try:
            bring()
        except Exception:
            _log.debug("scans of a session are lost", exc_info=True)
    for found in list(_recorders.values()):
        try:
            found.flush(now=now)
        except Exception:
            _log.debug("a part of the workload is lost", exc_info=True)


def _write_now_and_then() -> None:
    while True:
        time.sleep(_PERIOD)
        flush(now=False)


def _text_of(text: Text) -> str:
    try:
        return text()
    except Exception:
        _log.debug("a predicate has no text", exc_info=True)
        return ""


def home_of(handle: Handle) -> Storage:
    """Where the workload lies: with the index."""
    return handle.home if handle.index_storage is None else handle.index_storage


def _emptied(home: Storage) -> Reservoir:
    """Put an empty reservoir, to which others add from now on, in place of the one that is returned."""
    found = [Reservoir()]

    def forget(held: Reservoir) -> Reservoir:
        found[0] = held
        return Reservoir()

    if _versions(home):
        _publish(home, forget, read=_latest_or_unread)
    if home.root in _recorders:
        _recorders[home.root].forget()
    return found[0]


def _publish(
    home: Storage,
    change: Callable[[Reservoir], Reservoir],
    read: Callable[[Storage], tuple[int, Reservoir]] | None = None,
) -> Reservoir:
    """Write a new version of the reservoir, whoever else does so, too."""
    for _ in range(_TRIES):
        number, held = (read or _latest_or_new)(home)
        changed = change(held)
        try:
            home.write(_path(number + 1), changed.to_bytes())
        except FileExistsError:
            continue
        # Twice, since a listing may miss what takes the place of another while it runs.
        known = sorted({*_versions(home), *_versions(home)})
        if known[-1:] > [number + 1]:
            # The name was free again: others have gone on without this. What they saw of it counts once.
            continue
        for version in known:
            if version <= number:
                with contextlib.suppress(ZskipError, OSError):
                    home.delete(_path(version))
        return changed
    raise StorageError("the recorded workload changes faster than it can be written")


def _latest_or_new(home: Storage) -> tuple[int, Reservoir]:
    try:
        return _latest(home)
    except DamagedReservoirError as error:
        number = max(_versions(home), default=0)
        warnings.warn(f'"{home.root}": {error}; it starts anew', ZskipWarning, stacklevel=2)
        with contextlib.suppress(ZskipError, OSError):
            home.delete(_path(number))
        return number, Reservoir()


def _latest_or_unread(home: Storage) -> tuple[int, Reservoir]:
    """The same, empty in place of what another version of zskip wrote."""
    try:
        return _latest_or_new(home)
    except IndexFormatError:
        return max(_versions(home), default=0), Reservoir()


def _latest(home: Storage) -> tuple[int, Reservoir]:
    """The newest version and its number; raises as `Reservoir.from_bytes`."""
    for _ in range(_TRIES):
        number = max(_versions(home), default=0)
        if not number:
            break
        try:
            return number, Reservoir.from_bytes(home.read(_path(number)))
        except FileNotFoundError:
            continue  # somebody has just written the next one
    return 0, Reservoir()


def _versions(home: Storage) -> list[int]:
    names = (file.path.rpartition("/")[2] for file in home.list_dir(_DIRECTORY))
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def _path(version: int) -> str:
    return f"{_DIRECTORY}/{version:010d}.reservoir"


def _now_ms() -> int:
    return int(time.time() * 1000)
