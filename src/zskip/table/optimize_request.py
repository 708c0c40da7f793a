"""The arguments of an optimize, checked before anything is read or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zskip.advisor.workload.workload import Query, Workload
from zskip.errors import ColumnError, InputError
from zskip.formats.compression import Compression, read_compression
from zskip.formats.schema import count_dictionary_values
from zskip.layout.layout import FITTED, Layout
from zskip.layout.pages import page_rows
from zskip.layout.workload import UNSEEN
from zskip.predicate import Columns
from zskip.records import Field, Floats, Ints, Snapshot, Values
from zskip.storage import Storage
from zskip.table.journal import Depths
from zskip.table.unchanged_files import FileIdentity
from zskip.units import parse_size, read_size, show_size

Given = Workload | str | Iterable[str | tuple[str, float] | Mapping[str, object] | Query] | None
"""A workload, the path of a file of queries, a list of queries, or None for the recorded workload."""

AUTO = "auto"
"""Stands for columns or a curve that the workload chooses."""
ARROW, SPARK = "arrow", "spark"
"""What writes the new files: Spark's tasks by pyarrow, or Spark itself."""
DEFAULT_FILE_SIZE = 128_000_000
"""Bytes of a file where the caller gives neither a size nor a number of files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizeRequest:
    """The arguments of `Table.optimize`, each checked by itself."""

    by: tuple[str, ...]
    curve: str
    build: str = "sample"
    files: int | None = None
    target_file_size: int | None = None
    """Bytes; exactly one of this and `files` is set."""
    where: str | None = None
    into: str | None = None
    sort_within_files: bool = True
    sampling: str = "bernoulli"
    seed: int = 0
    compression: Compression | None = None
    """None to keep the codec of the files."""
    operation: str = "optimize"
    """Its name in the commit and the journal."""
    long_term_file_size: int | None = None
    """Bytes that files should have in the long run, where `files` gives their number now."""
    only: frozenset[FileIdentity] | None = None
    """The files to rewrite, chosen by a planner; None for all."""
    workload: Given = None
    """The workload to fit the layout to; None for the recorded one where zskip chooses columns or curve."""
    unseen: float = UNSEEN
    """Share (0 to 1) of tomorrow's queries that the workload does not tell."""
    guide: Layout | None = None
    """A layout by the same columns, curve and build, by whose cuts rows are placed as far as there are enough."""
    beside: tuple[tuple[Values, Floats], ...] = ()
    """For each clustering column, values of the files that stay and the number of rows that each stands for."""
    depths: Depths | None = None
    """Depths of the whole table before a call whose first part this is."""
    max_batch: int | None = None
    """Bytes of files to rewrite in one commit; None for all in one."""
    jobs: int = 1
    """Batches to rewrite at the same time."""
    writer: str = AUTO
    """ARROW, SPARK, or AUTO for Arrow where it changes nothing."""

    @property
    def needs_workload(self) -> bool:
        """Whether a workload chooses columns or curve, or the layout is fitted to one."""
        return not self.by or self.curve in (AUTO, FITTED) or self.workload is not None


