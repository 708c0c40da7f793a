"""Filters of a scan, as `FilterText.java` describes them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from zskip.index.store.cache import ByteCache
from zskip.predicate import Predicate, from_filters
from zskip.predicate.sql.catalyst import text_of
from zskip.records import Field
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.gateway import JavaObject, Jvm

_BYTES_PER_CHAR = 50
"""A predicate takes about so many times the characters of its filters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Conjuncts of a scan's filter."""

    described: str
    """As JSON."""

    def __len__(self) -> int:
        return len(self._read()["trees"])

    @property
    def sql(self) -> tuple[str, ...]:
        """The text of each, for people."""
        return tuple(map(text_of, self._read()["trees"]))

    @property
    def columns(self) -> dict[str, str]:
        """The text of each column that occurs, with quotes, and the name of the column."""
        columns: dict[str, str] = self._read()["columns"]
        return columns

    @property
    def foreign(self) -> frozenset[int]:
        """Which hold functions of another time zone than the session's, functions that are not Spark's, or no text."""
        return frozenset(self._read()["foreign"])

    def predicate(self, fields: Sequence[Field], *, case_sensitive: bool) -> Predicate:
        """All of them as one predicate over the columns of the table; what is not understood is Unknown.

        The latest are kept, so that a query that comes again is not read again.
        """
        key = self.described, tuple(fields), case_sensitive
        predicate: Predicate | None = _CACHE.get(key)
        if predicate is None:
            predicate = _bind(*key)
            _CACHE.put(key, predicate, _BYTES_PER_CHAR * len(self.described))
        return predicate

    def _read(self) -> dict[str, Any]:
        filters: dict[str, Any] | None = _CACHE.get(self.described)
        if filters is None:
            filters = json.loads(self.described)
            _CACHE.put(self.described, filters, _BYTES_PER_CHAR * len(self.described))
        return filters


_CACHE: ByteCache[Hashable, Any] = ByteCache(64 << 20)
"""Descriptions that were read, and predicates."""


def _bind(described: str, fields: tuple[Field, ...], case_sensitive: bool) -> Predicate:
    return from_filters(Filters(described=described)._read(), fields, case_sensitive=case_sensitive)


def read_filters(jvm: Jvm, filters: JavaObject) -> Filters:
    """Bring filters over.

    filters: Scala Seq of Catalyst expressions.
    """
    return Filters(described=_describe(jvm, filters))


def describe(jvm: Jvm, expressions: JavaObject) -> dict[str, Any]:
    """Bring expressions over as `FilterText.java` describes them."""
    described: dict[str, Any] = json.loads(_describe(jvm, expressions))
    return described


def _describe(jvm: Jvm, expressions: JavaObject) -> str:
    return str(invoke(jvm, singleton(jvm, "FilterText"), "apply", expressions))
