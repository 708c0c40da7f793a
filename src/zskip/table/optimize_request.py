"""What a user asks of an optimize, checked before anything is read or written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zskip.advisor.fitting.cross_validation import FITTED
from zskip.advisor.workload.workload import Query, Workload
from zskip.errors import ColumnError, ConflictError, InputError, PredicateError
from zskip.formats.compression import Compression, read_compression
from zskip.formats.schema import count_dictionary_values
from zskip.index import refresh
from zskip.layout.pages import page_rows
from zskip.predicate import Columns, columns_of, parse
from zskip.records import Field, Floats, Ints, Snapshot, Values
from zskip.storage import Storage
from zskip.storage.overlay import Overlay
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_metadata
from zskip.table.journal import Depths
from zskip.table.session import is_case_sensitive, time_zone
from zskip.table.unchanged_files import FileIdentity, LiveFiles
from zskip.units import parse_size, show_size

Given = Workload | str | Iterable[str | tuple[str, float] | Mapping[str, object] | Query] | None
"""A workload, the path of a file of queries, a list of them, or None for the recorded one."""

AUTO = "auto"
"""In place of columns or of a curve: chosen by the workload."""
DEFAULT_FILE_SIZE = 128_000_000
"""Bytes a file aims at where the caller names neither a size nor a number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizeRequest:
    """The arguments of `Table.optimize`, each valid by itself."""

    by: tuple[str, ...]
    curve: str
    build: str
    files: int | None
    target_file_size: int | None
    """Bytes; exactly one of this and `files` is set."""
    where: str | None
    into: str | None
    sort_within_files: bool
    sampling: str
    seed: int
    compression: Compression | None = None
    """None for that of the files as they are."""
    operation: str = "optimize"
    """What the commit and the table's journal call it."""
    aims_at: int | None = None
    """Bytes that files aim at in the long run, where `files` says how many there are now."""
    only: frozenset[FileIdentity] | None = None
    """The files to rewrite, as a planner has chosen them; None for all."""
    workload: Given = None
    """To which the layout is fitted; None for the recorded one where the columns or the curve are chosen."""
    beside: tuple[tuple[Values, Floats], ...] = ()
    """For each clustering column values of the files that stay, and how many rows each of them stands for."""
    depths: Depths | None = None
    """Of the whole table before the call of which this is the first part."""
    max_batch: int | None = None
    """Bytes of files that are rewritten in one commit; None for all in one."""
    jobs: int = 1
    """Batches that are rewritten at the same time."""

    @property
    def chooses(self) -> bool:
        """Whether columns or curve are to be chosen, or the layout fitted to a workload."""
        return not self.by or self.curve in (AUTO, FITTED) or self.workload is not None


def check_request(
    *,
    by: Sequence[str] | str,
    curve: str,
    build: str,
    files: int | None,
    target_file_size: int | str | None,
    where: str | None,
    into: str | None,
    sort_within_files: bool,
    sampling: str,
    seed: int,
    compression: str = "keep",
    workload: Given = None,
    max_batch: int | str | None = None,
    jobs: int = 1,
) -> OptimizeRequest:
    """Check what can be checked without looking at the table; raises InputError."""
    chooses = isinstance(by, str) and by == AUTO
    names = () if chooses else (by,) if isinstance(by, str) else tuple(by)
    if not names and not chooses:
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
        workload=repeatable(workload),
        max_batch=batch,
        jobs=jobs,
    )


def _check_batch(value: int | str, file_size: int | None) -> int:
    size = read_size("max_batch", value)
    if file_size is not None and size < file_size:
        raise InputError(
            f"max_batch={value!r} is less than one file of {show_size(file_size)}; give more, or a smaller "
            "target_file_size"
        )
    return size


def repeatable(given: Given) -> Given:
    """The same, to be read more than once: what can be walked through only once is walked through here."""
    return tuple(given) if isinstance(given, Iterator) else given


def read_size(name: str, value: int | str) -> int:
    """Bytes from the number or text of an argument; raises InputError that names it."""
    try:
        return parse_size(value)
    except InputError as error:
        raise InputError(f'{name}={value!r} is no size; write bytes, or text with a unit such as "10GB"') from error


