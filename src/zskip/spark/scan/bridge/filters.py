"""Filters of a scan as text, as `FilterText.java` writes them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zskip.predicate import Attributes, Predicate, Unknown, conjunction, parse
from zskip.records import Field
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.janino import singleton

_MOST = 256
_LONGEST = 100_000
"""Characters of the filters of a scan whose predicate is kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Conjuncts of a scan's filter."""

    sql: tuple[str, ...]
    """The text of each, as `Expression.sql` prints it: columns are qualified by the query's aliases."""
    columns: dict[str, str]
    """The text of each column that occurs, with qualifiers and quotes, and the name of the column."""
    timezone: str
    """In which the text writes timestamps."""
    foreign: frozenset[int] = frozenset()
    """Which of the texts hold functions of another time zone than the session's, or functions that are not Spark's."""
    expressions: Callable[[], JavaObject] | None = field(default=None, compare=False)
    """Gives them as a Scala Seq of Catalyst expressions."""

    @classmethod
    def read(cls, described: Mapping[str, Any], expressions: Callable[[], JavaObject]) -> Filters:
        """Read what `FilterText.java` says of filters."""
        return cls(
            sql=tuple(described["sql"]),
            columns=described["columns"],
            timezone=described["zone"],
            foreign=frozenset(described["foreign"]),
            expressions=expressions,
        )

    def predicate(self, fields: Sequence[Field], *, case_sensitive: bool) -> Predicate:
        """All of them as one predicate over the columns of the table; what is not understood is Unknown.

        The latest are kept, so that a query that comes again is not parsed again.
        """
        parse_all = _parse if sum(map(len, self.sql)) <= _LONGEST else _parse.__wrapped__
        columns = tuple(self.columns.items())
        return parse_all(self.sql, columns, self.timezone, self.foreign, tuple(fields), case_sensitive)


@functools.lru_cache(maxsize=_MOST)
def _parse(
    texts: tuple[str, ...],
    columns: tuple[tuple[str, str], ...],
    timezone: str,
    foreign: frozenset[int],
    fields: tuple[Field, ...],
    case_sensitive: bool,
) -> Predicate:
    attributes = Attributes(fields, dict(columns), case_sensitive=case_sensitive)
    return conjunction(
        tuple(
            Unknown(text, "a function of a user, or of another time zone")
            if i in foreign
            else parse(text, attributes, timezone=timezone, lenient=True)
            for i, text in enumerate(texts)
        )
    )


def read_filters(jvm: Jvm, filters: JavaObject) -> Filters:
    """Bring the text of filters over.

    filters: Scala Seq of Catalyst expressions.
    """
    return Filters.read(json.loads(singleton(jvm, "FilterText").apply(filters)), lambda: filters)
