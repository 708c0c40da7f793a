"""The columns of a table, found by name as Spark finds them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zskip.errors import ColumnError
from zskip.predicate.tree import Column
from zskip.records import Field
from zskip.types import DataType

_PART = re.compile(r"`(?:[^`]|``)*`|[^.`]+")


class Columns:
    """The columns of one table."""

    def __init__(self, fields: Sequence[Field], *, case_sensitive: bool = False, where: str = "the table") -> None:
        self.fields = tuple(fields)
        self.case_sensitive = case_sensitive
        self._where = where

    def find(self, parts: Sequence[str]) -> Column | None:
        """Find a column, or a field of a struct, by the parts of a written name: `a`, `s.x`, `t.a`.

        None where the name leads into an array or a map. Raises ColumnError where there is no such column, or two.
        """
        places = [i for i, part in enumerate(parts) if any(self._same(f.name, part) for f in self.fields)]
        if not places:
            return self._inside(self.resolve(parts), ())
        return self._inside(self.resolve((parts[places[0]],)), parts[places[0] + 1 :])

    def _inside(self, field: Field, names: Sequence[str]) -> Column | None:
        """A column, or the field inside of it that names lead to."""
        path, data_type = [field.name], field.type
        for name in names:
            if not data_type.fields:
                return None
            inside = ".".join(path) + "."
            place = self._choose(name, inside + name, [n for n, _ in data_type.fields], inside)
            path.append(data_type.fields[place][0])
            data_type = data_type.fields[place][1]
        return Column(tuple(path), data_type)

    def resolve(self, name: Sequence[str]) -> Field:
        """Find a top-level column by its name; raises ColumnError where there is none, or two.

        >>> from zskip.types import DataType
        >>> Columns([Field(name="Day", type=DataType("date"))]).resolve(("day",)).name
        'Day'
        """
        text = ".".join(name)
        found = self._choose(text, text, [f.name for f in self.fields])
        return self.fields[found]

    def _choose(self, name: str, text: str, known: Sequence[str], inside: str = "") -> int:
        """The place of a name among those that are known; raises ColumnError where it has none, or two."""
        found = [i for i, other in enumerate(known) if self._same(other, name)]
        if len(found) > 1:
            raise ColumnError(
                f'"{text}" could be any of {", ".join(inside + known[i] for i in found)}; '
                "set spark.sql.caseSensitive=true and write the name exactly"
            )
        if not found:
            raise ColumnError.unknown(text, [inside + other for other in known], self._where)
        return found[0]

    def _same(self, one: str, other: str) -> bool:
        return one == other if self.case_sensitive else one.lower() == other.lower()


class Attributes(Columns):
    """The columns of one table as the attributes of a query: Catalyst qualifies their names by the query's aliases."""

    def __init__(self, fields: Sequence[Field], names: Mapping[str, str], *, case_sensitive: bool = False) -> None:
        """names: the text of each attribute, qualifiers and quotes included, and the name of its column."""
        super().__init__(fields, case_sensitive=case_sensitive)
        self._names = {name_parts(text): name for text, name in names.items()}

    def find(self, parts: Sequence[str]) -> Column | None:
        """Find the column of an attribute, or a field inside of it. Raises ColumnError for anything else.

        Text that is padded has been made explicit by Spark, so that it counts as the string that the files hold.
        """
        ends = [i for i in range(1, len(parts) + 1) if tuple(parts[:i]) in self._names]
        if not ends:
            raise ColumnError.unknown(".".join(parts), self._names.values(), "the query")
        if len(ends) > 1:
            return None
        column = self._inside(self.resolve((self._names[tuple(parts[: ends[0]])],)), parts[ends[0] :])
        return Column(column.path, DataType("string")) if column and column.type.is_char else column


def name_parts(text: str) -> tuple[str, ...]:
    """Split a written name at its points, quotes removed.

    >>> name_parts("a.`n.x`.`y``z`")
    ('a', 'n.x', 'y`z')
    """
    return tuple(p[1:-1].replace("``", "`") if p.startswith("`") else p for p in _PART.findall(text))
