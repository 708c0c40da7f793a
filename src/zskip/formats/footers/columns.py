"""Whether the columns of all files survive a rewrite, which reads them by one schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from zskip.errors import UnsupportedError
from zskip.index.resolve import fold
from zskip.storage import Storage
from zskip.types import DataType

Path = tuple[str, ...]
SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
"""The key of a footer under which Spark keeps the schema that it has written, in JSON."""


def struct_fields(kind: pa.DataType, path: Path) -> Iterator[Path]:
    """The paths of the fields of all structs in a type, through `element` of lists and `key` and `value` of maps."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_struct(kind):
        for field in kind:
            yield (*path, field.name)
            yield from struct_fields(field.type, (*path, field.name))
    elif pa.types.is_map(kind):
        yield from struct_fields(kind.key_type, (*path, "key"))
        yield from struct_fields(kind.item_type, (*path, "value"))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from struct_fields(kind.value_type, (*path, "element"))


def _fields_of_structs(description: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The path of each struct in a type of Spark's JSON, and the name of each of its fields."""
    kind = description["type"] if isinstance(description, Mapping) else ""
    if kind == "struct":
        for field in description["fields"]:
            yield path, field["name"]
            yield from _fields_of_structs(field["type"], (*path, field["name"]))
    elif kind == "array":
        yield from _fields_of_structs(description["elementType"], (*path, "element"))
    elif kind == "map":
        yield from _fields_of_structs(description["keyType"], (*path, "key"))
        yield from _fields_of_structs(description["valueType"], (*path, "value"))
    elif kind == "udt":
        yield from _fields_of_structs(description["sqlType"], path)


class ColumnCheck:
    """Compares the columns of files with each other, and with those that Spark has inferred."""

    def __init__(
        self,
        storage: Storage,
        partition_names: Sequence[str],
        *,
        merge: bool,
        inferred: str | None,
        case_sensitive: bool,
    ) -> None:
        """merge, inferred, case_sensitive: as `inspect_footers` takes them."""
        self._storage = storage
        self._merge = merge
        self._case_sensitive = case_sensitive
        self._partition_names = {self._fold(name) for name in partition_names}
        self._structs: dict[Path, set[str]] = {}
        for path, name in () if inferred is None else _fields_of_structs(json.loads(inferred)):
            self._structs.setdefault(fold(path, case_sensitive), set()).add(self._fold(name))
        self._first: tuple[str, Mapping[str, str]] | None = None
        self._previous: tuple[tuple[str, str], ...] | None = None
        self.hidden: dict[str, str] = {}
        """The types, as Spark names them, of columns that files hold under the name of a partition column, and that
        Spark has not inferred. Nobody reads them."""

    def _fold(self, name: str) -> str:
        return fold((name,), self._case_sensitive)[0]

    def add(self, file: str, columns: tuple[tuple[str, str], ...], inside: Sequence[Path]) -> None:
        """Check a file; columns, inside: as `Footer` has them.

        Raises UnsupportedError for a column that a rewrite might lose.
        """
        if columns == self._previous:
            return
        self._previous = columns
        types = dict(columns)
        if self._first is None:
            self._first = file, types
        elif not self._merge:
            self._compare(*self._first, file, types)
        if self._structs:
            self._find_lost(file, types, inside)

    def _compare(self, file: str, types: Mapping[str, str], other_file: str, other: Mapping[str, str]) -> None:
        for name in sorted({*types, *other}):
            # Not all files need to have what nobody reads.
            may_lack = self._fold(name) in self._partition_names and not (name in types and name in other)
            if types.get(name) != other.get(name) and not may_lack:
                raise UnsupportedError(
                    f'column "{name}" is {types.get(name, "absent")} in "{self._storage.uri(file)}" and '
                    f'{other.get(name, "absent")} in "{self._storage.uri(other_file)}": a rewrite could lose columns. '
                    "Set spark.sql.parquet.mergeSchema=true to have Spark unify them, or bring the files to one schema "
                    "first"
                )

    def _find_lost(self, file: str, types: Mapping[str, str], inside: Sequence[Path]) -> None:
        for path in (*((name,) for name in types), *inside):
            (*struct, name) = fold(path, self._case_sensitive)
            # Of what is no struct for Spark, such as a variant, it reads all.
            if name in self._structs.get(tuple(struct), {name}):
                continue
            kind = types[path[0]]
            is_hidden = path[:1] == path and name in self._partition_names and DataType(kind).form is not None
            if not is_hidden or self.hidden.setdefault(path[0], kind) != kind:
                raise UnsupportedError(
                    f'"{self._storage.uri(file)}" has the column "{".".join(path)}", which the schema that Spark '
                    "infers lacks: a rewrite would lose it. Set spark.sql.parquet.mergeSchema=true, remove "
                    "_common_metadata and _metadata from the table, or write the file without the outdated schema in "
                    f'its key "{SPARK_SCHEMA}"'
                )
