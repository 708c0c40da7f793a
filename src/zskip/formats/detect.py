"""Detects a table's format from its directory."""

from __future__ import annotations

from collections.abc import Callable

from zskip.errors import InputError
from zskip.formats.delta import DeltaFormat
from zskip.formats.delta.log import SessionLog
from zskip.formats.hudi import HudiFormat
from zskip.formats.iceberg import IcebergFormat
from zskip.formats.parquet import ParquetFormat
from zskip.formats.parquet.sink import SINK_LOG
from zskip.formats.table_format import TableFormat
from zskip.storage import Storage, storage_for

FORMATS = ("parquet", "delta", "iceberg", "hudi")
"""The values of `format=`."""

DEFAULT_FORMAT = FORMATS[0]
"""Of directories without marks, and of new tables."""

_MARKS = {"delta": "_delta_log/", "iceberg": "metadata/*.metadata.json", "hudi": ".hoodie/"}
"""Files that only tables of a format have."""

_MARKS_OF_PARENTS = {
    "_delta_log": "a table of the format delta",
    ".hoodie": "a table of the format hudi",
    SINK_LOG: "a table that a stream of Spark writes",
}


def check_name(name: str | None) -> None:
    """Raise InputError for a name that is not a format's; None stands for the detected one."""
    if name is not None and name not in FORMATS:
        raise InputError(f"format={name!r} is none of {', '.join(FORMATS)}")


def open_format(
    storage: Storage,
    name: str | None = None,
    *,
    own_log: Callable[[str], SessionLog | None] = lambda name: None,
    exclusive: bool = False,
    open_storage: Callable[[str], Storage] | None = None,
) -> TableFormat:
    """Open the table in a directory in its format.

    name: the format, if the directory has several; own_log: what the session's own code of a format commits by, for
    tables that zskip cannot read or commit to itself; exclusive: whether nobody else rewrites a table of plain files;
    open_storage: opens another directory as this one was; None without a session.

    Raises InputError if the format is ambiguous, or the directory holds no table of the named format.
    """
    check_name(name)
    format_name = _choose_format(storage, detect_formats(storage), name)
    if format_name == "parquet":
        _check_not_inside(storage, open_storage or (lambda path: storage_for(path, storage.options)))
        return ParquetFormat(storage, exclusive=exclusive)
    if format_name == "delta":
        return DeltaFormat(storage, own_log("delta"))
    if format_name == "iceberg":
        return IcebergFormat(storage)
    return HudiFormat(storage)


def detect_formats(storage: Storage) -> tuple[str, ...]:
    """The formats whose marks a directory has; none for plain Parquet.

    A Parquet directory with neither log nor metadata has no mark of its own.
    """
    has_mark = {
        "delta": storage.is_dir("_delta_log"),
        "iceberg": storage.is_dir("metadata")
        and any(_is_iceberg(file.path.rpartition("/")[2]) for file in storage.list_dir("metadata")),
        "hudi": storage.is_dir(".hoodie"),
    }
    return tuple(name for name, is_marked in has_mark.items() if is_marked)


def _choose_format(storage: Storage, formats: tuple[str, ...], name: str | None) -> str:
    if name is None and len(formats) > 1:
        marks = " and ".join(f"{_MARKS[format_name]} ({format_name})" for format_name in formats)
        raise InputError(
            f'"{storage.root}" holds {marks}: say which table is meant with format="{formats[0]}" or '
            f'format="{formats[1]}", and do not write to both'
        )
    if name is None:
        return formats[0] if formats else DEFAULT_FORMAT
    if name == "parquet" and formats:
        raise InputError(
            f'"{storage.root}" holds {_MARKS[formats[0]]}, so files lie in it that are no longer part of the table; '
            f'open it with format="{formats[0]}"'
        )
    if name != "parquet" and name not in formats:
        raise InputError(f'"{storage.root}" is not a table of the format {name}: it has no {_MARKS[name]}')
    return name


def _check_not_inside(storage: Storage, open_storage: Callable[[str], Storage]) -> None:
    """Raise InputError for a partition directory of a table whose format may keep dead files there."""
    parent, _, part = storage.root.rpartition("/")
    while "=" in part:
        above = open_storage(parent or "/")
        for mark, table in _MARKS_OF_PARENTS.items():
            if above.is_dir(mark):
                raise InputError(
                    f'"{storage.root}" is a partition of {table}, so files may lie in it that are not part of the '
                    'table; open the table itself, and ask for the partition with "where"'
                )
        parent, _, part = parent.rpartition("/")


def _is_iceberg(name: str) -> bool:
    return name.endswith(".metadata.json") or name == "version-hint.text"
