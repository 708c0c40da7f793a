"""Which format the table at a path is of, by what lies there."""

from __future__ import annotations

from collections.abc import Callable

from zskip.errors import InputError
from zskip.formats.base import TableFormat
from zskip.formats.delta import DeltaFormat
from zskip.formats.hudi import HudiFormat
from zskip.formats.iceberg import IcebergFormat
from zskip.formats.parquet import ParquetFormat
from zskip.storage import Storage

FORMATS = ("parquet", "delta", "iceberg", "hudi")
"""All that `format=` may name."""

_MARKS = {"delta": "_delta_log/", "iceberg": "metadata/*.metadata.json", "hudi": ".hoodie/"}
"""What only tables of a format have."""


def check_name(name: str | None) -> None:
    """Raise InputError for what is no format's name; None stands for the one that is found."""
    if name is not None and name not in FORMATS:
        raise InputError(f"format={name!r} is none of {', '.join(FORMATS)}")


def open_format(
    storage: Storage,
    name: str | None = None,
    *,
    has_own_reader: Callable[[str], bool] = lambda name: False,
    exclusive: bool = False,
) -> TableFormat:
    """Open the table in a directory by its format.

    name: which one, where several lie there; has_own_reader: whether a format's own code is at hand, for tables that
    zskip cannot read itself; alone: whether nobody else rewrites a table of plain files.

    Raises InputError where the directory does not say which one it is or holds no table of the named one.
    """
    check_name(name)
    format_name = _chosen(storage, detect_formats(storage), name)
    if format_name == "parquet":
        _check_not_inside(storage)
        return ParquetFormat(storage, exclusive=exclusive)
    if format_name == "delta":
        return DeltaFormat(storage, has_own_reader=has_own_reader("delta"))
    if format_name == "iceberg":
        return IcebergFormat(storage)
    return HudiFormat(storage)


def detect_formats(storage: Storage) -> tuple[str, ...]:
    """The formats of which a directory has the marks; none for plain Parquet.

    A Parquet directory with neither log nor metadata has no mark of its own.
    """
    marked = {
        "delta": storage.is_dir("_delta_log"),
        "iceberg": storage.is_dir("metadata")
        and any(_is_iceberg(file.path.rpartition("/")[2]) for file in storage.list_dir("metadata")),
        "hudi": storage.is_dir(".hoodie"),
    }
    return tuple(name for name, there in marked.items() if there)


def _chosen(storage: Storage, found: tuple[str, ...], name: str | None) -> str:
    if name is None and len(found) > 1:
        marks = " and ".join(f"{_MARKS[format_name]} ({format_name})" for format_name in found)
        raise InputError(
            f'"{storage.root}" holds {marks}: say which table is meant with format="{found[0]}" or '
            f'format="{found[1]}", and do not write to both'
        )
    if name is None:
        return found[0] if found else "parquet"
    if name == "parquet" and found:
        raise InputError(
            f'"{storage.root}" holds {_MARKS[found[0]]}, so files lie in it that are no longer part of the table; '
            f'open it with format="{found[0]}"'
        )
    if name != "parquet" and name not in found:
        raise InputError(f'"{storage.root}" is no table of the format {name}: it has no {_MARKS[name]}')
    return name


def _check_not_inside(storage: Storage) -> None:
    """Raise InputError for a partition's directory inside of a table in which dead files lie."""
    above = ""
    for part in reversed(storage.root.split("/")):
        if "=" not in part:
            return
        above += "../"
        for name in ("delta", "hudi"):
            if storage.is_dir(above + _MARKS[name].rstrip("/")):
                raise InputError(
                    f'"{storage.root}" is a partition of a table of the format {name}, so files may lie in it that are '
                    'no longer part of the table; open the table itself, and ask for the partition with "where"'
                )


def _is_iceberg(name: str) -> bool:
    return name.endswith(".metadata.json") or name == "version-hint.text"
