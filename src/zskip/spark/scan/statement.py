"""A user's condition on partitions, as one statement of Spark evaluates it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import PredicateError
from zskip.index import BoundIndex
from zskip.records import ALL_NULL, Bools, ColumnStats, Field, PruneResult
from zskip.spark.forms import free_name
from zskip.spark.jvm.compat import frame_of_rows
from zskip.spark.jvm.failures import root_cause
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.bridge.filters import read_filters
from zskip.types import DataType, Encoded, Form, to_decimal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TYPES = {"byte", "short", "integer", "long", "boolean", "float", "double", "string", "binary", "date", "timestamp"}
_TYPES |= {"timestamp_ntz"}
_EPOCH = dt.datetime(1970, 1, 1)


def prune_statement(
    spark: SparkSession, stats: BoundIndex, where: str, fields: Sequence[Field], *, case_sensitive: bool
) -> PruneResult:
    """Decide a condition for every file as one statement of Spark does, in which `current_date()` has one value.

    Where the index cannot read a function, Spark evaluates the condition in files whose columns have one value each.

    Args:
        fields: the columns that the condition may name.

    Raises:
        PredicateError: Spark does not understand the condition, or it has another value in each row.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    known = {field.name: field for field in fields if field.type.name in _TYPES or field.type.is_decimal}
    frame = frame_of_rows(spark, (), _schema(known.values()))
    jvm = Jvm.of(spark)
    try:
        execution = frame.where(where)._jdf.queryExecution()
        random = next((e for e in jvm.items(execution.analyzed().expressions()) if not e.deterministic()), None)
        plan = execution.optimizedPlan()
        if random is not None:
            raise PredicateError(f'where="{where}" has no fixed value, since {_first_random(jvm, random)}() is random')
        if plan.nodeName() != "Filter":
            all_or_none = np.full(len(stats.rows), plan.nodeName() != "LocalRelation")
            return PruneResult(kept=all_or_none, full=all_or_none)
        filters = read_filters(jvm, jvm.seq_of(plan.condition()))
        result = stats.prune(filters.predicate(fields, case_sensitive=case_sensitive))
        return _evaluate(spark, stats, where, [*known.values()], {*filters.columns.values()}, result)
    except (Py4JError, PySparkException) as error:
        cause = root_cause(str(error))
        raise PredicateError(f'where="{where}" is no condition on partition columns: {cause}') from error


def _first_random(jvm: Jvm, expression: JavaObject) -> str:
    """The name of the first function in an expression that is not deterministic."""
    inner = next((child for child in jvm.items(expression.children()) if not child.deterministic()), None)
    return str(expression.prettyName()) if inner is None else _first_random(jvm, inner)


def _schema(fields: Iterable[Field], *more: dict[str, Any]) -> Any:
    from pyspark.sql.types import StructType

    described = [{"name": f.name, "type": f.type.name, "nullable": True, "metadata": {}} for f in fields]
    return StructType.fromJson({"fields": [*described, *more]})


def _evaluate(
    spark: SparkSession, stats: BoundIndex, where: str, fields: Sequence[Field], names: set[str], result: PruneResult
) -> PruneResult:
    """Let Spark evaluate the condition in the undecided files in which each of its columns has one value.

    names: the columns on which the value of the condition depends; it may name others, whatever they are.
    """
    undecided = result.kept & ~result.full
    values: list[Sequence[Any]] = []
    for field in fields:
        if field.name not in names:
            values.append([None] * len(undecided))
            continue
        column = stats.column((field.name,))
        if column is None:
            return result
        single, of_column = _single_values(column, stats, undecided)
        undecided = undecided & single
        values.append(of_column)
    rows: dict[tuple[Any, ...], list[int]] = {}
    for i in np.flatnonzero(undecided).tolist():
        rows.setdefault(tuple(of_column[i] for of_column in values), []).append(i)
    if not rows:
        return result
    number = free_name("__zskip_row", [field.name for field in fields])
    schema = _schema(fields, {"name": number, "type": "integer", "nullable": False, "metadata": {}})
    frame = frame_of_rows(spark, [(*row, i) for i, row in enumerate(rows)], schema)
    true_rows = {row[0] for row in frame.where(where).select(number).collect()}
    is_true = np.zeros(len(undecided), np.bool_)
    is_true[[file for i, files in enumerate(rows.values()) if i in true_rows for file in files]] = True
    return PruneResult(kept=result.kept & (~undecided | is_true), full=result.full | is_true, leaves=result.leaves)


def _single_values(column: ColumnStats, stats: BoundIndex, files: Bools) -> tuple[Bools, list[Any]]:
    """Which of the files have one value in a column, or only nulls, and that value.

    Zero of floats is none, since there are two of them, nor is a value that Python cannot hold.
    """
    is_null = (column.nulls == ALL_NULL) | ((stats.rows >= 0) & (column.nulls >= stats.rows))
    is_single: Any = column.bounded & (column.lower == column.upper).astype(np.bool_) & (column.nulls == 0)
    is_single = is_single & ~column.may_nan
    if column.type.form is Form.FLOAT:
        is_single = is_single & (column.lower != 0)
    single = files & (is_null | is_single)
    values: list[Any] = [None] * len(files)
    for i in np.flatnonzero(single & ~is_null).tolist():
        try:
            values[i] = _decode(column.lower[i], column.type)
        except (OverflowError, UnicodeDecodeError):
            single[i] = False
    return single, values


def _decode(value: Encoded, data_type: DataType) -> Any:
    """A value as `createDataFrame` takes it."""
    if data_type.is_decimal:
        return to_decimal(value, data_type)
    if isinstance(value, bytes):
        return value.decode() if data_type.name == "string" else value
    if data_type.form is Form.FLOAT:
        return float(value)
    if data_type.name == "date":
        return _EPOCH.date() + dt.timedelta(days=int(value))
    if data_type.name.startswith("timestamp"):
        zone = dt.timezone.utc if data_type.name == "timestamp" else None
        return _EPOCH.replace(tzinfo=zone) + dt.timedelta(microseconds=int(value))
    return bool(value) if data_type.name == "boolean" else int(value)
