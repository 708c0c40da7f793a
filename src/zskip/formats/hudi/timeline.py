"""Hudi's timeline from the names of its files: which instants are complete, and which are pending."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zskip.storage import Storage

_HOME = ".hoodie"
_NAME = re.compile(r"([0-9]{14}(?:[0-9]{3})?)(_[0-9]+)?\.([a-z.]+)")
_WRITES = ("commit", "deltacommit", "replacecommit", "clustering", "compaction", "logcompaction", "restore")
"""Actions that change which files are live."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The instants at which a table was written or may still be."""

    complete: frozenset[str]
    pending: frozenset[str]
    unguarded: frozenset[str]
    """Pending instants whose writer, as far as is known, does not check for conflicts before it commits."""


def read_timeline(storage: Storage) -> Timeline:
    """Read a timeline in the layout of Hudi 1.x or 0.x."""
    # Writers that check for conflicts send a heartbeat, which shows that they are alive. It is read last.
    complete, started = set(), set()
    for directory in (f"{_HOME}/timeline", _HOME):
        for file in storage.list_dir(directory):
            match = _NAME.fullmatch(file.path.rpartition("/")[2])
            if match is None or file.is_dir:
                continue
            instant, _, ending = match.groups()
            action, _, state = ending.partition(".")
            if action == "inflight" or (action in _WRITES and state):
                started.add(instant)
            elif action in _WRITES:
                complete.add(instant)
    pending = started - complete
    alive = {file.path.rpartition("/")[2] for file in storage.list_dir(f"{_HOME}/.heartbeat")} if pending else set()
    return Timeline(complete=frozenset(complete), pending=frozenset(pending), unguarded=frozenset(pending - alive))
