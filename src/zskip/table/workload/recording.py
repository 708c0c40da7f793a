"""Record a table's workload: note scans in memory, and write them in the background and at exit.

The reservoir lies in `_zskip/workload/`, one file a version; the highest number counts. The file `on` beside it
switches recording on. Two processes that write at once race for one number; the loser merges and takes the next.
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
from zskip.predicate import Predicate
from zskip.records import Field, ScanReport
from zskip.storage import Storage
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.scan.bridge.filters import Filters
    from zskip.spark.scan.rule.reports import OnFilters

_log = logging.getLogger("zskip.workload")
_DIRECTORY = f"{HOME}/workload"
_ON = f"{_DIRECTORY}/on"
_NAME = re.compile(r"(\d{10})\.reservoir")
_TRIES = 20
_PERIOD, _SHARE = 15.0, 0.001
"""Seconds between two background writes, and the share of a processor that they may take."""

Text = Callable[[], str]
"""Gives the predicate of a scan as SQL; called in the background."""


def record(handle: Handle, on: bool) -> None:
    """Switch recording on or off for all readers of the table; raises as `Table.record`."""
    if not isinstance(on, bool):
        raise InputError(f"record({on!r}): give True or False")
    home = home_of(handle)
    _switches.pop(home.root, None)
    if on:
        home.write(_ON, b"", overwrite=True)
    else:
        flush()
        home.delete(_ON)


def read_workload(handle: Handle, *, clear: bool = False) -> Workload:
    """Read the recorded workload; clear: and empty it.

    Raises IndexFormatError where another version of zskip wrote it, unless it is cleared, and StorageError where it
    cannot be read.
    """
    flush()
    home = home_of(handle)
    reservoir = _empty(home) if clear else _latest_or_new(home)[1]
    rows, files = ([n for n in (getattr(e, name) for e in reservoir.entries) if n >= 0] for name in ("rows", "files"))
    return Workload(
        queries=reservoir.queries(_now_ms()),
        scans=reservoir.scans,
        since=None
        if reservoir.since_ms is None
        else dt.datetime.fromtimestamp(reservoir.since_ms / 1000, dt.timezone.utc),
        rows_read=sum(rows) / len(rows) if rows else None,
        files_read=sum(files) / len(files) if files else None,
        recording=home.stat(_ON) is not None,
        source="recorded",
    )


def read_reservoir(handle: Handle) -> Reservoir:
    """Read the recorded scans; none where they cannot be read."""
    flush()
    try:
        return _latest(home_of(handle))[1]
    except (ZskipError, OSError) as error:
        _log.info("ignoring the recorded workload: %s", error)
        return Reservoir()


class Recorder:
    """Notes the scans of one table; one for each process and table."""

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
        """Note a scan; text: gives its predicate, called later and only if the sample keeps the scan."""
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
        """Write the noted scans, now or only when due; raises ZskipError where that fails."""
        if not now and time.monotonic() < self._rests_until:
            return
        started = time.thread_time()
        with self._writing:
            with self._lock:
                pending, scans, threshold = self._pending, self._scans, self._threshold
                self._pending, self._scans = [], 0
            if not scans:
                return
            entries = [
                Entry(rank, now, where, *counts) for rank, _, now, counts, text in pending if (where := _text_of(text))
            ]
            self._threshold = _publish(self._home, lambda reservoir: reservoir.add(entries, scans, threshold)).threshold
            self._rests_until = time.monotonic() + (time.thread_time() - started) / _SHARE

    def forget(self) -> None:
        """Start over with an empty sample."""
        with self._lock:
            self._pending, self._scans, self._threshold = [], 0, float("-inf")


_switches: dict[str, tuple[float, bool]] = {}
"""When a table's switch was last read, and its state."""
_recorders: dict[str, Recorder] = {}
_guard = threading.Lock()
_sources: dict[int, Callable[[], None]] = {}
"""For each JVM, a function that fetches scans that only the JVM knows."""


def recorder(home: Storage) -> Recorder | None:
    """The recorder of the table whose workload lies here; None where recording is off, or that cannot be read."""
    try:
        return _recorder(home)
    except Exception:
        _log.debug("cannot read whether scans are recorded", exc_info=True)
        return None


def scan_listener(home: Storage, fields: Sequence[Field], case_sensitive: bool) -> OnFilters | None:
    """Make a function that notes Spark's scans; None where `recorder` is None.

    fields: all columns of the table.
    """
    notes = recorder(home)
    if notes is None:
        return None

    def note(filters: Sequence[Filters], keys: Sequence[Predicate], report: ScanReport) -> None:
        def text() -> str:
            return text_of([*(f.predicate(fields, case_sensitive=case_sensitive) for f in filters), *keys])

        notes.note(text, report)

    return note


