"""The errors and warnings of zskip; every message names the value at fault and the way out.

ZskipError
├── InputError               an argument that cannot be right (also a ValueError)
│   ├── ColumnError          a column that does not exist or cannot be used here
│   └── PredicateError       SQL text that does not parse, or that is not allowed here
├── TableNotFoundError       nothing at the path, or nothing that is a table
├── UnsupportedError         a table or a setting that zskip must not touch
├── CorruptFileError         a data file that cannot be read
├── IndexFormatError         an index of another version of zskip, or a damaged one
├── ConflictError            the table changed while it was being rewritten
├── StorageError             the file system refused (permission, disk full)
└── MissingDependencyError   Java, PySpark or another optional part is not installed

ZskipWarning                 the answer is right, but something made it slower than it could be
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ZskipError(Exception):
    """The base class of all errors that zskip raises on purpose."""


class InputError(ZskipError, ValueError):
    """An argument that cannot be right."""


class ColumnError(InputError):
    """A column that does not exist or cannot be used here."""

    @classmethod
    def unknown(cls, name: str, known: Iterable[str], where: str) -> ColumnError:
        """Make the error for a misspelt column, with the nearest known name.

        >>> str(ColumnError.unknown("l_patkey", ["l_partkey", "l_suppkey"], "lineitem"))
        'no column "l_patkey" in lineitem; did you mean "l_partkey"?'
        """
        names = list(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f'did you mean "{near[0]}"?' if near else "its columns: " + ", ".join(names)
        return cls(f'no column "{name}" in {where}; {hint}')


class PredicateError(InputError):
    """SQL text that does not parse, or that is not allowed here."""


class TableNotFoundError(ZskipError):
    """Nothing at the path, or nothing that is a table."""


class UnsupportedError(ZskipError):
    """A table or a setting that zskip must not touch."""


class CorruptFileError(ZskipError):
    """A data file that cannot be read."""


class IndexFormatError(ZskipError):
    """An index written by another version of zskip, or a damaged one."""


class ConflictError(ZskipError):
    """The table changed while it was being rewritten; nothing was committed."""


class StorageError(ZskipError):
    """The file system refused: no permission, no space, or no such file."""


class MissingDependencyError(ZskipError, ImportError):
    """Java, PySpark or another optional part is not installed."""


class ZskipWarning(UserWarning):
    """The answer is right, but something made it slower than it could be."""
