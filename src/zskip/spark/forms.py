"""Clustering columns in the form of their type, as Spark expressions: the same in the sample and the rewrite."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from zskip.errors import ColumnError
from zskip.records import Field
from zskip.types import DAY_MICROS, DataType, Form

if TYPE_CHECKING:
    from pyspark.sql import Column

_COLLATION_KEY = re.compile(r"collation_key\((.*)\)", re.DOTALL)
PREFIX_BYTES = 256
"""Leading bytes of strings and binary that the curve uses, so that one huge value does no harm."""


def form_of(field: Field) -> Column:
    """The column, or the expression, as `bigint`, `double` or `binary`; null stays null.

    Decimals of more than 18 digits become doubles, which are precise enough for a curve. Raises ColumnError for a
    type without an order.
    """
    from pyspark.sql import functions as F

    return F.expr(form_sql(field_sql(field), field.type))


def field_sql(field: Field) -> str:
    """A column, a field inside structs, or an expression, as SQL text."""
    if not field.computed:
        return ".".join(map(quote_identifier, field.path))
    collated = _COLLATION_KEY.fullmatch(field.name)
    # SQL has no name for the key; where rows lie, lower case is near enough.
    return f"({field.name})" if collated is None else f"lower(collate({collated[1]}, 'UTF8_BINARY'))"


def is_exact(field: Field) -> bool:
    """Whether the form of an expression tells its values as they are, those of texts up to the prefix."""
    kind = field.type
    if field_sql(field) != f"({field.name})":
        return False
    is_number = kind.is_integer or kind.name in ("float", "double") or (kind.is_decimal and kind.precision <= 18)
    return is_number or kind.name in ("boolean", "date", "timestamp", "string", "binary")


def curve_form(data_type: DataType) -> Form:
    """The form of a column on the curve."""
    if data_type.form is None:
        raise ColumnError(f"cannot cluster by a column of type {data_type}; choose columns of atomic types")
    return Form.FLOAT if data_type.is_decimal and data_type.precision > 18 else data_type.form


def free_name(name: str, taken: Iterable[str]) -> str:
    """A column name that is not taken, in any case.

    >>> free_name("key", ["a", "KEY"])
    'key_'
    """
    lower = {other.lower() for other in taken}
    while name.lower() in lower:
        name += "_"
    return name


def quote_identifier(name: str) -> str:
    """A column's name as SQL text.

    >>> quote_identifier("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def form_sql(column: str, data_type: DataType) -> str:
    """The expression of `form_of` as SQL text.

    >>> form_sql("d", DataType("date"))
    'CAST(unix_date(d) AS BIGINT)'
    """
    name, form = data_type.name, curve_form(data_type)
    if form is Form.FLOAT:
        # Adding zero turns -0.0 into 0.0; Java's binary search would distinguish them.
        return f"CAST({column} AS DOUBLE) + 0.0D"
    if form is Form.BYTES:
        return f"substring(CAST({column} AS BINARY), 1, {PREFIX_BYTES})"
    if data_type.is_decimal:
        power = f"CAST('1{'0' * data_type.scale}' AS DECIMAL({data_type.scale + 1}, 0))"
        return f"CAST({column} * {power} AS BIGINT)"
    if name == "boolean":
        return f"CAST(CAST({column} AS INT) AS BIGINT)"
    if name == "date":
        return f"CAST(unix_date({column}) AS BIGINT)"
    if name == "timestamp":
        return f"unix_micros({column})"
    if name == "timestamp_ntz":
        return f"CAST(unix_date(CAST({column} AS DATE)) AS BIGINT) * {DAY_MICROS}L + {_time_sql(column)}"
    if data_type.is_time:
        return _time_sql(column)
    if name.startswith("interval"):
        return _interval_sql(column, name)
    return f"CAST({column} AS BIGINT)"


def _time_sql(column: str) -> str:
    return (
        f"extract(HOUR FROM {column}) * 3600000000L + extract(MINUTE FROM {column}) * 60000000L"
        f" + CAST(extract(SECOND FROM {column}) * 1000000BD AS BIGINT)"
    )


def _interval_sql(column: str, name: str) -> str:
    is_months = "year" in name or "month" in name
    # Of an interval of fewer fields, Spark extracts no others.
    column = f"CAST({column} AS INTERVAL {'YEAR TO MONTH' if is_months else 'DAY TO SECOND'})"
    if is_months:
        return f"CAST(extract(YEAR FROM {column}) AS BIGINT) * 12L + extract(MONTH FROM {column})"
    return f"extract(DAY FROM {column}) * {DAY_MICROS}L + {_time_sql(column)}"
