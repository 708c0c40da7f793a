"""The names that columns have in the files of a table, and the columns whose values the log's statistics bound."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zskip.records import Field

Path = tuple[str, ...]
_NAME = "delta.columnMapping.physicalName"
_ID = "delta.columnMapping.id"
_CHANGES = "delta.typeChanges"
_OWN_NAME = re.compile("col-[0-9a-f-]{36}")
"""A physical name that Delta has drawn; no two columns ever have the same."""


def stored_paths(schema_json: str, mode: str) -> Mapping[Path, Path | None] | None:
    """The path of each column, and field of a struct, in the files; None where they have the table's names.

    schema_json: of the table, as the log has it. mode: of the column mapping. A column that is found by its id may have
    any name in files that Delta has not written: its path is None then.

    >>> metadata = {"delta.columnMapping.physicalName": "col-1"}
    >>> field = {"name": "a", "type": "long", "nullable": True, "metadata": metadata}
    >>> stored_paths(json.dumps({"type": "struct", "fields": [field]}), "name")
    {('a',): ('col-1',)}
    """
    return None if mode == "none" else dict(_paths((), (), json.loads(schema_json), by_id=mode != "name"))


def _paths(
    path: Path, stored: Path | None, struct: Mapping[str, Any], *, by_id: bool
) -> Iterator[tuple[Path, Path | None]]:
    for field in struct["fields"]:
        name = str(field["metadata"].get(_NAME, ""))
        is_sure = stored is not None and bool(_OWN_NAME.fullmatch(name) if by_id else name)
        inner, inner_stored = (*path, field["name"]), (*(stored or ()), name) if is_sure else None
        yield inner, inner_stored
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from _paths(inner, inner_stored, field["type"], by_id=by_id)


def paths_in_new_files(schema_json: str) -> dict[Path, Path]:
    """The path of each column, and field of a struct, in the files that are written now, where columns are mapped."""
    paths = _paths((), (), json.loads(schema_json), by_id=False)
    return {path: stored for path, stored in paths if stored is not None}


def stored_schema(schema_json: str, partition_columns: Sequence[str], mode: str) -> str | None:
    """The columns of new files, in Spark's JSON, with their names and ids there; None for the table's own names.

    schema_json, mode: as in `stored_paths`.
    """
    if mode == "none":
        return None
    fields = [field for field in json.loads(schema_json)["fields"] if field["name"] not in partition_columns]
    return json.dumps(_stored_type({"type": "struct", "fields": fields}))


def _stored_type(kind: Any) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {"type": "struct", "fields": [_stored_field(field) for field in kind["fields"]]}
    return {
        name: _stored_type(part) if name in ("elementType", "keyType", "valueType") else part
        for name, part in kind.items()
    }


def _stored_field(field: Mapping[str, Any]) -> dict[str, Any]:
    metadata = field["metadata"]
    return {
        "name": metadata[_NAME],
        "type": _stored_type(field["type"]),
        "nullable": True,
        "metadata": {"parquet.field.id": metadata[_ID]} if _ID in metadata else {},
    }


def sound_fields(fields: Sequence[Field], schema_json: str) -> list[Field]:
    """The columns whose values lie in the bounds of the log: bounds of a float in text are not those of a double."""
    widened = {field["name"] for field in json.loads(schema_json)["fields"] if _CHANGES in json.dumps(field)}
    return [field for field in fields if field.name not in widened]
