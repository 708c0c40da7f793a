"""Takes a pyarrow expression apart.

pyarrow cannot look into an `Expression`, but it can pickle one. The pickle is a record batch: its columns hold the
literals and options, and the metadata of its schema lists the calls, fields and literals in order. A key may occur many
times there, which only Arrow's C data interface shows, since Python gets a dictionary.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")


class _CSchema(ctypes.Structure):
    """The start of Arrow's `struct ArrowSchema`."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def fold(
    expression: pc.Expression,
    *,
    field: Callable[[tuple[str, ...]], T],
    literal: Callable[[Any], T],
    call: Callable[[str, list[T], Any], T],
) -> T:
    """Fold an expression from its leaves up, without recursion.

    field takes a path, literal a pyarrow scalar; call takes the name of a function, its folded arguments, and its
    options as a struct scalar or None. Raises ValueError for expressions that pyarrow does not serialize.

    >>> fold(pc.field("a") > 1, field=".".join, literal=str, call=lambda name, arguments, _: f"{name}({arguments})")
    "greater(['a', '1'])"
    """
    batch = _serialize(expression)
    entries = iter(_metadata(batch.schema))
    open_calls: list[tuple[str, list[T], list[Any]]] = [("", [], [])]
    for key, value in entries:
        arguments = open_calls[-1][1]
        if key == "call":
            open_calls.append((value, [], []))
        elif key == "end":
            name, parts, options = open_calls.pop()
            open_calls[-1][1].append(call(name, parts, options[0] if options else None))
        elif key == "field_ref":
            arguments.append(field((value,)))
        elif key == "nested_field_ref":
            arguments.append(field(tuple(next(entries)[1] for _ in range(int(value)))))
        elif key == "literal":
            arguments.append(literal(batch.column(int(value))[0]))
        elif key == "options":
            open_calls[-1][2].append(batch.column(int(value))[0])
        else:
            raise ValueError(f"an expression of pyarrow with {key!r}")
    if len(open_calls) != 1 or len(open_calls[0][1]) != 1:
        raise ValueError("an expression of pyarrow that does not end")
    return open_calls[0][1][0]


def _serialize(expression: pc.Expression) -> pa.RecordBatch:
    try:
        buffer = expression.__reduce__()[1][0]
        return pa.ipc.open_file(buffer).get_batch(0)
    except (pa.ArrowException, TypeError, IndexError) as error:
        raise ValueError(f"an expression that pyarrow does not serialize: {error}") from error


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata of a schema in order, with repeated keys."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    return [] if address is None else _decode(address)


def _decode(address: int) -> list[tuple[str, str]]:
    """Decode a count of pairs, then the length and bytes of each part."""

    def number() -> int:
        nonlocal address
        address += 4
        return ctypes.c_int32.from_address(address - 4).value

    def text() -> str:
        nonlocal address
        length = number()
        address += length
        return ctypes.string_at(address - length, length).decode()

    return [(text(), text()) for _ in range(number())]
