"""The first version of a new Delta table, with its rows."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zskip.errors import ColumnError, InputError, MissingDependencyError, UnsupportedError
from zskip.formats.base import StagedFile
from zskip.formats.delta.commit import add_actions, commit_info, describe_files, write_entry
from zskip.formats.staging import end, move_all
from zskip.records import Snapshot
from zskip.storage import Storage

_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
"""What the names of columns must not hold without column mapping."""
_INTEGERS, _TIMES = ("byte", "short", "integer", "long"), ("date", "timestamp", "timestamp_ntz")
_TYPES = (*_INTEGERS, *_TIMES, "string", "float", "double", "boolean", "binary", "struct", "array", "map")


def check_new_columns(schema_json: str) -> None:
    """Check Spark's JSON of the columns of a new table; raises ColumnError and UnsupportedError."""
    try:
        import deltalake  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            'deltalake, which writes Delta tables, is not installed; run: pip install "zskip[delta]"'
        ) from error
    fields = json.loads(schema_json)["fields"]
    names = [field["name"] for field in fields]
    for name in names:
        if _FORBIDDEN.search(name):
            raise ColumnError(f'Delta does not allow the name "{name}" for a column; rename it')
    if len({name.lower() for name in names}) < len(names):
        raise ColumnError("Delta does not tell columns apart by case; rename those that differ in nothing else")
    for field in fields:
        for kind in _foreign_types(field):
            raise UnsupportedError(
                f'zskip cannot write column "{field["name"]}" of type {kind} to Delta; cast or drop it'
            )


def _foreign_types(part: Mapping[str, Any]) -> Iterator[str]:
    """The types in a column that every Delta table cannot have."""
    if "__COLLATIONS" in part.get("metadata", {}):
        yield "string with a collation"
    for key in ("type", "elementType", "keyType", "valueType"):
        kind = part.get(key)
        if isinstance(kind, str) and kind not in _TYPES and not kind.startswith("decimal"):
            yield kind
        elif isinstance(kind, dict):
            yield from _foreign_types(kind)
    for field in part.get("fields", ()):
        yield from _foreign_types(field)


def create_table(
    storage: Storage,
    schema_json: str,
    partition_by: Sequence[str],
    columns: Snapshot,
    added: Sequence[StagedFile],
    info: Mapping[str, Any],
) -> int:
    """Commit staged files as version 0 of a table; returns the version.

    schema_json: all columns, in Spark's JSON; columns: an empty snapshot with them. Raises InputError if a table exists
    already.
    """
    from deltalake import DeltaTable, Schema

    new = describe_files(storage, columns, added, {}, info.get("by", ()), required=())
    move_all(storage, [(file.staged.path, file.target) for file in new])
    with tempfile.TemporaryDirectory(prefix="zskip-") as directory:
        # deltalake knows which protocol a schema needs.
        DeltaTable.create(directory, Schema.from_json(schema_json), partition_by=list(partition_by))
        texts = (Path(directory) / "_delta_log" / f"{0:020d}.json").read_text(encoding="utf-8").splitlines()
    parameters = {"isManaged": "false", "partitionBy": json.dumps(list(partition_by))}
    staging = new[0].staged.path.split("/")[-2]
    about = commit_info("CREATE TABLE AS SELECT", parameters, staging, info, isBlindAppend=True)
    lines = [about, *(line for line in map(json.loads, texts) if "commitInfo" not in line)]
    try:
        write_entry(storage, 0, [*lines, *add_actions(storage, new, changes=True)])
    except FileExistsError as error:
        raise InputError(f'"{storage.root}" was made a Delta table meanwhile; nothing was committed') from error
    for directory_ in {file.staged.path.rpartition("/")[0] for file in new}:
        end(storage, directory_)
    return 0
