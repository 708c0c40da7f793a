"""Columns of Arrow in the form of their type, as layouts take them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.records import Bools, Values
from zskip.spark.forms import PREFIX_BYTES, curve_form
from zskip.types import DataType, Form


def column_values(column: pa.Array, data_type: DataType) -> tuple[Values, Bools]:
    """A column's values in the form that it has on a curve, and which are null; the counterpart of `form_of`.

    >>> column_values(pa.array([1, None], pa.int16()), DataType("short"))[1].tolist()
    [False, True]
    """
    nulls = _nulls(column)
    form = curve_form(data_type)
    if form is Form.BYTES:
        if not pa.types.is_dictionary(column.type):
            return _prefixes(column), nulls
        prefixes = np.append(_prefixes(column.dictionary), np.array([b""], object))
        return prefixes[column.indices.fill_null(len(column.dictionary)).to_numpy()], nulls
    if form is Form.FLOAT:
        if data_type.is_decimal:
            return column.cast(pa.float64()).fill_null(0.0).to_numpy(), nulls
        kind: Any = np.float32 if pa.types.is_float32(column.type) else np.float64
        return _content(column, kind).astype(np.float64), nulls
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8()).fill_null(0).to_numpy().astype(np.int64), nulls
    if data_type.is_decimal:
        # Of 128 bits the low half: at most 18 digits fit there.
        each = column.type.bit_width // 64
        return np.ascontiguousarray(_content(column, np.int64, each)[::each]), nulls
    return _content(column, np.dtype(f"i{column.type.bit_width // 8}")).astype(np.int64), nulls


def _prefixes(texts: pa.Array) -> Values:
    return cast(Values, pc.binary_slice(texts.cast(pa.binary()), 0, PREFIX_BYTES).to_numpy(zero_copy_only=False))


def _nulls(column: pa.Array) -> Bools:
    if not column.null_count:
        return np.zeros(len(column), np.bool_)
    return cast(Bools, column.is_null().to_numpy(zero_copy_only=False))


def _content(column: pa.Array, kind: Any, each: int = 1) -> Any:
    """The numbers that an array consists of, `each` to a value; those of nulls mean nothing."""
    count = len(column) * each
    return np.frombuffer(column.buffers()[1], kind, count, column.offset * each * np.dtype(kind).itemsize)


def has_nan(column: pa.Array) -> bool:
    """Whether a column, or what is nested in it, holds NaN."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.is_nan(column)).as_py())
    if pa.types.is_struct(kind):
        return any(has_nan(part) for part in column.flatten())
    if pa.types.is_map(kind):
        # Keys and items of all rows, those of nulls too.
        return has_nan(column.keys) or has_nan(column.items)
    if pa.types.is_list(kind):
        return has_nan(column.flatten())
    return False