def clustering_fields(by: Sequence[str], snapshot: Snapshot, *, case_sensitive: bool) -> tuple[Field, ...]:
    """Find the clustering columns in a table; raises ColumnError for one that cannot be clustered by."""
    partition_names = {*(field.name for field in snapshot.partition_fields), *snapshot.grouped_by}
    columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=case_sensitive)
    found = []
    for name in by:
        field = columns.resolve((name,))
        if field.name in partition_names:
            raise ColumnError(f'"{name}" is a partition column: its files are apart already; leave it out of "by"')
        if field.type.form is None:
            raise ColumnError(
                f'cannot cluster by "{name}" of type {field.type}: it has no order; choose columns of atomic types'
            )
        if field in found:
            raise ColumnError(f'column "{name}" is named twice in "by"; name each column once')
        found.append(field)
    return tuple(found)


def choose_files(handle: Handle, snapshot: Snapshot, where: str | None) -> Snapshot:
    """The files of the partitions for which `where` is true; with hidden partitions, the files for all rows of which.

    Raises PredicateError where it is no predicate, where it names other columns, or where the values of the
    partitions alone cannot decide it; ColumnError for unknown columns.
    """
    if where is None:
        return snapshot
    columns = (*snapshot.fields, *snapshot.partition_fields)
    predicate = parse(where, Columns(columns, case_sensitive=is_case_sensitive(handle)), timezone=time_zone(handle))
    names = {*(field.name for field in snapshot.partition_fields), *snapshot.grouped_by}
    for column in columns_of(predicate):
        if column.path[0] not in names and not snapshot.has_hidden_partitions:
            has = f"the partition columns are {', '.join(sorted(names))}" if names else "this table has none"
            raise PredicateError(f'"{column.path[0]}" in where="{where}" is no partition column; {has}')
    # Of partition columns that the files hold, footers know what the table's metadata does not; nothing is written.
    held = refresh(Overlay(handle.storage), snapshot, workers=handle.workers) if snapshot.grouped_by else None
    case_sensitive = is_case_sensitive(handle)
    known = bind_metadata(handle, snapshot) if held is None else held.bind(snapshot, case_sensitive=case_sensitive)
    result = known.prune(predicate)
    if (result.kept & ~result.full).any():
        unknown = "; ".join(leaf.sql for leaf in result.leaves if leaf.reason)
        raise PredicateError(
            f'where="{where}" cannot be decided for each partition ({unknown}); '
            "compare partition columns with literals, such as \"day >= DATE '2024-01-01'\""
        )
    return snapshot.select(result.kept)


def only_files(snapshot: Snapshot, only: frozenset[FileIdentity] | None) -> Snapshot:
    """The files that a planner has chosen; raises ConflictError where one of them is no longer as it was."""
    if only is None:
        return snapshot
    places = LiveFiles(snapshot).find(only)
    if (gone := int((places < 0).sum())) > 0:
        raise ConflictError(
            f'another writer changed {gone} of the files of "{snapshot.root}" that were to be rewritten; nothing was '
            "committed, call again"
        )
    keep = np.zeros(len(snapshot), np.bool_)
    keep[places] = True
    return snapshot.select(keep)


def files_by_partition(request: OptimizeRequest, rows: Ints, sizes: Ints) -> Ints:
    """Decide how many files each Hive partition gets: at least one where it has rows.

    rows, sizes: (partitions,) rows and bytes now.

    >>> import numpy as np
    >>> request = check_request(by=["a"], curve="linear", build="sample", files=8, target_file_size=None, where=None,
    ...                         into=None, sort_within_files=True, sampling="bernoulli", seed=0)
    >>> files_by_partition(request, np.array([700, 290, 10, 0]), np.array([7, 3, 1, 0])).tolist()
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


def rows_a_page(
    storage: Storage, snapshot: Snapshot, rows: Ints, by: Sequence[Field], compression: Compression | None = None
) -> int:
    """Decide how many rows a page of files sorted by some columns holds; rows: (partitions,)."""
    codec = None if compression is None else compression.codec
    kept = count_dictionary_values(storage, snapshot, without=[field.name for field in by], codec=codec)
    return page_rows(snapshot.bytes, int(rows.sum()), len(snapshot.fields), kept)
