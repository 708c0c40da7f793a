"""Sizes in the notation of people."""

from __future__ import annotations

import re

from zskip.errors import InputError

_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str | int) -> int:
    """Read a size in bytes: a number, or text such as `128MB` (powers of 1000) or `128MiB` (powers of 1024).

    Raises InputError for anything else, and for sizes below one byte.

    >>> parse_size("128MB"), parse_size("1.5 GiB"), parse_size(4096)
    (128000000, 1610612736, 4096)
    """
    match = _SIZE.fullmatch(str(text))
    size = int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].lower()]) if match else 0
    if size < 1:
        raise InputError(f'"{text}" is not a file size; write bytes, or a number with a unit such as "128MB" or "1GiB"')
    return size


def read_size(name: str, value: int | str) -> int:
    """Read an argument in bytes, as `parse_size` does; raises InputError that names it."""
    try:
        return parse_size(value)
    except InputError as error:
        raise InputError(f'{name}={value!r} is not a size; write bytes, or text with a unit such as "64MB"') from error


def show_size(size: float) -> str:
    """Format a number of bytes for people.

    >>> show_size(999), show_size(128_000_000)
    ('999 B', '128.0 MB')
    """
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"
