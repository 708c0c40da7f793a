"""The names that columns have in the files of a table, and the columns whose values the log's statistics bound."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zskip.records import Field

Path = tuple[str, ...]
_NAME = "delta.columnMapping.physicalName"
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


def sound_fields(fields: Sequence[Field], schema_json: str) -> list[Field]:
    """The columns whose values lie in the bounds of the log: bounds of a float in text are not those of a double."""
    widened = {field["name"] for field in json.loads(schema_json)["fields"] if _CHANGES in json.dumps(field)}
    return [field for field in fields if field.name not in widened]
