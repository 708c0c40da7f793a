"""The arguments of an optimize, checked before anything is read or written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from zskip.advisor.workload.workload import Query, Workload
from zskip.errors import InputError
from zskip.formats.compression import Compression, read_compression
from zskip.formats.footers.dictionaries import count_dictionary_values
from zskip.layout.curves import curve_traits
from zskip.layout.layout import Layout
from zskip.layout.pages import page_rows
from zskip.layout.workload import UNSEEN
from zskip.records import Field, FileIdentity, Floats, Ints, Snapshot, Values
from zskip.storage import Storage
from zskip.units import parse_size, read_size, show_size

Given = Workload | str | Iterable[str | tuple[str, float] | Mapping[str, object] | Query] | None
"""A workload, the path of a file of queries, a list of queries, or None for the recorded workload."""

AUTO = "auto"
"""Stands for columns or a curve that the workload chooses."""
ARROW, SPARK = "arrow", "spark"
"""What writes the new files: Spark's tasks by pyarrow, or Spark itself."""
DEFAULT_FILE_SIZE = 128_000_000
"""Bytes of a file where the caller gives neither a size nor a number of files."""

Beside = tuple[tuple[Values, Floats], ...]
"""For each clustering column, values of the files that stay and the number of rows that each stands for."""

_Request = TypeVar("_Request")


def check_arguments(record: type[_Request], /, **arguments: Any) -> _Request:
    """Make a record of arguments, each checked as its field says; raises InputError for one that cannot be right.

    None is not checked where it is the default.
    """
    checks = {
        known.name: known.metadata["check"]
        for known in fields(record)  # type: ignore[arg-type]
        if "check" in known.metadata and not (known.default is None and arguments.get(known.name) is None)
    }
    return record(**{name: checks[name](name, value) if name in checks else value for name, value in arguments.items()})


def read_count(name: str, value: Any) -> int:
    """Read a number of things; raises InputError unless it is a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}={value!r} is not a number of {name}; give a whole number of at least 1")
    return value


def read_flag(name: str, value: bool) -> bool:
    """Read a switch; raises InputError unless it is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name}={value!r}: give True or False")
    return value


def read_share(name: str, value: Any) -> float:
    """Read a share of queries; raises InputError unless it is 0 to 1.

    >>> read_share("unseen", 2)
    Traceback (most recent call last):
    ...
    zskip.errors.InputError: unseen=2 is not a share of queries; give a number from 0 to 1, such as 0.2
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{name}={value!r} is not a share of queries; give a number from 0 to 1, such as 0.2")
    return float(value)


def read_names(name: str, value: Sequence[str] | str) -> tuple[str, ...]:
    """Read the names of columns, none for AUTO."""
    if isinstance(value, str):
        return () if value == AUTO else (value,)
    names = tuple(value)
    if not names:
        raise InputError(
            f'"{name}" names no column; give the columns that queries filter on, such as {name}=["a", "b"]'
        )
    return names


def make_repeatable(_: str, workload: Given) -> Given:
    """Turn an iterator into a tuple, so that it can be read more than once."""
    return tuple(workload) if isinstance(workload, Iterator) else workload


def one_of(*choices: str) -> Callable[[str, str], str]:
    """Make a check that takes only these."""

    def read(name: str, value: str) -> str:
        if value not in choices:
            *others, last = (f'"{choice}"' for choice in choices)
            raise InputError(f'unknown {name} "{value}"; choose {", ".join(others)}{" or " * bool(others)}{last}')
        return value

    return read


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizeRequest:
    """The arguments of `Table.optimize`, each checked by itself."""

    by: tuple[str, ...] = field(metadata={"check": read_names})
    """Empty for those that a workload chooses."""
    curve: str
    build: str = "sample"
    files: int | None = field(default=None, metadata={"check": read_count})
    target_file_size: int | None = field(default=None, metadata={"check": lambda _, value: parse_size(value)})
    """Bytes; exactly one of this and `files` is set."""
    where: str | None = None
    into: str | None = None
    sampling: str = field(default="bernoulli", metadata={"check": one_of("bernoulli", "reservoir")})
    seed: int = 0
    compression: Compression | None = field(default=None, metadata={"check": lambda _, value: read_compression(value)})
    """None to keep the codec of the files."""
    workload: Given = field(default=None, metadata={"check": make_repeatable})
    """The workload to fit the layout to; None for the recorded one where zskip chooses columns or curve."""
    unseen: float = field(default=UNSEEN, metadata={"check": read_share})
    """Share (0 to 1) of tomorrow's queries that the workload does not tell."""
    max_batch: int | None = field(default=None, metadata={"check": read_size})
    """Bytes of files to rewrite in one commit; None for all in one."""
    jobs: int = field(default=1, metadata={"check": read_count})
    """Batches to rewrite at the same time."""

    @property
    def needs_workload(self) -> bool:
        """Whether a workload chooses columns or curve, or the layout is fitted to one."""
        return not self.by or _is_fitted(self.curve) or self.workload is not None

    @property
    def takes_conditions(self) -> bool:
        """Whether conditions of the workload may be keys besides the columns."""
        return _is_fitted(self.curve)


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteJob:
    """One rewrite: of all files that the options of its layout select, or as a part of something larger."""

    options: OptimizeRequest
    operation: str = "optimize"
    """Its name in the commit and the journal."""
    long_term_file_size: int | None = None
    """Bytes that files should have in the long run, where `options.files` gives their number now."""
    only: frozenset[FileIdentity] | None = None
    """The files to rewrite, chosen by a planner; None for all."""
    guide: Layout | None = None
    """A layout by the same columns, curve and build, by whose cuts rows are placed as far as there are enough."""
    beside: Beside = ()


