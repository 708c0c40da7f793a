"""Which column of a file answers for a column of the table, and whether its statistics may be used for it."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from zskip.index.leaves import Column
from zskip.types import DataType, Form

_WIDER = {"byte": 0, "short": 1, "integer": 2, "long": 3}
_BYTES = ("string", "binary")


class Absent(enum.Enum):
    """Why no column of a file answers."""

    MISSING = "missing"
    """The file has no such column: all its values are null."""
    UNKNOWN = "unknown"
    """There is something of that name, but not one column of a usable type."""


def fold(path: tuple[str, ...], case_sensitive: bool) -> tuple[str, ...]:
    """Bring a path to the form in which names are compared."""
    return path if case_sensitive else tuple(name.lower() for name in path)


def resolve(
    path: tuple[str, ...], wanted: DataType | None, columns: Sequence[Column], *, case_sensitive: bool
) -> int | Absent:
    """Find the column of a file that answers for `path`; its place in `columns`.

    wanted: the type in the table; None accepts any type that has an order.

    >>> columns = [Column(("A",), "integer"), Column(("s", "x"), "string")]
    >>> resolve(("a",), DataType("long"), columns, case_sensitive=False)
    0
    >>> resolve(("s",), DataType("long"), columns, case_sensitive=False)
    <Absent.UNKNOWN: 'unknown'>
    >>> resolve(("b",), DataType("long"), columns, case_sensitive=False)
    <Absent.MISSING: 'missing'>
    """
    path = fold(path, case_sensitive)
    near = []
    for i, column in enumerate(columns):
        other = fold(column.path, case_sensitive)
        depth = min(len(path), len(other))
        if other[:depth] == path[:depth]:
            near.append((i, other))
    if not near:
        return Absent.MISSING
    if len(near) > 1 or near[0][1] != path or not readable_as(columns[near[0][0]].type, wanted):
        return Absent.UNKNOWN
    return near[0][0]


def readable_as(held: str | None, wanted: DataType | None) -> bool:
    """Whether the forms of a file's type are those of the same values in the table's type.

    >>> readable_as("integer", DataType("long")), readable_as("long", DataType("integer"))
    (True, False)
    """
    if held is None:
        return False
    if wanted is None or held == wanted.name:
        return True
    if held in _WIDER and wanted.name in _WIDER:
        return _WIDER[held] <= _WIDER[wanted.name]
    if held in _BYTES and wanted.name in _BYTES:
        return True
    if wanted.name.startswith("interval "):
        return held == ("integer" if wanted.name.split()[1] in ("year", "month") else "long")
    narrow = DataType(held)
    if narrow.is_decimal and wanted.is_decimal:
        same_form = narrow.form is wanted.form is Form.INT or narrow.form is wanted.form is Form.BYTES
        return same_form and narrow.scale == wanted.scale and narrow.precision <= wanted.precision
    return (held, wanted.name) == ("float", "double")
