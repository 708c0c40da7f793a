"""What a Delta table asks of new rows: columns without nulls, constraints, and columns that Delta Lake computes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zskip.formats.base import RowRules
from zskip.formats.delta.columns import stored_schema
from zskip.formats.delta.protocol import mapping_mode

_CONSTRAINT = "delta.constraints."
_INVARIANT, _GENERATED, _DEFAULT = "delta.invariants", "delta.generationExpression", "CURRENT_DEFAULT"
_IDENTITY, _MAY_GIVE = "delta.identity.", "delta.identity.allowExplicitInsert"
_TEXT = "__CHAR_VARCHAR_TYPE_STRING"


def read_row_rules(schema_json: str, partition_columns: Sequence[str], configuration: Mapping[str, str]) -> RowRules:
    """Read the rules for new rows.

    As in Delta Lake, a condition that is null is broken, and a generated column must have the value that its expression
    has.

    >>> field = {"name": "a", "type": "long", "nullable": False, "metadata": {}}
    >>> read_row_rules(json.dumps({"fields": [field]}), [], {"delta.constraints.small": "a < 9"})
    RowRules(required=['a'], given={}, checks={'CHECK constraint "small" (a < 9)': 'a < 9'}, partitions={}, stored=None)
    """
    fields = json.loads(schema_json)["fields"]
    checks = {
        f'CHECK constraint "{name.removeprefix(_CONSTRAINT)}" ({text})': text
        for name, text in sorted(configuration.items())
        if name.startswith(_CONSTRAINT)
    }
    given = {}
    for field in fields:
        name, metadata = field["name"], field["metadata"]
        quoted = "`" + name.replace("`", "``") + "`"
        if _GENERATED in metadata:
            expression = metadata[_GENERATED]
            checks[f'generated column "{name}" ({expression})'] = f"{quoted} <=> ({expression})"
            given[name] = f"a generated column ({expression})"
        elif any(key.startswith(_IDENTITY) for key in metadata):
            given[name] = "an identity column"
        elif _DEFAULT in metadata:
            given[name] = f"a column with a default ({metadata[_DEFAULT]})"
        if _INVARIANT in metadata:
            condition = json.loads(metadata[_INVARIANT])["expression"]["expression"]
            checks[f'invariant of the column "{name}" ({condition})'] = condition
    return RowRules(
        required=[field["name"] for field in fields if not field["nullable"]],
        given=given,
        checks=checks,
        stored=stored_schema(schema_json, partition_columns, mapping_mode(configuration)),
    )


def unappendable(schema_json: str) -> str | None:
    """The rule for new rows that only Delta Lake keeps, if the table has one."""
    for field in json.loads(schema_json)["fields"]:
        name, metadata, kind = field["name"], field["metadata"], field["type"]
        if _MAY_GIVE in metadata and not metadata[_MAY_GIVE]:
            return f'the identity column "{name}" (GENERATED ALWAYS)'
        if any(_TEXT in part.get("metadata", {}) for part in (field, *_nested_fields(kind))):
            return f'the column "{name}" of the type CHAR or VARCHAR'
        if (not field["nullable"] and isinstance(kind, dict)) or _has_required_part(kind):
            return f'NOT NULL inside of a nested column ("{name}")'
    return None


def _nested_fields(kind: Any) -> Iterator[Mapping[str, Any]]:
    """The fields of all structs in a type."""
    if isinstance(kind, dict):
        for part in (*kind.get("fields", ()), *(kind.get(name) for name in ("elementType", "keyType", "valueType"))):
            if isinstance(part, dict):
                yield part
                yield from _nested_fields(part.get("type") if "name" in part else part)


def _has_required_part(kind: Any) -> bool:
    """Whether a nested type has a part that must not be null."""
    if not isinstance(kind, dict):
        return False
    if any(kind.get(name) is False for name in ("containsNull", "valueContainsNull")):
        return True
    parts = [field["type"] for field in kind.get("fields", ())]
    parts += [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    is_required = any(not field["nullable"] for field in kind.get("fields", ()))
    return is_required or any(_has_required_part(part) for part in parts)
