"""The ids of a table's columns, by which Iceberg finds them in files, from the JSON of its metadata."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from zskip.index.store.leaves import FIELD_ID
from zskip.records import ColumnIds

Path = tuple[str, ...]
_REWRITTEN = "uuid"
"""The type whose values Iceberg's reader in Spark gives in another form than the files have."""


def read_column_ids(schema: Mapping[str, Any], partition_sources: Collection[int], mapping: str | None) -> ColumnIds:
    """The ids of a schema's columns; those inside lists and maps are left out.

    schema: as in the metadata; partition_sources: ids of columns by whose values any spec partitions: Iceberg takes
    these values from the manifests; mapping: the table's name mapping in JSON.

    >>> schema = {"fields": [{"id": 1, "name": "a", "type": "long"}, {"id": 2, "name": "b", "type": "int"}]}
    >>> read_column_ids(schema, [2], None)
    ColumnIds(ids={('a',): 1, ('b',): 2}, filled=frozenset({2}), names={})
    """
    fields = list(_fields(schema, ()))
    defaults = {field["id"] for _, field in fields if field.get("initial-default") is not None}
    return ColumnIds(
        ids={path: field["id"] for path, field in fields},
        filled=frozenset({*defaults, *partition_sources}),
        names=dict(_mapped_names(json.loads(mapping), ())) if mapping else {},
    )


def column_ids_from_json(text: str) -> ColumnIds:
    """The ids of the columns that Iceberg's reader gives as the files have them.

    text: schema, partition specs and name mapping in JSON, as `IcebergScan.java` writes them.
    """
    described = json.loads(text)
    schema, specs = json.loads(described["schema"]), map(json.loads, described["specs"])
    sources = {part["source-id"] for spec in specs for part in spec["fields"] if part["transform"] == "identity"}
    ids = read_column_ids(schema, sources, described["mapping"])
    rewritten = {field["id"] for _, field in _fields(schema, ()) if field["type"] == _REWRITTEN}
    return replace(ids, ids={path: i for path, i in ids.ids.items() if i not in rewritten})


def _fields(struct: Mapping[str, Any], parents: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for field in struct["fields"]:
        path = (*parents, field["name"])
        yield path, field
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _fields(field["type"], path)


def _mapped_names(fields: Sequence[Mapping[str, Any]], parents: Path) -> Iterator[tuple[Path, int]]:
    for field in fields:
        for name in field.get("names", ()):
            if "field-id" in field:
                yield (*parents, name), field["field-id"]
            yield from _mapped_names(field.get("fields", ()), (*parents, name))


def column_ids(fields: pa.Schema | pa.DataType, prefix: str) -> Iterator[tuple[str, int | None]]:
    """The full names, in Iceberg's form, of all columns of a file, and their ids."""
    if isinstance(fields, pa.MapType):
        parts = [("key", fields.key_field), ("value", fields.item_field)]
    elif isinstance(fields, pa.ListType | pa.LargeListType):
        parts = [("element", fields.value_field)]
    elif isinstance(fields, pa.Schema | pa.StructType):
        parts = [(field.name, field) for field in fields]
    else:
        parts = []
    for name, field in parts:
        field_id = (field.metadata or {}).get(FIELD_ID)
        yield prefix + name, None if field_id is None else int(field_id)
        yield from column_ids(field.type, f"{prefix}{name}.")