def record_session(spark: SparkSession) -> None:
    """Also record the queries of a session that reads through zskip by itself."""
    from zskip.spark.scan.rule.open_index import watch_scans

    try:
        watch_scans(scan_listener)
        collect_from(spark)
    except Exception:
        _log.warning("the queries of this session will not be recorded", exc_info=True)


def collect_from(spark: SparkSession) -> None:
    """Have the scans that only a session's JVM knows noted before anything is written or read."""
    from zskip.spark.jvm.gateway import Jvm
    from zskip.spark.scan.rule.reports import collect_scans

    jvm = Jvm.of(spark)
    _sources[id(jvm)] = lambda: collect_scans(jvm)


def _is_on(home: Storage) -> bool:
    """Whether scans are recorded; across a network the answer is cached for a while."""
    cached = _switches.get(home.root)
    if home.kind != "disk" and cached is not None and time.monotonic() - cached[0] < _PERIOD:
        return cached[1]
    try:
        home.read(_ON)
        on = True
    except FileNotFoundError:
        on = False
    _switches[home.root] = time.monotonic(), on
    return on


def _recorder(home: Storage) -> Recorder | None:
    if not _is_on(home):
        return None
    with _guard:
        if not _recorders:
            atexit.register(flush)
            threading.Thread(target=_write_periodically, name="zskip-workload", daemon=True).start()
        return _recorders.setdefault(home.root, Recorder(home))


def flush(*, now: bool = True) -> None:
    """Write what all recorders have noted, now or only when due; failures are logged and dropped."""
    for bring in list(_sources.values()):
        try:
            bring()
        except Exception:
            _log.debug("scans of a session are lost", exc_info=True)
    for table_recorder in list(_recorders.values()):
        try:
            table_recorder.flush(now=now)
        except Exception:
            _log.debug("a part of the workload is lost", exc_info=True)


def _write_periodically() -> None:
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
    """The storage of the workload: with the index."""
    return handle.home if handle.index_storage is None else handle.index_storage


def _empty(home: Storage) -> Reservoir:
    """Replace the reservoir by an empty one, and return it."""
    old = [Reservoir()]

    def forget(reservoir: Reservoir) -> Reservoir:
        old[0] = reservoir
        return Reservoir()

    if _versions(home):
        _publish(home, forget, read=_latest_or_unread)
    if home.root in _recorders:
        _recorders[home.root].forget()
    return old[0]


def _publish(
    home: Storage,
    change: Callable[[Reservoir], Reservoir],
    read: Callable[[Storage], tuple[int, Reservoir]] | None = None,
) -> Reservoir:
    """Write a new version of the reservoir, even while others do the same."""
    for _ in range(_TRIES):
        number, reservoir = (read or _latest_or_new)(home)
        changed = change(reservoir)
        try:
            home.write(_path(number + 1), changed.to_bytes())
        except FileExistsError:
            continue
        # Twice, since a listing may miss a file that replaces another while it runs.
        versions = sorted({*_versions(home), *_versions(home)})
        if versions[-1:] > [number + 1]:
            # The name was free again: others went on without this version. What they read of it counts once.
            continue
        for version in versions:
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
        warnings.warn(f'"{home.root}": {error}; it starts over', ZskipWarning, stacklevel=2)
        with contextlib.suppress(ZskipError, OSError):
            home.delete(_path(number))
        return number, Reservoir()


def _latest_or_unread(home: Storage) -> tuple[int, Reservoir]:
    """Read the latest reservoir, an empty one where another version of zskip wrote it."""
    try:
        return _latest_or_new(home)
    except IndexFormatError:
        return max(_versions(home), default=0), Reservoir()


def _latest(home: Storage) -> tuple[int, Reservoir]:
    """Read the newest version and its number; raises as `Reservoir.from_bytes`."""
    for _ in range(_TRIES):
        number = max(_versions(home), default=0)
        if not number:
            break
        try:
            return number, Reservoir.from_bytes(home.read(_path(number)))
        except FileNotFoundError:
            continue  # another process has just written the next one
    return 0, Reservoir()


def _versions(home: Storage) -> list[int]:
    names = (file.path.rpartition("/")[2] for file in home.list_dir(_DIRECTORY))
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def _path(version: int) -> str:
    return f"{_DIRECTORY}/{version:010d}.reservoir"


def _now_ms() -> int:
    return int(time.time() * 1000)
