"""The values of one Arrow array in the form of their type: distinct, without null and NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from zskip.records import Ints, Values
from zskip.sketch.base import LeftOut
from zskip.sketch.hashing import Hashes, hash_bytes, hash_fixed
from zskip.types import DataType, Form


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct values of one array."""

    form: Form
    held: Any
    """int64 or float64 values of NumPy; for bytes an Arrow array of large_binary."""
    nulls: bool
    """Whether there was a null."""
    nan: bool = False
    """Whether there was a NaN."""

    def __len__(self) -> int:
        return len(self.held)

    @property
    def values(self) -> Values:
        """In rising order."""
        if self.form is not Form.BYTES:
            found: Values = self.held
            return found
        objects = np.empty(len(self.held), np.object_)
        objects[:] = sorted(self.held.to_pylist())
        return objects

    @property
    def text(self) -> tuple[npt.NDArray[np.uint8], Ints]:
        """The bytes of all values and where each starts, and the last ends."""
        return buffers(self.held)

    @property
    def hashes(self) -> Hashes:
        """One for each value, in any order."""
        return hash_bytes(*self.text) if self.form is Form.BYTES else hash_fixed(self.held)


def distinct(values: pa.Array | pa.ChunkedArray, data_type: DataType) -> Distinct:
    """The values of an array; raises LeftOut where they are not what the type says."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if data_type.form is None or data_type.is_char:
        raise LeftOut(f"values of type {data_type} have no form in which they compare")
    nulls = values.null_count > 0
    if pa.types.is_null(values.type):
        values = pa.array([], pa.large_binary())
        return Distinct(data_type.form, _nothing(data_type.form), nulls)
    try:
        if str(values.type) in ("string_view", "binary_view"):
            values = values.cast(pa.large_binary())
        present = values.drop_null() if nulls else values
        if data_type.form is Form.BYTES:
            return Distinct(Form.BYTES, pc.unique(_binary(present, data_type)), nulls)
        found = _numbers(present, data_type)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise LeftOut(f"values of {values.type} are not of type {data_type}: {error}") from error
    if data_type.form is Form.INT:
        return Distinct(Form.INT, np.unique(found), nulls)
    finite = found[~np.isnan(found)]
    return Distinct(Form.FLOAT, np.unique(finite + 0.0), nulls, len(finite) < len(found))


def buffers(held: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """The bytes of an array of large_binary without nulls, and its offsets."""
    _, offsets, data = held.buffers()
    found = np.frombuffer(offsets, np.int64) if offsets else np.zeros(1, np.int64)
    text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return text, found[held.offset : held.offset + len(held) + 1]


def _nothing(form: Form) -> Any:
    if form is Form.BYTES:
        return pa.array([], pa.large_binary())
    return np.zeros(0, np.int64 if form is Form.INT else np.float64)


def _refuse(values: pa.Array, data_type: DataType) -> LeftOut:
    return LeftOut(f"values of {values.type} are not of type {data_type}")


def _numbers(values: pa.Array, data_type: DataType) -> Any:
    """int64 or float64, by the type's form."""
    if data_type.form is Form.FLOAT:
        if not pa.types.is_floating(values.type):
            raise _refuse(values, data_type)
        return values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if data_type.is_decimal:
        words = np.frombuffer(_decimals(values, data_type), np.int64).reshape(-1, 2)
        return words[:, 0].copy()
    for accepts, convert in _WHOLE:
        if accepts(data_type):
            found = convert(values)
            if found is None:
                raise _refuse(values, data_type)
            return found.cast(pa.int64()).to_numpy(zero_copy_only=False)
    raise _refuse(values, data_type)


def _integers(values: pa.Array) -> pa.Array | None:
    return values if pa.types.is_integer(values.type) else None


def _booleans(values: pa.Array) -> pa.Array | None:
    return values if pa.types.is_boolean(values.type) else None


def _dates(values: pa.Array) -> pa.Array | None:
    return values.cast(pa.int32()) if values.type == pa.date32() else None


def _timestamps(values: pa.Array) -> pa.Array | None:
    return values.cast(pa.timestamp("us", values.type.tz)) if _has_zone(values.type) is True else None


def _plain_timestamps(values: pa.Array) -> pa.Array | None:
    return values.cast(pa.timestamp("us")) if _has_zone(values.type) is False else None


def _has_zone(held: pa.DataType) -> bool | None:
    return held.tz is not None if pa.types.is_timestamp(held) else None


def _durations(values: pa.Array) -> pa.Array | None:
    return values.cast(pa.duration("us")) if pa.types.is_duration(values.type) else None


_WHOLE: tuple[tuple[Callable[[DataType], bool], Callable[[pa.Array], pa.Array | None]], ...] = (
    (lambda t: t.is_integer, _integers),
    (lambda t: t.name == "boolean", _booleans),
    (lambda t: t.name == "date", _dates),
    (lambda t: t.name == "timestamp", _timestamps),
    (lambda t: t.name == "timestamp_ntz", _plain_timestamps),
    (lambda t: t.is_interval and not t.is_months, _durations),
)


def _decimals(values: pa.Array, data_type: DataType) -> bytes:
    """16 bytes a value, little-endian."""
    if not (pa.types.is_decimal(values.type) or pa.types.is_integer(values.type)):
        raise _refuse(values, data_type)
    wanted = pa.decimal128(data_type.precision, data_type.scale)
    # A computation gives an array without an offset into its buffers.
    found = pa.concat_arrays([values.cast(wanted), pa.array([], wanted)])
    data = found.buffers()[1]
    return bytes(memoryview(data)[16 * found.offset : 16 * (found.offset + len(found))]) if data else b""


def _binary(values: pa.Array, data_type: DataType) -> pa.Array:
    if not data_type.is_decimal:
        text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
        if not (text or binary or pa.types.is_fixed_size_binary(values.type)):
            raise _refuse(values, data_type)
        return values.cast(pa.large_binary())
    little = np.frombuffer(_decimals(values, data_type), np.uint8).reshape(-1, 16)
    biased = np.empty((len(little), 17), np.uint8)
    biased[:, 1:] = little[:, ::-1]
    biased[:, 0] = np.where(little[:, 15] >= 128, 127, 128)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(17), len(little), [None, pa.py_buffer(biased.tobytes())])
    return fixed.cast(pa.large_binary())
