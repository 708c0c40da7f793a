"""What finished queries have shown of files: that no row makes a condition true; kept as long as the process lives."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar

import numpy as np

from zskip.index.store.sketches import depends_on_letters
from zskip.predicate import Opaque, Predicate, opaque, to_sql
from zskip.records import Bools, Ints, Snapshot
from zskip.sketch import FileSketches, Matches, SketchOn, normal, subjects
from zskip.sketch.implication import is_exact
from zskip.types import DataType

_MOST_TABLES, _MOST_FACTS, _MOST_FILES = 100, 500, 500_000
"""Tables, the facts of each, and the files of all facts of each."""
_lock = threading.Lock()
_File = tuple[str, int, int, int]


@dataclass(frozen=True)
class _Learned(Matches):
    """As the index would build it, but shown by a query."""

    kind: ClassVar[str] = "learned"


class Facts:
    """Files without a match, by the filters that have shown it; of one table, its columns and their names in files."""

    def __init__(self) -> None:
        self._numbers: dict[_File, int] = {}
        self._new_numbers = itertools.count()  # None comes again: an older fact may be in use.
        self._facts: OrderedDict[Predicate, tuple[SketchOn, Ints]] = OrderedDict()

    def add(self, filters: Predicate, snapshot: Snapshot, files: Ints) -> None:
        """Add that no row of some files makes all filters true.

        files: positions in the snapshot. Nothing is added of a filter that cannot be told from others, or that another
        session may compute otherwise.
        """
        condition = normal(filters)
        if not is_exact(filters) or not subjects(condition):
            return
        term = Opaque(opaque.CONDITION, (to_sql(filters, shorten=True),), DataType("boolean"))
        on = SketchOn(_Learned(), (term,), condition)
        if depends_on_letters(on):  # Of which a session may change its mind.
            return
        with _lock:
            names = [_identity(snapshot, file) for file in files.tolist()]
            numbers = np.array([self._numbers.setdefault(name, next(self._new_numbers)) for name in names], np.int64)
            on, known = self._facts.pop(condition, (on, numbers[:0]))
            self._facts[condition] = on, np.union1d(known, numbers)
            while len(self._facts) > _MOST_FACTS or self._size() > _MOST_FILES:
                self._facts.popitem(last=False)
            if not self._facts or len(self._numbers) > _MOST_FILES:  # Those of files that are gone stay until then.
                self._facts.clear()
                self._numbers.clear()

    def _size(self) -> int:
        return sum(len(files) for _, files in self._facts.values())

    def for_predicate(self, predicate: Predicate, snapshot: Snapshot) -> FileSketches | None:
        """The facts about what a predicate is about, as sketches of a snapshot's files; None if there are none."""
        with _lock:
            about = subjects(predicate) if self._facts else frozenset()
            facts = [fact for fact in self._facts.values() if not about.isdisjoint(fact[0].subjects)]
        numbers = cache(lambda: self._numbers_of(snapshot))  # Few of the facts serve a filter.
        conditions = tuple((on, partial(_may_match, numbers, files)) for on, files in facts)
        return FileSketches(len(snapshot), (), conditions) if conditions else None

    def _numbers_of(self, snapshot: Snapshot) -> Ints:
        with _lock:
            return np.array([self._numbers.get(_identity(snapshot, file), -1) for file in range(len(snapshot))])


def _may_match(numbers: Callable[[], Ints], without: Ints) -> Bools:
    return ~np.isin(numbers(), without)


def _identity(snapshot: Snapshot, file: int) -> _File:
    identity = 0 if snapshot.identities is None else int(snapshot.identities[file])
    return snapshot.paths[file], int(snapshot.sizes[file]), int(snapshot.mtimes_ms[file]), identity


_tables: OrderedDict[Hashable, Facts] = OrderedDict()


def facts_of(*table: Hashable) -> Facts:
    """The facts of a table; table: all that decides what its files and its columns are."""
    with _lock:
        facts = _tables.pop(table, None) or Facts()
        _tables[table] = facts
        if len(_tables) > _MOST_TABLES:
            _tables.popitem(last=False)
        return facts
