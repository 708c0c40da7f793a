"""The main job, on one page: rewrite a table's files so that close rows lie together.

    snapshot -> choose files -> read footers -> sample -> fit layout -> rewrite in Spark
             -> the format's commit -> index the new files

`optimize` below is that line. Nothing changes before the commit; a failure after it costs only the index.
"""

from __future__ import annotations

import dataclasses
import logging
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from zskip.errors import ConflictError, CorruptFileError, StorageError, ZskipError, ZskipWarning
from zskip.formats.compression import Compression
from zskip.layout.predict import predict_share, share_of_boxes
from zskip.layout.sampling import bernoulli_fraction
from zskip.records import Field, FileIdentity, Ints, LiveFiles, RewriteResult, Sample, Snapshot
from zskip.table.advice.advise import choose_keys
from zskip.table.advice.choose_layout import (
    ChosenLayout,
    check_columns_and_curve,
    choose_layout,
)
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version, complete_in_memory
from zskip.table.journal import record_result
from zskip.table.optimize_request import (
    OptimizeRequest,
    RewriteJob,
    files_per_partition,
    rows_per_page,
)
from zskip.table.predicates import check_keys
from zskip.table.read.info import last_layout
from zskip.table.refresh_index import index_new_files
from zskip.table.rewrite.file_selection import inspect_selected, select_partitions, select_unchanged
from zskip.table.rewrite.rewrite import Rewrite, check_rewritable, copy_files, open_target, rewrite_files
from zskip.table.step_timer import StepTimer
from zskip.table.version import TableVersion, open_version
from zskip.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_FOOTERS = 2_000
_AIM = 1.1
"""Files of the target's size between 0.75 and 1.5 are right, of which this is the geometric middle, about."""
_log = logging.getLogger("zskip")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Plan:
    """The files to rewrite, and what zskip knows of them before Spark starts."""

    old: Rewrite
    """Before its layout is fitted."""
    fields: tuple[Field, ...]
    """The clustering columns."""
    partition_rows: Ints
    """(partitions,)."""
    copied: Snapshot
    """The files that a new table gets as they are: one of each partition without rows, so that it stays one."""
    files: Ints
    """(partitions,) new files."""


def optimize(handle: Handle, job: RewriteJob, target: Handle | None = None) -> RewriteResult:
    """Cluster the files of a job and commit them, or change nothing.

    target: the open target of `into`, if any.
    """
    try:
        return _optimize(handle, job, target)
    except (CorruptFileError, StorageError) as error:
        if job.only is not None and (LiveFiles(handle.format.snapshot()).find(job.only) < 0).any():
            raise ConflictError(
                f'another writer replaced files of "{handle.storage.root}" while they were read; nothing was '
                "committed, call again"
            ) from error
        raise


def _optimize(handle: Handle, job: RewriteJob, target: Handle | None) -> RewriteResult:
    spark, request = handle.need_session("optimize()"), job.options
    check_columns_and_curve(request)
    timer, version = StepTimer(), open_version(handle)
    if job.only is None and (not request.by or request.takes_conditions):
        with timer.step("advise"):
            advised = choose_keys(version, request)
        if advised is None:
            return unchanged(version, timer)
        if advised is not request:
            # The advice took a while, and has released what it read.
            request, version = advised, open_version(handle)
            job = dataclasses.replace(job, options=request)
    with timer.step("snapshot"):
        check_rewritable(version, request.into, request.compression)
        plan = _plan(spark, version, request, job.only)
        request = dataclasses.replace(request, by=tuple(field.name for field in plan.fields))
        job = dataclasses.replace(job, options=request)
    result = RewriteResult(
        path=handle.storage.root if request.into is None else request.into,
        version=plan.old.snapshot.version,
        by=request.by,
        curve=request.curve,
        build=request.build,
        files_after=len(plan.copied),
        bytes_after=plan.copied.bytes,
        partitions=len(np.unique(plan.old.snapshot.partition_of)),
        compression=str(plan.old.compression),
        seconds=timer.seconds,
    )
    has_rows = plan.partition_rows.sum() > 0
    if not has_rows and not len(plan.copied):
        return dataclasses.replace(result, files_before=len(plan.old.snapshot), bytes_before=plan.old.snapshot.bytes)
    with open_target(handle, request.into) if target is None else nullcontext(target) as target:
        if len(plan.copied):
            copy_files(handle.storage, target, plan.copied)
        if not has_rows:
            return result
        return _rewrite(spark, version, plan, job, None if request.into is None else target, result, timer)


