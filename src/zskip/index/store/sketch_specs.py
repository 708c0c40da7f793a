"""Sketches by what the index records of them; a process reads the conditions of `matches`, which may be many, once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from zskip.errors import ZskipError
from zskip.predicate import Columns
from zskip.sketch import SketchOn, parse_sketch_on
from zskip.types import DataType

Recorded = tuple[str, str, str]
"""The spec of a sketch, its time zone, and what Spark made of its condition."""


class Specs:
    """Reads what an index records of the sketches on the columns of one table."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._conditions: dict[Recorded, SketchOn] | None = None

    def read(self, recorded: Recorded) -> SketchOn | None:
        """Read a sketch; None where its column is gone, or its kind is not registered here: its files are kept."""
        spec, timezone, described = recorded
        if described and self._conditions is None:
            columns = tuple((field.name, _whole_type(field.type)) for field in self._columns.fields)
            self._conditions = _conditions_on(columns, self._columns.case_sensitive)
        known = self._conditions if described and self._conditions is not None else {}
        if recorded not in known:
            try:
                known[recorded] = parse_sketch_on(spec, self._columns, timezone=timezone, described=described)
            except (ZskipError, ValueError, LookupError, TypeError):
                return None
        return known[recorded]


@lru_cache(maxsize=4)
def _conditions_on(columns: tuple[Any, ...], case_sensitive: bool) -> dict[Recorded, SketchOn]:
    """The conditions that were read on columns of these names and types."""
    return {}


def _whole_type(data_type: DataType) -> tuple[Any, ...]:
    """A type with those of its parts, which equal types may not share."""
    parts = [(name, _whole_type(part)) for name, part in data_type.fields]
    inner = (data_type.elements, data_type.keys, data_type.values)
    return (data_type.name, *parts, *(None if part is None else _whole_type(part) for part in inner))
