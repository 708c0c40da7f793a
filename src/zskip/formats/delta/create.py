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
from zskip.formats.delta.commit import MARK, describe_files
from zskip.formats.staging import end, look_at_all, move_all
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
    from deltalake import Schema
    from deltalake.transaction import AddAction, create_table_with_add_actions

    new = describe_files(storage, columns, added, {}, info.get("by", ()), required=())
    move_all(storage, [(file.staged.path, file.target) for file in new])
    adds = []
    for file, stat in zip(new, look_at_all(storage, [file.target for file in new]), strict=True):
        adds.append(
            AddAction(
                path=file.target,
                size=file.staged.size,
                partition_values=file.partition,
                modification_time=0 if stat is None else stat.mtime_ms,
                data_change=True,
                stats=file.statistics,
            )
        )
    with tempfile.TemporaryDirectory(prefix="zskip-") as directory:
        schema = Schema.from_json(schema_json)
        create_table_with_add_actions(directory, schema, adds, partition_by=list(partition_by))
        lines = (Path(directory) / "_delta_log" / f"{0:020d}.json").read_text(encoding="utf-8").splitlines()
    entry = [json.loads(line) for line in lines]
    for line in entry:
        if "commitInfo" in line:
            parameters = {"isManaged": "false", "partitionBy": json.dumps(list(partition_by))}
            staging = new[0].staged.path.split("/")[-2]
            line["commitInfo"] |= {
                "operation": "CREATE TABLE AS SELECT",
                "operationParameters": parameters,
                "isBlindAppend": True,
                MARK: {"rewrite": staging, **info},
            }
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in entry)
    try:
        storage.write(f"_delta_log/{0:020d}.json", text.encode())
    except FileExistsError as error:
        raise InputError(f'"{storage.root}" was made a Delta table meanwhile; nothing was committed') from error
    for directory_ in {file.staged.path.rpartition("/")[0] for file in new}:
        end(storage, directory_)
    return 0
