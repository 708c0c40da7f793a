"""The distinct values of an Arrow array in the form of their type, without null and NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zskip.records import Ints, Values, objects
from zskip.sketch.base import LeftOut
from zskip.sketch.hashing import Hashes, hash_bytes, hash_fixed
from zskip.types import DataType, Form


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct values of one array."""

    form: Form
    unsorted: Any
    """A NumPy array of int64 or float64; for bytes, an Arrow array of large_binary."""
    nulls: bool
    """Whether the array had a null."""
    nan: bool = False
    """Whether the array had a NaN."""

    def __len__(self) -> int:
        return len(self.unsorted)

    @property
    def values(self) -> Values:
        """The values in ascending order."""
        if self.form is not Form.BYTES:
            numbers: Values = self.unsorted
            return numbers
        return objects(sorted(self.unsorted.to_pylist()))

    @property
    def text(self) -> tuple[npt.NDArray[np.uint8], Ints]:
        """The bytes of all values, and the offsets where each starts and the last ends."""
        return binary_buffers(self.unsorted)

    @property
    def hashes(self) -> Hashes:
        """One hash for each value, in any order."""
        return hash_bytes(*self.text) if self.form is Form.BYTES else hash_fixed(self.unsorted)


def distinct_values(values: pa.Array | pa.ChunkedArray, data_type: DataType) -> Distinct:
    """Collect the distinct values of an array; raises LeftOut if they are not of the type."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if data_type.form is None or data_type.is_char:
        raise LeftOut(f"values of type {data_type} have no form in which they compare")
    nulls = values.null_count > 0
    if pa.types.is_null(values.type):
        values = pa.array([], pa.large_binary())
        return Distinct(data_type.form, _no_values(data_type.form), nulls)
    try:
        if str(values.type) in ("string_view", "binary_view"):
            values = values.cast(pa.large_binary())
        present = values.drop_null() if nulls else values
        if data_type.form is Form.BYTES:
            return Distinct(Form.BYTES, pc.unique(_binary(present, data_type)), nulls)
        numbers = _numbers(present, data_type)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise LeftOut(f"values of {values.type} are not of type {data_type}: {error}") from error
    if data_type.form is Form.INT:
        return Distinct(Form.INT, np.unique(numbers), nulls)
    finite = numbers[~np.isnan(numbers)]
    return Distinct(Form.FLOAT, np.unique(finite + 0.0), nulls, len(finite) < len(numbers))


def binary_buffers(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Return the bytes and offsets of an array of large_binary without nulls."""
    _, offsets, data = array.buffers()
    all_offsets = np.frombuffer(offsets, np.int64) if offsets else np.zeros(1, np.int64)
    text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return text, all_offsets[array.offset : array.offset + len(array) + 1]


def _no_values(form: Form) -> Any:
    if form is Form.BYTES:
        return pa.array([], pa.large_binary())
    return np.zeros(0, np.int64 if form is Form.INT else np.float64)


def _mismatch(values: pa.Array, data_type: DataType) -> LeftOut:
    return LeftOut(f"values of {values.type} are not of type {data_type}")


def _numbers(values: pa.Array, data_type: DataType) -> Any:
    """Convert to int64 or float64, the form of the type."""
    if data_type.form is Form.FLOAT:
        if not pa.types.is_floating(values.type):
            raise _mismatch(values, data_type)
        return values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if data_type.is_decimal:
        words = np.frombuffer(_decimals(values, data_type), np.int64).reshape(-1, 2)
        return words[:, 0].copy()
    unit = _unit(values.type, data_type)
    if unit is None:
        raise _mismatch(values, data_type)
    numbers = values.cast(unit).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if data_type.is_time and (numbers % data_type.time_unit).any():
        raise LeftOut(f"times have more digits than {data_type}, which versions of Spark read differently")
    return numbers


def _unit(arrow_type: pa.DataType, data_type: DataType) -> pa.DataType | None:
    """The type of Arrow whose integers are the form of a type; None if values of an Arrow type are not of it."""
    name = data_type.name
    if data_type.is_integer:
        return arrow_type if pa.types.is_integer(arrow_type) else None
    if name == "boolean":
        return arrow_type if pa.types.is_boolean(arrow_type) else None
    if name == "date":
        return pa.int32() if arrow_type == pa.date32() else None
    if name in ("timestamp", "timestamp_ntz") and pa.types.is_timestamp(arrow_type):
        has_zone = arrow_type.tz is not None
        return pa.timestamp("us", arrow_type.tz) if has_zone == (name == "timestamp") else None
    if data_type.is_time:
        return pa.time64("us") if pa.types.is_time(arrow_type) else None
    is_duration = data_type.is_interval and not data_type.is_months and pa.types.is_duration(arrow_type)
    return pa.duration("us") if is_duration else None


def _decimals(values: pa.Array, data_type: DataType) -> bytes:
    """Return 16 little-endian bytes for each value."""
    if not (pa.types.is_decimal(values.type) or pa.types.is_integer(values.type)):
        raise _mismatch(values, data_type)
    target = pa.decimal128(data_type.precision, data_type.scale)
    # Concatenation gives an array without an offset into its buffers.
    decimals = pa.concat_arrays([values.cast(target), pa.array([], target)])
    data = decimals.buffers()[1]
    return bytes(memoryview(data)[16 * decimals.offset : 16 * (decimals.offset + len(decimals))]) if data else b""


def _binary(values: pa.Array, data_type: DataType) -> pa.Array:
    if not data_type.is_decimal:
        text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
        if not (text or binary or pa.types.is_fixed_size_binary(values.type)):
            raise _mismatch(values, data_type)
        return values.cast(pa.large_binary())
    little = np.frombuffer(_decimals(values, data_type), np.uint8).reshape(-1, 16)
    biased = np.empty((len(little), 17), np.uint8)
    biased[:, 1:] = little[:, ::-1]
    biased[:, 0] = np.where(little[:, 15] >= 128, 127, 128)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(17), len(little), [None, pa.py_buffer(biased.tobytes())])
    return fixed.cast(pa.large_binary())
