"""Finds the columns of a table by name, as Spark does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from zskip.errors import ColumnError
from zskip.predicate.tree import Column
from zskip.records import Field
from zskip.types import DataType

_PART = re.compile(r"`(?:[^`]|``)*`|[^.`]+")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_RESERVED = re.compile(
    "all|and|any|as|between|case|cast|date|distinct|else|end|escape|except|exists|false|filter|for|from|group|having|in|"
    "interval|into|is|join|left|like|limit|not|null|on|or|order|outer|right|rlike|select|set|some|table|then|timestamp|"
    "true|union|using|values|when|where|with",
    re.IGNORECASE,
)
"""Names to quote, since a parser may take them for something else."""


class Columns:
    """The columns of one table."""

    def __init__(self, fields: Sequence[Field], *, case_sensitive: bool = False, where: str = "the table") -> None:
        self.fields = tuple(fields)
        self.case_sensitive = case_sensitive
        self._where = where

    def find(self, parts: Sequence[str]) -> Column | None:
        """Find a column, or a field of a struct, by the parts of a written name: `a`, `s.x`, `t.a`.

        None if the name leads into an array or a map. Raises ColumnError if no column matches, or more than one.
        """
        matches = [i for i, part in enumerate(parts) if any(self._is_same(f.name, part) for f in self.fields)]
        if not matches:
            return self._field_inside(self.resolve(parts), ())
        return self._field_inside(self.resolve((parts[matches[0]],)), parts[matches[0] + 1 :])

    def _field_inside(self, field: Field, names: Sequence[str]) -> Column | None:
        """Follow names from a column into its structs."""
        path, data_type = [field.name], field.type
        for name in names:
            if not data_type.fields:
                return None
            inside = ".".join(path) + "."
            position = self._position_of(name, inside + name, [n for n, _ in data_type.fields], inside)
            path.append(data_type.fields[position][0])
            data_type = data_type.fields[position][1]
        return Column(tuple(path), data_type)

    def resolve(self, name: Sequence[str]) -> Field:
        """Find a top-level column by its name; raises ColumnError if none matches, or more than one.

        >>> from zskip.types import DataType
        >>> Columns([Field(name="Day", type=DataType("date"))]).resolve(("day",)).name
        'Day'
        """
        text = ".".join(name)
        position = self._position_of(text, text, [f.name for f in self.fields])
        return self.fields[position]

    def key(self, name: str) -> Field:
        """Find what rows may be clustered by: a column, or a field inside structs, such as `st.a`.

        A name that a column has is that column's; backticks quote a part with a dot. Raises ColumnError if nothing
        matches, or more than one, and for what lies inside arrays and maps.

        >>> from zskip.types import DataType
        >>> struct = DataType("nested", (("A", DataType("long")),))
        >>> Columns([Field(name="st", type=struct)]).key("ST.a").path
        ('st', 'A')
        """
        is_nested = _NAME.fullmatch(name) and not any(self._is_same(field.name, name) for field in self.fields)
        parts = name_parts(name) if is_nested else (name,)
        if len(parts) == 1:
            return self.resolve(parts)
        if not any(self._is_same(field.name, parts[0]) for field in self.fields):
            known = [*(f.name for f in self.fields), *(name_sql(column) for f in self.fields for column in _inside(f))]
            raise ColumnError.unknown(name, known, self._where)
        column = self._field_inside(self.resolve(parts[:1]), parts[1:])
        if column is None:
            raise ColumnError(f'"{name}" leads into what is no struct; choose a column, or a field of a struct')
        return _nested_field(column, self._folded_names())

    def orderable(self) -> list[Field]:
        """List what rows may be clustered by: columns whose types have an order, and such fields inside structs."""
        names = self._folded_names()
        nested = (_nested_field(column, names) for field in self.fields for column in _inside(field))
        return [field for field in (*self.fields, *nested) if field.type.form is not None]

    def _folded_names(self) -> set[str]:
        return {field.name.lower() for field in self.fields}

    def _position_of(self, name: str, text: str, known: Sequence[str], inside: str = "") -> int:
        """Find the position of a name in `known`; raises ColumnError if none matches, or more than one."""
        matches = [i for i, other in enumerate(known) if self._is_same(other, name)]
        if len(matches) > 1:
            raise ColumnError(
                f'"{text}" could be any of {", ".join(inside + known[i] for i in matches)}; '
                "set spark.sql.caseSensitive=true and write the name exactly"
            )
        if not matches:
            raise ColumnError.unknown(text, [inside + other for other in known], self._where)
        return matches[0]

    def _is_same(self, one: str, other: str) -> bool:
        return one == other if self.case_sensitive else one.lower() == other.lower()


class Attributes(Columns):
    """The columns of one table as attributes of a query, whose names Catalyst qualifies by the query's aliases."""

    def __init__(self, fields: Sequence[Field], names: Mapping[str, str], *, case_sensitive: bool = False) -> None:
        """names: the text of each attribute, with qualifiers and quotes, and the name of its column."""
        super().__init__(fields, case_sensitive=case_sensitive)
        self._names = {name_parts(text): name for text, name in names.items()}
        self._known: dict[tuple[str, ...], Column | None] = {}

    def find(self, parts: Sequence[str]) -> Column | None:
        """Find the column of an attribute, or a field inside it. Raises ColumnError for anything else.

        Spark makes padding explicit, so padded text counts as the plain string that the files hold.
        """
        key = tuple(parts)
        if key not in self._known:
            self._known[key] = self._find(parts)
        return self._known[key]

    def _find(self, parts: Sequence[str]) -> Column | None:
        ends = [i for i in range(1, len(parts) + 1) if tuple(parts[:i]) in self._names]
        if not ends:
            raise ColumnError.unknown(".".join(parts), self._names.values(), "the query")
        if len(ends) > 1:
            return None
        column = self._field_inside(self.resolve((self._names[tuple(parts[: ends[0]])],)), parts[ends[0] :])
        return Column(column.path, DataType("string")) if column and column.type.is_char else column


def name_parts(text: str) -> tuple[str, ...]:
    """Split a name at its dots and remove quotes.

    >>> name_parts("a.`n.x`.`y``z`")
    ('a', 'n.x', 'y`z')
    """
    return tuple(p[1:-1].replace("``", "`") if p.startswith("`") else p for p in _PART.findall(text))


def name_sql(column: Column) -> str:
    """Write a column's name, quoted if needed."""
    return ".".join(part if _is_plain(part) else "`" + part.replace("`", "``") + "`" for part in column.path)


def _is_plain(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not _RESERVED.fullmatch(name)


def _nested_field(column: Column, taken: Set[str]) -> Field:
    """A field inside structs, under a name that no column has; taken: names of columns in lower case."""
    name = name_sql(column)
    if name.lower() in taken:
        name = ".".join("`" + part.replace("`", "``") + "`" for part in column.path)
    return Field(name=name, type=column.type, nested=column.path)


def _inside(field: Field) -> Iterator[Column]:
    """List the fields inside the structs of a column."""
    todo = [Column((field.name, name), data_type) for name, data_type in field.type.fields]
    while todo:
        column = todo.pop(0)
        yield column
        todo = [Column((*column.path, name), data_type) for name, data_type in column.type.fields] + todo
