"""Types by the names that they have in SQL."""

from __future__ import annotations

from zskip.types import DataType

INTEGER_TYPES = {"TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long"}
"""Integer types by their SQL names."""
_SQL_NAMES = {name: sql for sql, name in INTEGER_TYPES.items()}


def sql_name(data_type: DataType) -> str:
    """Return the SQL name of a type.

    >>> sql_name(DataType("long")), sql_name(DataType("decimal(9,2)"))
    ('BIGINT', 'DECIMAL(9, 2)')
    """
    if data_type.is_decimal:
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    return _SQL_NAMES.get(data_type.name, data_type.name.upper())


def named_type(name: str) -> DataType:
    """Return the type of an SQL name.

    >>> str(named_type("BIGINT")), str(named_type("DECIMAL(9, 2)")), str(named_type("TIMESTAMP_LTZ"))
    ('long', 'decimal(9,2)', 'timestamp')
    """
    return DataType({**INTEGER_TYPES, "TIMESTAMP_LTZ": "timestamp"}.get(name, name.lower().replace(" ", "")))
