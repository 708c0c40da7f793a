"""Parquet footers reduced to some of their row groups, in bytes of Thrift's compact protocol.

Parsing a footer of hundreds of row groups takes longer than reading a row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_TRAILER_BYTES = 8
_ROW_GROUPS, _COLUMNS, _CRYPTO_METADATA = 4, 1, 8
"""The numbers of fields in `FileMetaData`, `RowGroup` and `ColumnChunk`."""
_STRUCT = 12
_SHORT_LIST = 15
"""The size marker of longer lists, whose length follows the first byte."""
_NO_BYTES, _ONE_BYTE, _NUMBERS, _DOUBLE, _BINARY, _LISTS = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10)


def varint(value: int) -> bytes:
    """Encode an integer with seven bits in each byte, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def row_group_offsets(footer: bytes) -> tuple[int, ...]:
    """Offsets, from the footer's start, at which the row groups' descriptions begin, and at which the last one ends.

    Raises ValueError or IndexError if it is not a footer.
    """
    return tuple(_element_offsets(footer, _field_offset(footer, 0, _ROW_GROUPS)))


def encrypted_columns(footer: bytes) -> frozenset[int]:
    """The positions of the leaf columns that are encrypted in some row group; raises as `row_group_offsets`."""
    groups = row_group_offsets(footer)[:-1]
    chunks = (_element_offsets(footer, _field_offset(footer, group, _COLUMNS))[:-1] for group in groups)
    return frozenset(
        column
        for offsets in chunks
        for column, chunk in enumerate(offsets)
        if any(field == _CRYPTO_METADATA for field, _ in _fields(footer, chunk))
    )


def _fields(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """The number of each field of a struct, and the offset of its value."""
    field = 0
    while data[at]:
        kind, step = data[at] & 0xF, data[at] >> 4
        at += 1
        if not step:
            raise ValueError("its fields are not in their order")
        field += step
        yield field, at
        at = _skip_value(data, at, kind)


def _field_offset(data: bytes, at: int, number: int) -> int:
    for field, offset in _fields(data, at):
        if field == number:
            return offset
    raise ValueError("it has no row groups" if number == _ROW_GROUPS else "a row group has no columns")


def _element_offsets(data: bytes, at: int) -> list[int]:
    """The offset of each struct in a list, and that of the list's end."""
    count, _, at = _decode_list_head(data, at)
    offsets = [at]
    for _ in range(count):
        offsets.append(_skip_value(data, offsets[-1], _STRUCT))
    return offsets


def select_row_groups(footer: bytes, offsets: Sequence[int], first: int, last: int) -> bytes:
    """The end of a file that describes only some adjacent row groups; footer, offsets: as in `row_group_offsets`."""
    start, end = offsets[0] - len(_encode_list_head(len(offsets) - 1)), offsets[-1]
    parts = [
        footer[:start],
        _encode_list_head(last - first + 1),
        footer[offsets[first] : offsets[last + 1]],
        footer[end:-_TRAILER_BYTES],
    ]
    length = sum(map(len, parts))
    return b"".join([*parts, length.to_bytes(4, "little"), footer[-4:]])


def _encode_list_head(count: int) -> bytes:
    if count < _SHORT_LIST:
        return bytes([count << 4 | _STRUCT])
    return bytes([_SHORT_LIST << 4 | _STRUCT]) + varint(count)


def _decode_list_head(data: bytes, at: int) -> tuple[int, int, int]:
    """The length and element kind of a list, and the offset of its first element."""
    count, kind = data[at] >> 4, data[at] & 0xF
    at += 1
    if count == _SHORT_LIST:
        count, at = _decode_varint(data, at)
    return count, kind, at


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _skip_value(data: bytes, at: int, kind: int) -> int:
    """The offset at which a value ends."""
    if kind in _NO_BYTES:
        return at
    if kind in _NUMBERS:
        while data[at] >= 0x80:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _decode_varint(data, at)
        return at + size
    if kind == _STRUCT:
        while data[at]:
            head = data[at]
            at += 1
            if not head >> 4:
                at = _skip_value(data, at, _NUMBERS[0])
            at = _skip_value(data, at, head & 0xF)
        return at + 1
    if kind in _LISTS:
        count, inner, at = _decode_list_head(data, at)
        for _ in range(count):
            at = at + 1 if inner in _NO_BYTES else _skip_value(data, at, inner)
        return at
    if kind in (_ONE_BYTE, _DOUBLE):
        return at + (1 if kind == _ONE_BYTE else 8)
    raise ValueError(f"it has values of the unknown kind {kind}")
