"""Filters of a scan as Catalyst has them, read as text."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.spark.jvm import JavaObject, Jvm

_EXPRESSION = "org.apache.spark.sql.catalyst.expressions.Expression"
_ATTRIBUTE = "org.apache.spark.sql.catalyst.expressions.Attribute"
_ATTRIBUTES = "org.apache.spark.sql.catalyst.expressions.AttributeSet"
_STRING = "java.lang.String"


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Conjuncts of a scan's filter."""

    sql: tuple[str, ...]
    """The text of each, as `Expression.sql` prints it: columns are qualified by the query's aliases."""
    columns: dict[str, str]
    """The text of each column that occurs, with qualifiers and quotes, and the name of the column."""


def read_filters(jvm: Jvm, filters: JavaObject) -> Filters:
    """Bring the text of filters over, and which columns their names stand for.

    filters: Scala Seq of Catalyst expressions.
    """
    expressions = jvm.to_list(filters)
    sql, attributes, names = jvm.read(
        jvm.list_of(
            jvm.map(expressions, jvm.once("expression.sql", lambda: _text(jvm, _EXPRESSION, "sql"))),
            *_references(jvm, expressions),
        )
    )
    return Filters(sql=tuple(sql), columns=dict(zip(attributes, names, strict=True)))


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
