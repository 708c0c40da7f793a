"""Turns at tables: of several calls at once, one maintains a table, and the others go on to the next.

A turn is a directory `turns/<id>` in the table's operations with its owner's record, which the owner renews. Whoever
wants a turn writes a directory, then looks for others: if one is alive, both step back. So two calls never hold one
table, even on stores where only single files are atomic, and by the store's clock alone. A dead owner's turn ends at
once on its own host, elsewhere after `_LEASE_MS`. Rows never depend on turns: commits check that files are unchanged.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from zskip.errors import ZskipError
from zskip.formats import OPERATIONS, claims
from zskip.storage import FileInfo, Storage

_TURNS = f"{OPERATIONS}/turns"
_RENEW_SECONDS = 60.0
_LEASE_MS = 15 * 60 * 1000
_log = logging.getLogger("zskip.lake")


class Turns:
    """The turns that a call holds."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Storage] = {}
        """By table and directory."""
        self._lock = threading.Lock()

    def take(self, home: Storage) -> bool:
        """Take a turn at a table; False where another call has it. Raises StorageError where nobody may write."""
        mine = f"{_TURNS}/{uuid.uuid4().hex}"
        claims.claim(home, mine)
        try:
            others = [turn for turn in home.list_dir(_TURNS) if turn.path != mine]
            is_free = all(_is_over(home, turn, mine) for turn in others)
        except BaseException:
            _drop(home, mine)
            raise
        for turn in others if is_free else ():
            _drop(home, turn.path)
        if not is_free:
            _drop(home, mine)
            return False
        with self._lock:
            self._held[home.root, mine] = home
        return True

    def renew(self) -> None:
        """Tell others that the owner is alive; a turn that cannot be renewed is left to its lease."""
        with self._lock:
            held = list(self._held.items())
        for (_, turn), home in held:
            try:
                claims.renew(home, turn)
            except (ZskipError, OSError):
                _log.info("cannot renew the turn at %s", home.root, exc_info=True)

    def give_back(self, home: Storage) -> None:
        """End the turn at a table."""
        with self._lock:
            mine = [key for key in self._held if key[0] == home.root]
            for key in mine:
                del self._held[key]
        for _, turn in mine:
            _drop(home, turn)

    def give_back_all(self) -> None:
        """End all turns."""
        for home in list(self._held.values()):
            self.give_back(home)


@contextmanager
def holding_turns() -> Iterator[Turns]:
    """Give turns that are renewed in the background, and end with the body."""
    turns, ended = Turns(), threading.Event()

    def renew() -> None:
        while not ended.wait(_RENEW_SECONDS):
            turns.renew()

    thread = threading.Thread(target=renew, name="zskip-turns", daemon=True)
    thread.start()
    try:
        yield turns
    finally:
        ended.set()
        thread.join()
        turns.give_back_all()


def _is_over(home: Storage, turn: FileInfo, mine: str) -> bool:
    """Whether another's turn is over: its owner is dead on this host, or has not renewed it for a while."""
    if claims.is_abandoned(home, turn):
        return True
    renewed, now = claims.renewed_ms(home, turn.path), claims.renewed_ms(home, mine)
    return now is not None and now - (turn.mtime_ms if renewed is None else renewed) > _LEASE_MS


def _drop(home: Storage, turn: str) -> None:
    with contextlib.suppress(ZskipError, OSError):
        home.delete(turn)
