"""Columns on their way from old files to new ones, in as few bytes as is cheap, and in the forms that layouts take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zskip.records import Bools, Values
from zskip.spark.forms import PREFIX_BYTES, curve_form
from zskip.types import DataType, Form

DICTIONARY = pa.int32()
"""The type of the indices of dictionaries."""
_WIDTHS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


def narrow(column: pa.Array) -> pa.Array:
    """Halve decimals of at most 18 digits.

    >>> narrow(pa.array([-1], pa.decimal128(5, 2)))[0]
    <pyarrow.Decimal64Scalar: Decimal('-1.00')>
    """
    kind, end = column.type, column.offset + len(column)
    valid, values = column.buffers()
    low = np.ascontiguousarray(np.frombuffer(values, np.int64, 2 * end)[::2])
    narrowed = pa.decimal64(kind.precision, kind.scale)
    return pa.Array.from_buffers(narrowed, len(column), [valid, pa.py_buffer(low)], offset=column.offset)


def wide(column: pa.Array) -> pa.Array:
    """Undo `narrow`."""
    kind = column.type
    return column.cast(pa.decimal128(kind.precision, kind.scale)) if pa.types.is_decimal64(kind) else column


def as_type(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert a column, or the dictionary that it has, to a type that holds its values; unscaled decimals are longs."""
    if column.type == data_type:
        return column
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices.cast(DICTIONARY), column.dictionary.cast(data_type))
    if pa.types.is_decimal64(data_type) and pa.types.is_int64(column.type):
        return column.view(data_type)
    return narrow(column) if pa.types.is_decimal128(column.type) else column.cast(data_type)


def shrink(column: pa.Array) -> pa.Array:
    """Hold integers, days, times, decimals of 64 bits and indices of dictionaries in the fewest bytes.

    >>> shrink(pa.array([3, None, 300])).type
    DataType(int16)
    """
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(shrink(column.indices), column.dictionary)
    numbers = _numbers(column.type)
    if numbers is None:
        return column
    column = column.view(numbers)
    least, greatest = (end.as_py() or 0 for end in pc.min_max(column).values())
    bits = 1 + max(least, ~least, greatest, ~greatest).bit_length()
    # What nulls hide need not fit.
    return column.cast(next(kind for kind in _WIDTHS if kind.bit_width >= bits), safe=False)


def grow(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Undo `shrink`; data_type: of the column, or of the values of its dictionary.

    >>> grow(shrink(pa.array([3, None, 300])), pa.int64()).type
    DataType(int64)
    """
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices.cast(DICTIONARY), column.dictionary)
    numbers = _numbers(data_type)
    return column if numbers is None else column.cast(numbers).view(data_type)


def _numbers(data_type: pa.DataType) -> pa.DataType | None:
    """The integers that a type consists of; None for other types."""
    if pa.types.is_date32(data_type):
        return pa.int32()
    if pa.types.is_timestamp(data_type) or pa.types.is_time64(data_type) or pa.types.is_decimal64(data_type):
        return pa.int64()
    return data_type if pa.types.is_signed_integer(data_type) else None


def join(columns: Sequence[pa.Array]) -> pa.Array:
    """Concatenate arrays of one column, some of which may have dictionaries."""
    if len({column.type for column in columns}) > 1:
        columns = [plain(column) for column in columns]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def plain(column: pa.Array) -> pa.Array:
    """Replace a dictionary by its values."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def without_unused(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Drop values of a dictionary that no row has, so that readers can skip a file by its dictionary.

    >>> without_unused(pa.DictionaryArray.from_arrays([1, None], ["a", "b"])).dictionary.to_pylist()
    ['b']
    """
    rows = column.indices.drop_null().to_numpy()
    used = np.bincount(rows, minlength=len(column.dictionary)) > 0
    if used.all():
        return column
    numbers = pa.array((np.cumsum(used) - 1).astype(np.int32))
    return pa.DictionaryArray.from_arrays(
        numbers.take(column.indices), column.dictionary.take(pa.array(np.flatnonzero(used)))
    )


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
