"""Decides conditions that the predicate tree cannot express, in files where all of their columns are constant.

If a file's column has one value, or only nulls, it is like a partition: Spark's own code evaluates a deterministic
condition there (`Constants.java`), with any functions. Delta Lake calls this partition-like
skipping. One call decides for all distinct values; there is no call if no kept file is constant.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zskip.errors import PredicateError
from zskip.index import BoundIndex
from zskip.predicate import And, Predicate, is_unread, to_sql
from zskip.prune import Decided, Outcomes
from zskip.records import ALL_NULL, Bools, ColumnStats, Field, Ints, PruneResult
from zskip.spark.jvm.compat import frame_of_rows
from zskip.spark.jvm.failures import root_cause
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.filters import Filters, read_filters
from zskip.spark.scan.bridge.janino import OBJECT, invoke, singleton
from zskip.types import DataType, Encoded, Form, decode_decimal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("zskip.scan")
_MOST = 500
"""Distinct rows for which one condition is evaluated; files of further ones are read."""
_TYPES = {"byte", "short", "integer", "long", "boolean", "float", "double", "string", "binary", "date", "timestamp"}
_TYPES |= {"timestamp_ntz"}
_TRUTHS = {"t": 0, "f": 1, "n": 2}

Row: TypeAlias = "list[str | None]"
Ask: TypeAlias = Callable[["list[list[Row] | None] | None"], "list[Any]"]
"""Asks `Constants.java` for the columns of the conditions, or for their truth in rows of those."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Constant:
    """The files in which a column has one value, or only nulls."""

    files: Bools
    """(files,)"""
    codes: Ints
    """(files,) index in `texts`; 0 where it is not constant."""
    texts: Sequence[str | None]


def ask_spark(jvm: Jvm, conditions: Callable[[], JavaObject]) -> Ask:
    """Ask Spark of conditions.

    conditions: gives a Scala Seq of Catalyst expressions, each of which is one part of the predicate.
    """

    def ask(rows: list[list[Row] | None] | None) -> list[Any]:
        text = None if rows is None else json.dumps(rows)
        answers: list[Any] = json.loads(
            invoke(jvm, singleton(jvm, "Constants"), "apply", (OBJECT, OBJECT), jvm.to_list(conditions()), text)
        )
        return answers

    return ask


def prune_filters(
    stats: BoundIndex, filters: Filters, fields: Sequence[Field], *, case_sensitive: bool, ask: Ask | None = None
) -> PruneResult:
    """Decide for every file by what is known of it, and by Spark where the columns of a filter are constant.

    fields: the columns of the table.
    """
    predicate = filters.predicate(fields, case_sensitive=case_sensitive)
    if ask is None:
        return stats.prune(predicate)
    parts = predicate.children if isinstance(predicate, And) and len(filters) > 1 else (predicate,)
    return prune(stats, predicate, parts, filters.columns.values(), ask)


def prune(
    stats: BoundIndex, predicate: Predicate, parts: Sequence[Predicate], columns: Iterable[str], ask: Ask
) -> PruneResult:
    """Decide conditions for every file, by Spark where their columns are constant.

    parts: the conjuncts of the predicate, in the order of `ask`; columns: the names of their columns.
    """
    result = stats.prune(predicate)
    unread = [i for i, part in enumerate(parts) if is_unread(part)]
    if not unread or not result.kept.any():
        return result
    try:
        constants = {name: c for name in {*columns} if (c := constant(stats, name, result.kept)) is not None}
        decided = _decided(stats, parts, unread, constants, ask) if constants else ()
    except Exception:
        _log.debug("files with constant columns are not decided", exc_info=True)
        return result
    return stats.prune(predicate, decided) if decided else result


def prune_text(frame: DataFrame, stats: BoundIndex, predicate: Predicate) -> PruneResult:
    """Decide a user's predicate for every file, by Spark where its columns are constant.

    frame: the table.
    """
    jvm = Jvm.of(frame.sparkSession)
    try:
        plan = frame.where(to_sql(predicate))._jdf.queryExecution().optimizedPlan()
    except Exception:
        # It may have a function of pyarrow's that Spark does not know.
        _log.debug("Spark cannot read the condition", exc_info=True)
        return stats.prune(predicate)
    if plan.nodeName() != "Filter":
        return stats.prune(predicate)
    condition = jvm.seq_of(plan.condition())
    filters = read_filters(jvm, condition)
    return prune(stats, predicate, (predicate,), filters.columns.values(), ask_spark(jvm, lambda: condition))