def _rewrite(
    spark: SparkSession,
    version: TableVersion,
    plan: _Plan,
    job: RewriteJob,
    target: Handle | None,
    result: RewriteResult,
    timer: StepTimer,
) -> RewriteResult:
    """Fit the layout, write the files by it, commit and index them; result: what is known of the operation before."""
    handle, request, files = version.handle, job.options, plan.old.snapshot
    with timer.step("sample"):
        sample = _sample(spark, plan, request)
        plan, weighed = _size_files(spark, handle, plan, sample, request)
    with timer.step("fit"):
        chosen = choose_layout(handle, files, weighed, plan.files, plan.partition_rows, request, job.guide, job.beside)
        before = _measure_before(handle, plan, sample, chosen)
    rewrite = dataclasses.replace(plan.old, layout=chosen.layout)
    commit = rewrite_files(version, rewrite, _commit_info(plan, job, chosen), timer, target)
    result = dataclasses.replace(
        result.add([commit.result]),
        curve=chosen.curve,
        predicted_share_before=before,
        predicted_share_after=predict_share(chosen.layout, sample, chosen.workload),
    )
    record_result(
        commit.version,
        result,
        job.operation,
        where=request.where,
        fitted_to=chosen.fitted_to,
        names=commit.names,
        layout=chosen.layout,
        target_file_size=(
            job.long_term_file_size
            or request.target_file_size
            or max(1, result.bytes_after // max(result.files_after, 1))
        ),
    )
    with timer.step("index"):
        index_new_files(commit.version, chosen.layout.fields)
    return result


def _plan(
    spark: SparkSession, version: TableVersion, request: OptimizeRequest, only: frozenset[FileIdentity] | None
) -> _Plan:
    """Read and check the table before anything is written; only: as in `RewriteJob`."""

    handle, reader = version.handle, version.reader
    check_index_version(handle)
    fields = version.find_keys(request.by)
    files = select_partitions(version, request.where) if only is None else select_unchanged(reader.snapshot, only)
    reader = reader.select(files)
    if len(files):
        reader.check_writable(spark)
        frame = reader.rows_of_keys(spark, fields)
        check_keys(frame, reader.snapshot, fields)
        fields = tuple(_as_read(field, frame) for field in fields)
    reader, footers = inspect_selected(handle, reader)
    count = len(files.partitions)
    rows = np.bincount(files.partition_of, footers.rows, count).astype(np.int64)
    without_rows = _find_without_rows(files, rows) if handle.format.is_plain else np.zeros(0, np.int64)
    copied = files.take(without_rows if request.into is not None else without_rows[:0])
    if len(without_rows):
        has_rows = rows[files.partition_of] > 0
        files, footers = files.select(has_rows), dataclasses.replace(footers, rows=footers.rows[has_rows])
        reader = reader.select(files)
    sizes = np.bincount(files.partition_of, files.sizes, count).astype(np.int64)
    compression = request.compression or Compression(codec=footers.codec or "zstd")
    old = Rewrite(
        reader=reader,
        rows=footers.rows,
        compression=compression,
        page_rows=rows_per_page(handle.storage, files, rows, fields, compression),
        traits=footers.traits,
        lost_traits=footers.lost_traits,
    )
    return _Plan(
        old=old, fields=fields, partition_rows=rows, copied=copied, files=files_per_partition(request, rows, sizes)
    )


def _find_without_rows(files: Snapshot, rows: Ints) -> Ints:
    """The number of one file of each partition without rows, which only files without rows keep in a directory."""
    numbers, first = np.unique(files.partition_of, return_index=True)
    return cast(Ints, first[rows[numbers] == 0])


def _as_read(field: Field, frame: DataFrame) -> Field:
    """A column as it is in a frame: Iceberg's own reader shows UUIDs as text."""
    if field.computed:
        return field
    kind: Any = frame.schema
    for name in field.path:
        kind = kind[name].dataType
    is_text = field.type.name == "binary" and kind.typeName() == "string"
    return dataclasses.replace(field, type=DataType("string")) if is_text else field


def _sample(spark: SparkSession, plan: _Plan, request: OptimizeRequest) -> Sample:
    from zskip.spark.jobs import describe_jobs
    from zskip.spark.schema import ordinal_of
    from zskip.spark.write.draw import draw_bernoulli, draw_reservoir

    frame = plan.old.reader.rows_of_keys(spark, plan.fields)
    with describe_jobs(spark, f"sample {len(plan.fields)} columns of {plan.old.snapshot.root}"):
        if request.sampling == "reservoir":
            return draw_reservoir(frame, plan.fields, ordinal_of(frame), request.seed)
        fraction = bernoulli_fraction(int(plan.old.rows.sum()), int(plan.files.sum()))
        return draw_bernoulli(frame, plan.fields, ordinal_of(frame), fraction, request.seed)


def _size_files(
    spark: SparkSession, handle: Handle, plan: _Plan, sample: Sample, request: OptimizeRequest
) -> tuple[_Plan, Sample]:
    """Choose the number of files by the bytes that rows take once they are clustered, if their size is asked for.

    Returns the sample, too, with weights by bytes in place of rows.
    """
    from zskip.spark.write.arrow.schema import NotArrow

    rows, snapshot = int(plan.old.rows.sum()), plan.old.snapshot
    is_whole = request.target_file_size is not None and plan.files.sum() > len(np.flatnonzero(plan.partition_rows))
    if not is_whole or not len(sample) or any(field.computed for field in plan.fields):
        return plan, sample
    try:
        sizes = plan.old.through_arrow(spark, handle.storage, handle.storage, "").estimate_sizes(sample)
    except (NotArrow, pa.ArrowException, ZskipError, OSError) as error:
        _log.info("%s: the size of new files is that of the old ones: %s", snapshot.root, error)
        return plan, sample
    bytes_before = np.bincount(snapshot.partition_of, snapshot.sizes, len(plan.files))
    factor = sizes.row_bytes * rows / max(snapshot.bytes, 1)
    files = files_per_partition(request, plan.partition_rows, (bytes_before * factor / _AIM).astype(np.int64))
    weights = sample.weights * sizes.weights
    totals = [np.bincount(sample.partition, values, len(files)) for values in (sample.weights, weights)]
    weights *= (totals[0] / np.maximum(totals[1], 1e-9))[sample.partition]
    return dataclasses.replace(plan, files=files), dataclasses.replace(sample, weights=weights)


def _commit_info(plan: _Plan, job: RewriteJob, chosen: ChosenLayout) -> dict[str, Any]:
    """The description in the commit."""
    request = job.options
    return {
        "operation": job.operation,
        "by": list(request.by),
        "curve": chosen.curve,
        "build": request.build,
        "where": request.where,
        "rows": int(plan.old.rows.sum()),
        "seed": request.seed,
        **({} if chosen.fitted_to is None else {"fitted_to": chosen.fitted_to}),
    }


def _measure_before(handle: Handle, plan: _Plan, sample: Sample, chosen: ChosenLayout) -> float | None:
    """Measure the share of the rows that the workload reads before the rewrite; of many files, by a sample of them."""
    if not plan.old.reader.footers_count:
        return None
    count = len(plan.old.rows)
    numbers = np.linspace(0, count - 1, min(count, _MOST_FOOTERS)).astype(np.int64)
    files = plan.old.snapshot.select(np.isin(np.arange(count), numbers))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        # In memory, so that the table stays as it was if a later step fails.
        bound = complete_in_memory(handle, files)
    stats = [bound.column(field.path) for field in plan.fields]
    if any(s is None or s.lower.dtype != c.dtype for s, c in zip(stats, sample.columns, strict=True)):
        return None
    known = [s for s in stats if s is not None]
    ends = ([s.lower for s in known], [s.upper for s in known], [s.bounded for s in known])
    return share_of_boxes(sample, *ends, plan.old.rows[numbers], chosen.workload)


def unchanged(version: TableVersion, timer: StepTimer) -> RewriteResult:
    """The result for a table that should stay as it is."""
    snapshot = version.snapshot
    layout = last_layout(version)
    return RewriteResult(
        path=version.handle.storage.root,
        version=snapshot.version,
        by=() if layout is None else layout.by,
        curve="as it is",
        build="sample",
        files_before=len(snapshot),
        files_after=len(snapshot),
        bytes_before=snapshot.bytes,
        bytes_after=snapshot.bytes,
        seconds=timer.seconds,
    )
