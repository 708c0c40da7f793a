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

ZskipWarning                 the answer is right, but slower than it could be
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

_LIBRARIES = ("deltalake", "pyiceberg", "pydantic_core", "obstore", "hdfs_native", "_duckdb", "polars")
"""Whose errors are about a place or a file."""
P = ParamSpec("P")
T = TypeVar("T")


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
    """The answer is right, but slower than it could be."""


def public(call: Callable[P, T]) -> Callable[P, T]:
    """Let a public function raise errors of zskip alone: an error of a library becomes the cause of one.

    Rooms raise better ones where they know more. What no library raised is a fault of zskip's, and stays as it is.
    """

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except ZskipError:
            raise
        except Exception as error:
            own = _own_error(f"{call.__name__}({', '.join(_subject(args))})", error)
            if own is error:
                raise
            raise own from error

    return checked


def public_methods(owner: type[T]) -> type[T]:
    """Make all methods of a class `public` whose names do not begin with an underscore."""
    for name, method in list(vars(owner).items()):
        if not name.startswith("_") and callable(method):
            setattr(owner, name, public(method))
    return owner


def _subject(args: tuple[Any, ...]) -> list[str]:
    """The table that a call is about: a path among its arguments, or the object's own."""
    texts = [arg if isinstance(arg, str) else getattr(arg, "_root", None) for arg in args]
    return [f'"{text}"' for text in texts if isinstance(text, str)][:1]


def _own_error(call: str, error: Exception) -> Exception:
    """An error of zskip for one of a library, or else the same."""
    library = type(error).__module__.partition(".")[0]
    if library in ("py4j", "pyspark"):
        own: Exception = import_module("zskip.spark.jvm.failures").to_zskip_error(f"run {call}", error)
        return own
    reason = f"{library} failed in {call}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"
    if library == "pyarrow":
        is_lack = type(error).__name__ in ("ArrowNotImplementedError", "ArrowTypeError")
        advice = "leave the column out, or give it another type" if is_lack else "restore the file that it names"
        return (UnsupportedError if is_lack else CorruptFileError)(f"{reason}; {advice}")
    if library in _LIBRARIES or isinstance(error, OSError):
        return StorageError(f"{reason}; see that the place can be reached, and that its metadata is whole")
    return InputError(f"{reason}; give another name") if isinstance(error, UnicodeError) else error