def check_request(
    *,
    by: Sequence[str] | str,
    curve: str,
    build: str = "sample",
    files: int | None = None,
    target_file_size: int | str | None = None,
    where: str | None = None,
    into: str | None = None,
    sort_within_files: bool = True,
    sampling: str = "bernoulli",
    seed: int = 0,
    compression: str = "keep",
    workload: Given = None,
    unseen: float = UNSEEN,
    max_batch: int | str | None = None,
    jobs: int = 1,
    writer: str = AUTO,
) -> OptimizeRequest:
    """Check what needs no look at the table; raises InputError."""
    is_auto = isinstance(by, str) and by == AUTO
    names = () if is_auto else (by,) if isinstance(by, str) else tuple(by)
    if not names and not is_auto:
        raise InputError('"by" names no column; give the columns that queries filter on, such as by=["a", "b"]')
    if files is not None and target_file_size is not None:
        raise InputError("give either files or target_file_size, not both")
    if files is not None and (isinstance(files, bool) or not isinstance(files, int) or files < 1):
        raise InputError(f"files={files!r} is not a number of files; give a whole number of at least 1")
    if sampling not in ("bernoulli", "reservoir"):
        raise InputError(f'no sampling "{sampling}"; choose "bernoulli" or "reservoir"')
    if curve in (AUTO, FITTED) and build != "sample":
        raise InputError(f'curve="{curve}" goes with build="sample" only; leave build out, or name a curve')
    size = (
        None if files is not None else parse_size(DEFAULT_FILE_SIZE if target_file_size is None else target_file_size)
    )
    batch = None if max_batch is None else _check_batch(max_batch, size)
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise InputError(f"jobs={jobs!r} is not a number of batches at a time; give a whole number of at least 1")
    if jobs > 1 and batch is None:
        raise InputError(f'jobs={jobs} batches at a time need a size of batches; give max_batch, such as "200GB"')
    if writer not in (AUTO, ARROW, SPARK):
        raise InputError(f'no writer "{writer}"; choose "{AUTO}", "{ARROW}" or "{SPARK}"')
    return OptimizeRequest(
        by=names,
        curve=curve,
        build=build,
        files=files,
        target_file_size=size,
        where=where,
        into=into,
        sort_within_files=sort_within_files,
        sampling=sampling,
        seed=seed,
        compression=read_compression(compression),
        workload=make_repeatable(workload),
        unseen=check_unseen(unseen),
        max_batch=batch,
        jobs=jobs,
        writer=writer,
    )


def _check_batch(value: int | str, file_size: int | None) -> int:
    size = read_size("max_batch", value)
    if file_size is not None and size < file_size:
        raise InputError(
            f"max_batch={value!r} is less than one file of {show_size(file_size)}; give more, or a smaller "
            "target_file_size"
        )
    return size


def check_unseen(value: float) -> float:
    """The share of queries that a workload does not tell; raises InputError unless it is 0 to 1.

    >>> check_unseen(2)
    Traceback (most recent call last):
    ...
    zskip.errors.InputError: unseen=2 is no share of queries; give a number from 0 to 1, such as 0.2
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"unseen={value!r} is no share of queries; give a number from 0 to 1, such as 0.2")
    return float(value)


def make_repeatable(workload: Given) -> Given:
    """Turn an iterator into a tuple, so that it can be read more than once."""
    return tuple(workload) if isinstance(workload, Iterator) else workload


def clustering_fields(by: Sequence[str], snapshot: Snapshot, *, case_sensitive: bool) -> tuple[Field, ...]:
    """Find the clustering columns in a table; raises ColumnError for one that cannot be clustered by."""
    columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=case_sensitive)
    fields: list[Field] = []
    for name in by:
        field = columns.resolve((name,))
        if field.name in snapshot.partition_names:
            raise ColumnError(f'"{name}" is a partition column: its files are apart already; leave it out of "by"')
        if field.type.form is None:
            raise ColumnError(
                f'cannot cluster by "{name}" of type {field.type}: it has no order; choose columns of atomic types'
            )
        if field in fields:
            raise ColumnError(f'column "{name}" is named twice in "by"; name each column once')
        fields.append(field)
    return tuple(fields)


def files_per_partition(request: OptimizeRequest, rows: Ints, sizes: Ints) -> Ints:
    """Choose the number of files of each Hive partition, at least one where it has rows.

    rows, sizes: (partitions,) current rows and bytes.

    >>> import numpy as np
    >>> request = check_request(by=["a"], curve="linear", build="sample", files=8, target_file_size=None, where=None,
    ...                         into=None, sort_within_files=True, sampling="bernoulli", seed=0)
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
    values = count_dictionary_values(storage, snapshot, without=[field.name for field in by], codec=codec)
    return page_rows(snapshot.bytes, int(rows.sum()), len(snapshot.fields), values)