def prune_statement(
    spark: SparkSession, stats: BoundIndex, where: str, fields: Sequence[Field], *, case_sensitive: bool
) -> PruneResult:
    """Decide a user's condition for every file as one statement of Spark does, in which `current_date()` has one value.

    fields: the columns of the table. Raises PredicateError for a condition that Spark does not understand, or that has
    another value in each row.
    """
    from pyspark.sql.types import StructType

    known = [f for f in fields if f.type.name in _TYPES or f.type.is_decimal]
    described = [{"name": f.name, "type": f.type.name, "nullable": True, "metadata": {}} for f in known]
    frame = frame_of_rows(spark, (), StructType.fromJson({"fields": described}))
    jvm = Jvm.of(spark)
    try:
        execution = frame.where(where)._jdf.queryExecution()
        part = next((e for e in jvm.items(execution.analyzed().expressions()) if not e.deterministic()), None)
        plan = execution.optimizedPlan()
    except Exception as error:
        cause = root_cause(str(error))
        raise PredicateError(f'where="{where}" is no condition on partition columns: {cause}') from error
    if part is not None:
        raise PredicateError(f'where="{where}" has no fixed value, since {_first_random(jvm, part)}() is random')
    if plan.nodeName() != "Filter":
        all_or_none = np.full(len(stats.rows), plan.nodeName() != "LocalRelation")
        return PruneResult(kept=all_or_none, full=all_or_none)
    condition = jvm.seq_of(plan.condition())
    ask = ask_spark(jvm, lambda: condition)
    return prune_filters(stats, read_filters(jvm, condition), fields, case_sensitive=case_sensitive, ask=ask)


def _first_random(jvm: Jvm, expression: JavaObject) -> str:
    """The name of the first function in an expression that is not deterministic."""
    inner = next((child for child in jvm.items(expression.children()) if not child.deterministic()), None)
    return str(expression.prettyName()) if inner is None else _first_random(jvm, inner)


def constant(stats: BoundIndex, name: str, kept: Bools) -> Constant | None:
    """The kept files in which a column is constant; None if there are none, and for unknown types."""
    known = stats.column((name,))
    if known is None or not (known.type.name in _TYPES or known.type.is_decimal):
        return None
    null = (known.nulls == ALL_NULL) | ((stats.rows >= 0) & (known.nulls >= stats.rows))
    files = kept & (null | _has_one_value(known))
    if not files.any():
        return None
    constant_files = np.flatnonzero(files & ~null)
    values = [_text(value, known.type) for value in known.lower[constant_files].tolist()]
    texts: list[str | None] = [None, *sorted({text for text in values if text is not None})]
    code_of = {text: i for i, text in enumerate(texts)}
    codes: Ints = np.zeros(len(files), np.int64)
    codes[constant_files] = [code_of[text] for text in values]
    files[constant_files] = [text is not None for text in values]
    return Constant(files=files, codes=codes, texts=texts)


def _has_one_value(known: ColumnStats) -> Bools:
    """Excludes zero, which floats have two of, and files with NaN."""
    one_value: Any = known.bounded & (known.lower == known.upper).astype(np.bool_) & (known.nulls == 0) & ~known.may_nan
    if known.type.form is Form.FLOAT:
        one_value = one_value & (known.lower != 0)
    return np.asarray(one_value, np.bool_)


def _text(value: Encoded, data_type: DataType) -> str | None:
    """A value as `Constants.java` reads it; None if it is no text."""
    if data_type.is_decimal:
        return f"{decode_decimal(value, data_type)}E-{data_type.scale}"
    if data_type.name == "boolean":
        return "true" if value else "false"
    if isinstance(value, bytes) and data_type.name == "binary":
        return base64.b64encode(value).decode()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    text = repr(value)
    return {"inf": "Infinity", "-inf": "-Infinity"}.get(text, text)


def _decided(
    stats: BoundIndex, parts: Sequence[Predicate], unread: list[int], constants: dict[str, Constant], ask: Ask
) -> tuple[Decided, ...]:
    described = ask(None)
    rows: list[list[Row] | None] = [None] * len(parts)
    files: dict[int, tuple[Ints, Ints]] = {}
    for i in unread:
        names = _names(stats, described[i], constants)
        if names is not None:
            rows[i], *files[i] = _distinct([constants[name] for name in names])  # type: ignore[assignment]
    if not any(rows):
        return ()
    answers = ask(rows)
    return tuple(
        Decided(node=parts[i], outcomes=_outcomes(answers[i], *files[i], len(stats.rows)), kind="constant")
        for i in unread
        if rows[i]
    )


def _names(stats: BoundIndex, columns: Any, constants: dict[str, Constant]) -> list[str] | None:
    """The columns of a condition; None if one is constant in no file, or has another type than in the index."""
    if not columns or any(name not in constants for name, _ in columns):
        return None
    for name, data_type in columns:
        known = stats.column((name,))
        if known is None or known.type.name != data_type:
            return None
    return [name for name, _ in columns]


def _distinct(columns: list[Constant]) -> tuple[list[Row], Ints, Ints]:
    """Distinct rows of constant columns, and the row of each file that has one."""
    files = np.flatnonzero(np.logical_and.reduce([column.files for column in columns]))
    codes = np.stack([column.codes[files] for column in columns], axis=1)
    distinct, row_of = np.unique(codes, axis=0, return_inverse=True)
    row_of = row_of.reshape(-1)
    used = row_of < _MOST
    texts = [column.texts for column in columns]
    rows = [[of[code] for of, code in zip(texts, row, strict=True)] for row in distinct[:_MOST].tolist()]
    return rows, files[used], row_of[used]


def _outcomes(truths: str, files: Ints, row_of: Ints, count: int) -> Outcomes:
    """All outcomes are possible in other files, and where Spark could not decide."""
    masks = np.ones((3, count), np.bool_)
    known = np.array([_TRUTHS.get(truth, -1) for truth in truths], np.int64)[row_of]
    for truth in _TRUTHS.values():
        masks[truth, files] = (known == truth) | (known < 0)
    return Outcomes(*masks)
