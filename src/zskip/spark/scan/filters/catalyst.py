"""Filters of a scan as Catalyst has them, read as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zskip.predicate import Attributes, Predicate, Unknown, conjunction, parse
from zskip.records import Field
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.filters.constants import Ask

_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.Expression"
_ATTRIBUTE = "org.apache.spark.sql.catalyst.expressions.Attribute"
_ATTRIBUTES = "org.apache.spark.sql.catalyst.expressions.AttributeSet"
_STRING = "java.lang.String"
_SEPARATOR = "\n"
_CALLS = re.compile(r"\w\(|AS (?:DATE|TIMESTAMP)|INTERVAL", re.IGNORECASE)
"""What functions are written with."""
_ZONE = re.compile(r'"timeZoneId":"([^"]*)"')
_CLASS = re.compile(r'"class":"([^"]*)"')
_OWN = re.compile(r"org\.apache\.spark\.sql\.catalyst\.expressions\.(?!ScalaUDF|ApplyFunction|PythonUDF)[\w.$]+")


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
    ask: Ask | None = field(default=None, compare=False)
    """What Spark says of them where columns are constant."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Handed:
    """Filters of a scan that came over as text, and as they are in the JVM."""

    filters: Filters
    held: Callable[[], JavaObject]

    def isEmpty(self) -> bool:
        """Whether there is none, as Scala's Seq says it."""
        return not self.filters.sql

    @property
    def java(self) -> JavaObject:
        """Scala Seq of Catalyst expressions."""
        return self.held()


def in_java(filters: JavaObject | Handed) -> JavaObject:
    """Filters as a Scala Seq of Catalyst expressions."""
    return filters.java if isinstance(filters, Handed) else filters


def read_filters(jvm: Jvm, filters: JavaObject | Handed) -> Filters:
    """Bring the text of filters over, and which columns their names stand for.

    filters: Scala Seq of Catalyst expressions.
    """
    if isinstance(filters, Handed):
        return filters.filters
    expressions = jvm.to_list(filters)
    texts = jvm.map(expressions, jvm.once("sql and zone", lambda: _sql_and_zone(jvm)))
    found, attributes, names = jvm.read(jvm.list_of(texts, *_references(jvm, expressions)))
    sql = [text.rpartition(_SEPARATOR) for text in found]
    timezone = sql[0][2] if sql else "UTC"
    return Filters(
        sql=tuple(text for text, _, _ in sql),
        columns=dict(zip(attributes, names, strict=True)),
        timezone=timezone,
        foreign=frozenset(
            i
            for i, (text, _, _) in enumerate(sql)
            if _CALLS.search(text) and _is_foreign(expressions.get(i).toJSON(), timezone)
        ),
    )


def _is_foreign(tree: str, timezone: str) -> bool:
    """Whether an expression, as JSON, means something else than its text.

    Functions keep the time zone of their analysis and do not print it; a function of a user may have the name of one
    of Spark's.
    """
    return bool({*_ZONE.findall(tree)} - {timezone}) or not all(map(_OWN.fullmatch, _CLASS.findall(tree)))


def _sql_and_zone(jvm: Jvm) -> JavaObject:
    """A function from an expression to its text and the session's time zone.

    Catalyst writes timestamps in the zone of the session that is active in the calling thread; both are read in one
    call, so that they cannot belong to two sessions.
    """
    handles, conf = jvm.handles, "org.apache.spark.sql.internal.SQLConf"
    concat = handles.virtual(_STRING, "concat", _STRING, _STRING)
    zone = handles.chain(handles.static(conf, "get", conf), handles.virtual(conf, "sessionLocalTimeZone", _STRING))
    joined = handles.feed(concat, 1, handles.chain(zone, concat.bindTo(_SEPARATOR)))
    return handles.function(handles.feed(joined, 0, handles.virtual(_EXPRESSION, "sql", _STRING)))


def _references(jvm: Jvm, expressions: JavaObject) -> tuple[JavaObject, JavaObject]:
    """Lists of the text and of the name of each column in the expressions."""
    stream = jvm.once("references", lambda: _reference_stream(jvm))
    attributes = jvm.collect(expressions.stream().flatMap(stream))
    texts = jvm.map(attributes, jvm.once("attribute.sql", lambda: _text(jvm, _EXPRESSION, "sql")))
    return texts, jvm.map(attributes, jvm.once("attribute.name", lambda: _text(jvm, _ATTRIBUTE, "name")))


def _text(jvm: Jvm, owner: str, method: str) -> JavaObject:
    return jvm.handles.function(jvm.handles.virtual(owner, method, _STRING))


def _reference_stream(jvm: Jvm) -> JavaObject:
    """A function from an expression to a stream of its attributes."""
    handles = jvm.handles
    seq = jvm.class_of(_ATTRIBUTES).getMethod("toSeq", jvm.array("java.lang.Class", [])).getReturnType().getName()
    return handles.function(
        handles.chain(
            handles.virtual(_EXPRESSION, "references", _ATTRIBUTES),
            handles.virtual(_ATTRIBUTES, "toSeq", seq),
            handles.static(
                "scala.collection.JavaConverters", "seqAsJavaList", "java.util.List", "scala.collection.Seq"
            ),
            handles.virtual("java.util.Collection", "stream", "java.util.stream.Stream"),
        )
    )
