"""Footers of Parquet files cut down to some of their row groups, as bytes of Thrift's compact protocol.

A footer of hundreds of row groups takes longer to parse than a row group takes to read.
"""

from __future__ import annotations

from collections.abc import Sequence

_TRAILER_BYTES = 8
_ROW_GROUPS = 4
"""Number of the field in `FileMetaData`."""
_STRUCT = 12
_SHORT_LIST = 15
"""Lists of so many elements and more have their length after the first byte."""
_NO_BYTES, _ONE_BYTE, _NUMBERS, _DOUBLE, _BINARY, _LISTS = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10)


def varint(value: int) -> bytes:
    """A whole number as seven bits a byte, the last ones first.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def row_group_places(footer: bytes) -> tuple[int, ...]:
    """Where in the end of a file, from its footer on, each row group's description begins, and the last one ends.

    Raises ValueError or IndexError where it is no footer.
    """
    at, field = 0, 0
    while footer[at]:
        kind, step = footer[at] & 0xF, footer[at] >> 4
        at += 1
        if not step:
            raise ValueError("its fields are not in their order")
        field += step
        if field == _ROW_GROUPS:
            count, _, at = _list_head(footer, at)
            places = [at]
            for _ in range(count):
                places.append(_after(footer, places[-1], _STRUCT))
            return tuple(places)
        at = _after(footer, at, kind)
    raise ValueError("it has no row groups")


def select_row_groups(footer: bytes, places: Sequence[int], first: int, last: int) -> bytes:
    """The end of a file that describes only some neighboring row groups; footer, places: as `row_group_places` has."""
    start, end = places[0] - len(_head_of_list(len(places) - 1)), places[-1]
    parts = [
        footer[:start],
        _head_of_list(last - first + 1),
        footer[places[first] : places[last + 1]],
        footer[end:-_TRAILER_BYTES],
    ]
    length = sum(map(len, parts))
    return b"".join([*parts, length.to_bytes(4, "little"), footer[-4:]])


def _head_of_list(count: int) -> bytes:
    if count < _SHORT_LIST:
        return bytes([count << 4 | _STRUCT])
    return bytes([_SHORT_LIST << 4 | _STRUCT]) + varint(count)


def _list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """Length and kind of a list, and where its elements begin."""
    count, kind = data[at] >> 4, data[at] & 0xF
    at += 1
    if count == _SHORT_LIST:
        count, at = _number(data, at)
    return count, kind, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _after(data: bytes, at: int, kind: int) -> int:
    """Where a value ends."""
    if kind in _NO_BYTES:
        return at
    if kind in _NUMBERS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _number(data, at)
        return at + size
    if kind == _STRUCT:
        while data[at]:
            head = data[at]
            at += 1
            if not head >> 4:
                at = _after(data, at, _NUMBERS[0])
            at = _after(data, at, head & 0xF)
        return at + 1
    if kind in _LISTS:
        count, inner, at = _list_head(data, at)
        for _ in range(count):
            at = at + 1 if inner in _NO_BYTES else _after(data, at, inner)
        return at
    if kind in (_ONE_BYTE, _DOUBLE):
        return at + (1 if kind == _ONE_BYTE else 8)
    raise ValueError(f"it has values of the unknown kind {kind}")
