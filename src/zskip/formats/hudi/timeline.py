"""Hudi's timeline by the names of its files: which instants are complete, and which may yet be."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zskip.storage import Storage

_HOME = ".hoodie"
_NAME = re.compile(r"([0-9]{14}(?:[0-9]{3})?)(_[0-9]+)?\.([a-z.]+)")
_WRITES = ("commit", "deltacommit", "replacecommit", "clustering", "compaction", "logcompaction", "restore")
"""Actions after which other files are live."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """The instants at which a table was written or may be about to be."""

    complete: frozenset[str]
    pending: frozenset[str]
    unguarded: frozenset[str]
    """Those of `pending` whose writer does not look for conflicts before it commits, as far as can be told."""


def read_timeline(storage: Storage) -> Timeline:
    """List a timeline in the layout of Hudi 1.x or of 0.x."""
    # Those which look for conflicts send a heartbeat, so that nobody takes them for dead. It is looked at last.
    complete, begun = set(), set()
    for directory in (f"{_HOME}/timeline", _HOME):
        for file in storage.list_dir(directory):
            found = _NAME.fullmatch(file.path.rpartition("/")[2])
            if found is None or file.is_dir:
                continue
            instant, _, ending = found.groups()
            action, _, state = ending.partition(".")
            if action == "inflight" or (action in _WRITES and state):
                begun.add(instant)
            elif action in _WRITES:
                complete.add(instant)
    pending = begun - complete
    alive = {file.path.rpartition("/")[2] for file in storage.list_dir(f"{_HOME}/.heartbeat")} if pending else set()
    return Timeline(complete=frozenset(complete), pending=frozenset(pending), unguarded=frozenset(pending - alive))
