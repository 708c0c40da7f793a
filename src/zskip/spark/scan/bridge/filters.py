"""Filters of a scan as text, as `FilterText.java` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zskip.predicate import Attributes, Predicate, Unknown, conjunction, parse
from zskip.records import Field
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.janino import singleton


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
        """All of them as one predicate over the columns of the table; what is not understood is Unknown."""
        columns = Attributes(fields, self.columns, case_sensitive=case_sensitive)
        return conjunction(
            tuple(
                Unknown(sql, "a function of a user, or of another time zone")
                if i in self.foreign
                else parse(sql, columns, timezone=self.timezone, lenient=True)
                for i, sql in enumerate(self.sql)
            )
        )


def read_filters(jvm: Jvm, filters: JavaObject) -> Filters:
    """Bring the text of filters over.

    filters: Scala Seq of Catalyst expressions.
    """
    return Filters.read(json.loads(singleton(jvm, "FilterText").apply(filters)), lambda: filters)
