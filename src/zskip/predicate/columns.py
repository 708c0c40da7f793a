"""The columns of a table, found by name as Spark finds them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zskip.errors import ColumnError
from zskip.records import Field

_PART = re.compile(r"`(?:[^`]|``)*`|[^.`]+")


class Columns:
    """The columns of one table."""

    def __init__(self, fields: Sequence[Field], *, case_sensitive: bool = False, where: str = "the table") -> None:
        self.fields = tuple(fields)
        self.case_sensitive = case_sensitive
        self._where = where

    def find(self, parts: Sequence[str]) -> Field | None:
        """Find a top-level column by the parts of a written name: `a`, or behind qualifiers as in `t.a`.

        None where the name leads to a field of a struct. Raises ColumnError where there is no such column, or two.
        """
        for i, part in enumerate(parts):
            if any(self._same(field.name, part) for field in self.fields):
                return self.resolve((part,)) if i == len(parts) - 1 else None
        return self.resolve(parts)

    def resolve(self, name: Sequence[str]) -> Field:
        """Find a top-level column by its name; raises ColumnError where there is none, or two.

        >>> from zskip.types import DataType
        >>> Columns([Field(name="Day", type=DataType("date"))]).resolve(("day",)).name
        'Day'
        """
        text = ".".join(name)
        found = [f for f in self.fields if self._same(f.name, text)]
        if len(found) > 1:
            raise ColumnError(
                f'"{text}" could be any of {", ".join(f.name for f in found)}; '
                "set spark.sql.caseSensitive=true and write the name exactly"
            )
        if not found:
            raise ColumnError.unknown(text, [f.name for f in self.fields], self._where)
        return found[0]

    def _same(self, one: str, other: str) -> bool:
        return one == other if self.case_sensitive else one.lower() == other.lower()


class Attributes(Columns):
    """The columns of one table as the attributes of a query: Catalyst qualifies their names by the query's aliases."""

    def __init__(self, fields: Sequence[Field], names: Mapping[str, str], *, case_sensitive: bool = False) -> None:
        """names: the text of each attribute, qualifiers and quotes included, and the name of its column."""
        super().__init__(fields, case_sensitive=case_sensitive)
        self._names = {name_parts(text): name for text, name in names.items()}

    def find(self, parts: Sequence[str]) -> Field | None:
        """Find the column of an attribute; None for fields of structs. Raises ColumnError for anything else."""
        if tuple(parts) in self._names:
            return self.resolve((self._names[tuple(parts)],))
        if any(tuple(parts[:i]) in self._names for i in range(1, len(parts))):
            return None
        raise ColumnError.unknown(".".join(parts), self._names.values(), "the query")


def name_parts(text: str) -> tuple[str, ...]:
    """Split a written name at its points, quotes removed.

    >>> name_parts("a.`n.x`.`y``z`")
    ('a', 'n.x', 'y`z')
    """
    return tuple(p[1:-1].replace("``", "`") if p.startswith("`") else p for p in _PART.findall(text))
