"""Whether a session takes SQL text as zskip means it: it may have functions of the same names, or other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zskip.predicate import Attributes, Term
from zskip.predicate.sql.catalyst import term_from_catalyst
from zskip.records import Field
from zskip.spark.jvm import compat
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.bridge.filters import describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPLACE = "org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions"


def find_misread(frame: DataFrame, meanings: Mapping[str, Term | None], fields: Sequence[Field] = ()) -> list[str]:
    """The texts that a frame's session reads otherwise: what it makes of them is read back.

    meanings: the term of each text; None for one that only has to consist of Spark's own functions. fields: the columns
    that the terms are about.
    """
    if not meanings:
        return []
    jvm = Jvm.of(frame.sparkSession)
    with compat.active_session(frame.sparkSession):
        selected = frame.selectExpr(*(f"{text} AS zskip_{i}" for i, text in enumerate(meanings)))
        plan = jvm.module(_REPLACE).apply(selected._jdf.queryExecution().analyzed())
        described = describe(jvm, jvm.seq_of(*(named.child() for named in jvm.items(plan.expressions()))))
    attributes = Attributes(fields, described["columns"], case_sensitive=True)
    return [
        text
        for i, ((text, term), tree) in enumerate(zip(meanings.items(), described["trees"], strict=True))
        if i in described["foreign"]
        or (term is not None and term_from_catalyst(tree, attributes, timezone=described["zone"]) != term)
    ]
