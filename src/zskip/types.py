"""Engine-neutral column types, and the order-preserving form in which their values are compared.

A type has the name that Spark's schema JSON gives it (`integer`, `decimal(12,2)`, `timestamp_ntz`). Every orderable
type has one of three *forms*, which statistics, comparisons of literals, and curves use:

| form    | NumPy            | types                                                               |
|---------|------------------|---------------------------------------------------------------------|
| `INT`   | int64            | boolean, byte .. long, date (days), time (µs), timestamps (µs),     |
|         |                  | intervals, decimals of at most 18 digits (unscaled)                 |
| `FLOAT` | float64          | float, double                                                       |
| `BYTES` | object (`bytes`) | string, char (UTF-8), binary, decimals of more digits (biased, 17 B)  |
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date()
_MICROSECOND = dt.timedelta(microseconds=1)
DAY_MICROS = 86_400_000_000
"""Microseconds of a day; times of day are below."""
_LONG_DECIMAL_BYTES = 17
_LONG_DECIMAL_BIAS = 1 << (8 * _LONG_DECIMAL_BYTES - 1)

INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_INTERVAL = re.compile(r"interval (year|month|day|hour|minute|second)( to (month|hour|minute|second))?")
_TIME = re.compile(r"time\(([0-6])\)")
_CHAR = re.compile(r"\bchar\(\d+\)")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")

UTF8_LCASE = "string collate UTF8_LCASE"
"""The type of texts that compare without regard to case, by their code points in lower case."""
Encoded = int | float | bytes
"""A value in the form of its type."""


class Form(enum.Enum):
    """The representation in which the values of a type are compared."""

    INT = "int"
    FLOAT = "float"
    BYTES = "bytes"


ZEROS: dict[Form, Any] = {Form.INT: 0, Form.FLOAT: 0.0, Form.BYTES: b""}
"""A value of each form, for places that have none."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A column type by its name in Spark's schema JSON.

    >>> DataType("decimal(12,2)").form
    <Form.INT: 'int'>
    >>> DataType("array<integer>").form is None
    True
    """

    name: str
    fields: tuple[tuple[str, DataType], ...] = field(default=(), repr=False, compare=False)
    """Names and types of a struct's fields; empty for all other types."""
    elements: DataType | None = field(default=None, repr=False, compare=False)
    """The type of an array's elements; None for all other types."""
    keys: DataType | None = field(default=None, repr=False, compare=False)
    """The type of a map's keys; None for all other types."""
    values: DataType | None = field(default=None, repr=False, compare=False)
    """The type of a map's values; None for all other types."""

    @property
    def form(self) -> Form | None:
        """The form in which values are compared; None if the type has no order that zskip may use."""
        if self.name in ("float", "double"):
            return Form.FLOAT
        if self.name in ("string", "binary") or self.is_char:
            return Form.BYTES
        if self.is_decimal:
            return Form.INT if self.precision <= 18 else Form.BYTES
        if self.name in INTEGERS or self.name in ("boolean", "date", "timestamp", "timestamp_ntz"):
            return Form.INT
        return Form.INT if self.is_interval or self.is_time else None

    @property
    def is_integer(self) -> bool:
        """Whether this is byte, short, integer or long."""
        return self.name in INTEGERS

    @property
    def is_decimal(self) -> bool:
        """Whether this is a decimal of any precision."""
        return self.name.startswith("decimal(")

    @property
    def is_char(self) -> bool:
        """Whether this is text that Spark pads with blanks; files may store it unpadded."""
        return self.name.startswith("char(")

    @property
    def is_time(self) -> bool:
        """Whether this is a time of day, of at most six digits after the second."""
        return _TIME.fullmatch(self.name) is not None

    @property
    def time_unit(self) -> int:
        """The microseconds of the last digit of a time of day."""
        match = _TIME.fullmatch(self.name)
        if match is None:
            raise TypeError(f"{self.name} is not a time of day")
        return int(10 ** (6 - int(match[1])))

    @property
    def is_interval(self) -> bool:
        """Whether this is an interval of days and time, or of years and months."""
        return _INTERVAL.fullmatch(self.name) is not None

    @property
    def is_months(self) -> bool:
        """Whether this is an interval of years and months."""
        return self.is_interval and self.name.split()[1] in ("year", "month")

    @property
    def precision(self) -> int:
        """The number of digits of a decimal."""
        return self._decimal()[0]

    @property
    def scale(self) -> int:
        """The number of digits of a decimal after its point."""
        return self._decimal()[1]

    def _decimal(self) -> tuple[int, int]:
        match = _DECIMAL.fullmatch(self.name)
        if match is None:
            raise TypeError(f"{self.name} is not a decimal")
        return int(match[1]), int(match[2])

    def __str__(self) -> str:
        return self.name


NESTED = DataType("nested")
"""Arrays, maps, and structs without known fields."""


