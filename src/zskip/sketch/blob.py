"""States as bytes: versioned, with a checksum, and never executed.

    magic "zsk" | version (1 byte) | CRC-32 of all that follows (4 bytes)
    flags (1 byte: 1 compressed) | length of the body before compression (4 bytes) | body
    body: spec of the sketch (1 byte of length, UTF-8) | payload

All numbers are little-endian. The spec is in the body so that the state of one sketch is never read as another's.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from zskip.errors import IndexFormatError
from zskip.records import objects

_MAGIC = b"zsk"
_VERSION = 1
_HEAD = "<3sBI"
_BODY = "<BI"
_COMPRESSED = 1
_LARGEST = 1 << 28
_ARRAY = "<BI"
_TYPES = tuple(map(np.dtype, ("<i8", "<f8", "<u4", "<u8", "u1")))
_OBJECTS = 255


def seal(spec: str, payload: bytes) -> bytes:
    """Wrap a payload in bytes that name their sketch."""
    name = spec.encode()
    body = bytes([len(name)]) + name + payload
    packed = zlib.compress(body, 6)
    flags, content = (_COMPRESSED, packed) if len(packed) < len(body) else (0, body)
    rest = struct.pack(_BODY, flags, len(body)) + content
    return struct.pack(_HEAD, _MAGIC, _VERSION, zlib.crc32(rest)) + rest


def unseal(spec: str, data: bytes) -> bytes:
    """Unwrap a payload; raises IndexFormatError for damaged bytes, or those of another sketch."""
    data = bytes(data)
    if len(data) < struct.calcsize(_HEAD) + struct.calcsize(_BODY) or data[:3] != _MAGIC:
        raise IndexFormatError(f"these {len(data)} bytes are no {spec} sketch; build the index again")
    _, version, checksum = struct.unpack_from(_HEAD, data)
    if version != _VERSION:
        raise IndexFormatError(f"a sketch of format {version}; this zskip reads {_VERSION}: build the index again")
    if zlib.crc32(memoryview(data)[struct.calcsize(_HEAD) :]) != checksum:
        raise IndexFormatError(f"a damaged {spec} sketch (its checksum does not fit); build the index again")
    body = _body(spec, data)
    end = 1 + body[0] if body else 0
    if body[1:end] != spec.encode():
        raise IndexFormatError(f"a sketch of another kind than {spec}; build the index again")
    return body[end:]


def _body(spec: str, data: bytes) -> bytes:
    flags, size = struct.unpack_from(_BODY, data, struct.calcsize(_HEAD))
    body = data[struct.calcsize(_HEAD) + struct.calcsize(_BODY) :]
    if flags == _COMPRESSED and size <= _LARGEST:
        try:
            body = zlib.decompressobj().decompress(body, size + 1)
        except zlib.error as error:
            raise IndexFormatError(f"a damaged {spec} sketch ({error}); build the index again") from error
    elif flags:
        raise IndexFormatError(f"a {spec} sketch that this zskip cannot read; build the index again")
    if len(body) != size:
        raise IndexFormatError(f"a damaged {spec} sketch (its length does not fit); build the index again")
    return body


def pack_arrays(arrays: Sequence[Any]) -> bytes:
    """Write one-dimensional arrays: int64, float64, uint32, uint64, uint8, or objects that are `bytes`."""
    return b"".join(map(_pack, arrays))


def _pack(array: Any) -> bytes:
    if array.dtype == np.object_:
        lengths = np.array([len(value) for value in array], "<u4")
        return struct.pack(_ARRAY, _OBJECTS, len(array)) + lengths.tobytes() + b"".join(array)
    little = array.astype(array.dtype.newbyteorder("<"))
    return struct.pack(_ARRAY, _TYPES.index(little.dtype), len(array)) + bytes(little.tobytes())


def unpack_arrays(data: bytes) -> list[Any]:
    """Undo `pack_arrays`; raises IndexFormatError for other bytes."""
    arrays, offset = [], 0
    try:
        while offset < len(data):
            array, offset = _unpack(data, offset)
            arrays.append(array)
    except (struct.error, ValueError, IndexError) as error:
        raise IndexFormatError(f"a damaged sketch ({error}); build the index again") from error
    return arrays


def _unpack(data: bytes, offset: int) -> tuple[Any, int]:
    code, count = struct.unpack_from(_ARRAY, data, offset)
    offset += struct.calcsize(_ARRAY)
    dtype = np.dtype("<u4") if code == _OBJECTS else _TYPES[code]
    array = np.frombuffer(data, dtype, count, offset)
    offset += array.nbytes
    if code != _OBJECTS:
        return array.astype(dtype.newbyteorder("=")), offset
    ends = offset + np.cumsum(array, dtype=np.int64)
    if count and ends[-1] > len(data):
        raise ValueError("it ends too soon")
    texts = [data[start:end] for start, end in zip([offset, *ends[:-1].tolist()], ends.tolist(), strict=False)]
    return objects(texts), int(ends[-1]) if count else offset