def check_request(**arguments: Any) -> OptimizeRequest:
    """Check what needs no look at the table, each argument alone and all together; raises InputError."""
    request = check_arguments(OptimizeRequest, **arguments)
    if request.files is not None and request.target_file_size is not None:
        raise InputError("give either files or target_file_size, not both")
    if request.files is None and request.target_file_size is None:
        request = replace(request, target_file_size=DEFAULT_FILE_SIZE)
    if _is_fitted(request.curve) and request.build != "sample":
        raise InputError(f'curve="{request.curve}" works only with build="sample"; leave build out, or name a curve')
    if request.max_batch is None and request.jobs > 1:
        raise InputError(f'jobs={request.jobs} needs batches; give max_batch, such as "200GB"')
    batch, size = request.max_batch, request.target_file_size
    if batch is not None and size is not None and batch < size:
        raise InputError(
            f"max_batch={arguments['max_batch']!r} is less than one file of {show_size(size)}; give more, or a smaller "
            "target_file_size"
        )
    return request


def _is_fitted(curve: str) -> bool:
    """Whether a workload chooses the curve, or its cuts."""
    return curve == AUTO or curve_traits(curve).needs_workload


def files_per_partition(request: OptimizeRequest, rows: Ints, sizes: Ints) -> Ints:
    """Choose the number of files of each Hive partition, at least one where it has rows.

    rows, sizes: (partitions,) current rows and bytes.

    >>> import numpy as np
    >>> request = check_request(by=["a"], curve="linear", files=8)
    >>> files_per_partition(request, np.array([700, 290, 10, 0]), np.array([7, 3, 1, 0])).tolist()
    [5, 2, 1, 0]
    """
    least = (rows > 0).astype(np.int64)
    if request.target_file_size is not None:
        return np.maximum(np.rint(sizes / request.target_file_size).astype(np.int64), 1) * least
    spare = (request.files or 0) - int(least.sum())
    if spare <= 0:
        return least
    shares = spare * rows / max(int(rows.sum()), 1)
    extra = np.floor(shares).astype(np.int64)
    rest = spare - int(extra.sum())
    extra[np.argsort(extra - shares, kind="stable")[:rest]] += 1
    files: Ints = np.minimum(least + extra, rows)
    return files


def rows_per_page(
    storage: Storage, snapshot: Snapshot, rows: Ints, by: Sequence[Field], compression: Compression | None = None
) -> int:
    """Choose the number of rows in a page of files sorted by some columns; rows: (partitions,)."""
    codec = None if compression is None else compression.codec
    values = count_dictionary_values(storage, snapshot, without=[".".join(field.path) for field in by], codec=codec)
    return page_rows(snapshot.bytes, int(rows.sum()), len(snapshot.fields), values)