def read_type(description: object, metadata: Mapping[str, Any] | None = None) -> DataType:
    """Read a type from Spark's schema JSON, with the metadata of its column.

    >>> read_type("string", {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"})
    DataType(name='char(5)')
    >>> read_type({"type": "struct", "fields": [{"name": "x", "type": "long"}]}).fields
    (('x', DataType(name='long')),)
    """
    metadata = metadata or {}
    char_type = str(metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    if isinstance(description, Mapping):
        if description.get("type") != "struct":
            # The metadata of the column tells which of the texts inside have a collation or are padded.
            return NESTED if char_type or metadata.get("__COLLATIONS") else _read_collection(description)
        inherited = {"__CHAR_VARCHAR_TYPE_STRING": char_type} if char_type else {}
        members = description["fields"]
        fields = ((f["name"], read_type(f["type"], {**inherited, **f.get("metadata", {})})) for f in members)
        return DataType(NESTED.name, tuple(fields))
    if metadata.get("__COLLATIONS"):
        (collation, *others) = {str(name).rpartition(".")[2] for name in metadata["__COLLATIONS"].values()}
        return DataType(f"{description} collate" if others else f"{description} collate {collation}")
    padded = _CHAR.search(char_type) if description == "string" else None
    return DataType(padded[0] if padded else str(description))


def _read_collection(description: Mapping[str, Any]) -> DataType:
    if description.get("type") == "array":
        return DataType(NESTED.name, elements=read_type(description["elementType"]))
    if description.get("type") == "map":
        keys, values = read_type(description["keyType"]), read_type(description["valueType"])
        return DataType(NESTED.name, keys=keys, values=values)
    return NESTED


def value_range(data_type: DataType) -> tuple[int, int]:
    """Return the least and the greatest whole number of a type; for a decimal, unscaled.

    >>> value_range(DataType("byte")), value_range(DataType("decimal(3,1)"))
    ((-128, 127), (-999, 999))
    """
    if data_type.is_decimal:
        return 1 - 10**data_type.precision, 10**data_type.precision - 1
    if data_type.name == "boolean":
        return 0, 1
    bits = 32 if data_type.name == "date" else INTEGERS.get(data_type.name, 64)
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def encode_decimal(unscaled: int, data_type: DataType) -> Encoded:
    """Encode an unscaled decimal in the form of its type: int64, or 17 bytes that sort like the numbers.

    >>> encode_decimal(-1, DataType("decimal(20,0)")) < encode_decimal(0, DataType("decimal(20,0)"))
    True
    """
    if data_type.precision <= 18:
        return unscaled
    return (unscaled + _LONG_DECIMAL_BIAS).to_bytes(_LONG_DECIMAL_BYTES, "big")


def decode_decimal(value: Encoded, data_type: DataType) -> int:
    """Undo `encode_decimal`."""
    if isinstance(value, bytes):
        return int.from_bytes(value, "big") - _LONG_DECIMAL_BIAS
    return int(value)


def to_decimal(value: Encoded, data_type: DataType) -> decimal.Decimal:
    """The number that an encoded decimal stands for, with all its digits.

    >>> long = DataType("decimal(38,2)")
    >>> str(to_decimal(encode_decimal(10**37 + 1, long), long))
    '100000000000000000000000000000000000.01'
    """
    # Python's own context rounds to 28 digits.
    return decimal.Decimal(decode_decimal(value, data_type)).scaleb(-data_type.scale, decimal.Context(prec=80))


def encode(value: object, data_type: DataType) -> Encoded:
    """Encode a Python value that `data_type` can hold exactly in the form of the type.

    Naive datetimes count as UTC. Raises TypeError or ValueError if the value does not belong to the type.

    >>> encode(dt.date(1970, 1, 2), DataType("date"))
    1
    >>> encode(decimal.Decimal("1.5"), DataType("decimal(4,2)"))
    150
    """
    name = data_type.name
    if data_type.is_integer or name == "boolean":
        return int(value)  # type: ignore[call-overload, no-any-return]
    if data_type.form is Form.FLOAT:
        return float(value)  # type: ignore[arg-type]
    if name == "string" and isinstance(value, str):
        return value.encode()
    if name == "binary" and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if data_type.is_decimal:
        return encode_decimal(_unscaled(value, data_type.scale), data_type)
    if name == "date" and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return (value - _EPOCH_DAY).days
    if name in ("timestamp", "timestamp_ntz") and isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(dt.timezone.utc).replace(tzinfo=None)
        return (value - _EPOCH) // _MICROSECOND
    if data_type.is_time and isinstance(value, dt.time):
        return (dt.datetime.combine(_EPOCH_DAY, value.replace(tzinfo=None)) - _EPOCH) // _MICROSECOND
    if isinstance(value, dt.timedelta):
        return value // _MICROSECOND
    raise TypeError(f"{value!r} is not a value of {name}")


def valid_text(value: bytes) -> str:
    """Return the longest prefix that is valid UTF-8: all of the bytes unless a character was cut."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        return value[: error.start].decode()


def _unscaled(value: object, scale: int) -> int:
    number = value if isinstance(value, decimal.Decimal) else decimal.Decimal(str(value))
    with decimal.localcontext(decimal.Context(prec=80)):
        shifted = number.scaleb(scale)
        if shifted != shifted.to_integral_value():
            raise ValueError(f"{value} has more than {scale} digits after the point")
        return int(shifted)
