"""The main job, on one page: a table's files are rewritten so that close rows lie together.

    snapshot -> choose files -> read footers -> sample -> fit layout -> rewrite in Spark
             -> the format's commit -> index the new files

`optimize` below is that line. Nothing is changed before the commit; a failure after it costs the index only.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ConflictError, CorruptFileError, StorageError, ZskipWarning
from zskip.formats.compression import Compression
from zskip.formats.schema import Inspection, inspect_footers
from zskip.index import refresh
from zskip.layout.layout import Layout
from zskip.layout.pages import MOST_ROWS
from zskip.layout.predict import predict_share, share_of_boxes
from zskip.layout.sampling import ReservoirPlan, bernoulli_fraction
from zskip.records import Field, FileSizes, Ints, Operation, OptimizeResult, Sample
from zskip.storage.overlay import Overlay
from zskip.table.advice.choose_layout import (
    ChosenLayout,
    check_columns_and_curve,
    choose_layout,
    choose_request_columns,
)
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.journal import Depths, count_depths, record_operation
from zskip.table.optimize_request import OptimizeRequest, clustering_fields, files_per_partition, rows_per_page
from zskip.table.read.info import last_layout
from zskip.table.refresh_index import index_new_files
from zskip.table.rewrite.file_selection import select_partitions, select_unchanged
from zskip.table.rewrite.step_timer import StepTimer
from zskip.table.rewrite.writers import (
    ClusteredRows,
    EngineWriter,
    FileWriter,
    Rewrite,
    Writer,
    choose_engine,
    open_target,
)
from zskip.table.session import is_case_sensitive, merges_schemas
from zskip.table.snapshot import check_files_are_rows, read_snapshot, read_table_schema
from zskip.table.unchanged_files import LiveFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zskip.spark.schema import TableSchema

_MOST_FOOTERS = 2_000


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Plan:
    """The files to rewrite and what is known of them before Spark starts."""

    schema: TableSchema
    """Of the files to rewrite only."""
    fields: tuple[Field, ...]
    """The clustering columns."""
    found: Inspection
    partition_rows: Ints
    """(partitions,)."""
    files: Ints
    """(partitions,) how many files each partition gets."""
    compression: Compression
    page_rows: int


def optimize(handle: Handle, request: OptimizeRequest, target: Handle | None = None) -> OptimizeResult:
    """Cluster the files that `request.where` selects and commit them, or change nothing.

    target: of `request.into`, where that is under way already.
    """
    try:
        return _optimize(handle, request, target)
    except (CorruptFileError, StorageError) as error:
        if request.only is not None and (LiveFiles(handle.format.snapshot()).find(request.only) < 0).any():
            raise ConflictError(
                f'another writer replaced files of "{handle.storage.root}" while they were read; nothing was '
                "committed, call again"
            ) from error
        raise


def _optimize(handle: Handle, request: OptimizeRequest, target: Handle | None) -> OptimizeResult:
    spark = handle.need_spark("optimize()")
    check_columns_and_curve(request)
    timer = StepTimer()
    if not request.by:
        with timer.step("advise"):
            advised = choose_request_columns(handle, request)
        if advised is None:
            return unchanged(handle, timer)
        request = advised
    with timer.step("snapshot"):
        engine = choose_engine(spark, handle, into=request.into, compression=request.compression)
        plan = _plan(spark, handle, request, reader=None if engine is None else engine.reads)
    if not plan.partition_rows.sum():
        return _result(handle, plan, request, timer)
    with open_target(handle, request.into) if target is None else nullcontext(target) as target:
        writer: Writer = (
            FileWriter(spark, target, replaces=request.into is None) if engine is None else EngineWriter(spark, engine)
        )
        try:
            with timer.step("sample"):
                sample = _sample(spark, plan, request)
            with timer.step("fit"):
                chosen = choose_layout(handle, plan.schema.snapshot, sample, plan.files, plan.partition_rows, request)
                before, depths = _before(handle, plan, sample, chosen)
                if request.where is None and request.only is None:
                    request = dataclasses.replace(request, depths=depths)
            with timer.step("rewrite"):
                writer.write(_rewrite(plan, chosen.layout, request))
            with timer.step("commit"):
                committed = writer.commit(_info(plan, request, chosen))
        except BaseException:
            writer.abort()
            raise
        result = dataclasses.replace(
            _result(handle, plan, request, timer),
            version=committed.version,
            files_after=len(committed.sizes),
            bytes_after=sum(committed.sizes),
            predicted_share_before=before,
            predicted_share_after=predict_share(chosen.layout, sample, chosen.workload),
            curve=chosen.curve,
            added=FileSizes.of(committed.sizes),
            removed=FileSizes.of(plan.schema.snapshot.sizes.tolist() if request.into is None else []),
            partitions=len(np.unique(plan.schema.snapshot.partition_of)),
            batches=1,
        )
        _record(target, request, result, chosen, committed.names)
        with timer.step("index"):
            index_new_files(target, by_engine=plan.schema.snapshot.reader is not None)
    return result


def _record(
    target: Handle, request: OptimizeRequest, result: OptimizeResult, chosen: ChosenLayout, names: tuple[str, ...]
) -> None:
    operation = Operation(
        version=result.version,
        time_ms=int(1000 * time.time()),
        operation=request.operation,
        by=tuple(field.name for field in chosen.layout.fields),
        curve=result.curve,
        build=request.build,
        where=request.where,
        rows=result.rows,
        files_removed=result.removed.files,
        files_added=result.added.files,
        bytes_removed=result.removed.bytes,
        bytes_added=result.added.bytes,
        share_before=result.predicted_share_before,
        share_after=result.predicted_share_after,
        seconds=round(sum(result.seconds.values()), 3),
        fitted_to=chosen.fitted_to,
    )
    size = (
        request.long_term_file_size
        or request.target_file_size
        or max(1, result.bytes_after // max(result.files_after, 1))
    )
    record_operation(target, operation, names=names, layout=chosen.layout, target_file_size=size, depths=request.depths)


def _plan(spark: SparkSession, handle: Handle, request: OptimizeRequest, *, reader: str | None) -> _Plan:
    """Look at the table and check everything that can be wrong with it, before anything is written.

    reader: why the format's own code reads the rows; None where zskip does, or where the snapshot has a reason itself.
    """
    from zskip.spark.scan.relation import scan_with_ordinals
    from zskip.spark.write.rewrite import check_writable

    check_index_version(handle)
    schema = read_table_schema(handle)
    check_files_are_rows(schema.snapshot)
    fields = clustering_fields(request.by, schema.snapshot, case_sensitive=is_case_sensitive(handle))
    chosen = select_unchanged(select_partitions(handle, schema.snapshot, request.where), request.only)
    if chosen.reader is None:
        chosen = dataclasses.replace(chosen, reader=reader)
    check_writable(scan_with_ordinals(spark, schema))
    merge = merges_schemas(handle) or chosen.declared is not None
    found = inspect_footers(handle.storage, chosen, merge=merge, workers=handle.workers)
    count = len(chosen.partitions)
    rows = np.bincount(chosen.partition_of, found.rows, count).astype(np.int64)
    sizes = np.bincount(chosen.partition_of, chosen.sizes, count).astype(np.int64)
    compression = request.compression or Compression(codec=found.codec or "zstd")
    paged = request.sort_within_files
    return _Plan(
        schema=dataclasses.replace(schema, snapshot=chosen),
        fields=fields,
        found=found,
        partition_rows=rows,
        files=files_per_partition(request, rows, sizes),
        compression=compression,
        page_rows=rows_per_page(handle.storage, chosen, rows, fields, compression) if paged else MOST_ROWS,
    )


def _sample(spark: SparkSession, plan: _Plan, request: OptimizeRequest) -> Sample:
    from zskip.spark.scan.relation import ORDINAL, scan_with_ordinals
    from zskip.spark.write.draw import draw_bernoulli, draw_reservoir
    from zskip.spark.write.rewrite import describe_jobs

    frame = scan_with_ordinals(spark, plan.schema)
    with describe_jobs(spark, f"sample {len(plan.fields)} columns of {plan.schema.snapshot.root}"):
        if request.sampling == "reservoir":
            return draw_reservoir(frame, plan.fields, ORDINAL, ReservoirPlan.of, request.seed)
        fraction = bernoulli_fraction(int(plan.found.rows.sum()), int(plan.files.sum()))
        return draw_bernoulli(frame, plan.fields, ORDINAL, fraction, request.seed)


def _rewrite(plan: _Plan, layout: Layout, request: OptimizeRequest) -> Rewrite:
    return Rewrite(
        schema=plan.schema,
        arrangement=ClusteredRows(layout=layout, sort_within_files=request.sort_within_files),
        partition_rows=plan.partition_rows,
        compression=plan.compression,
        page_rows=plan.page_rows,
    )


def _info(plan: _Plan, request: OptimizeRequest, chosen: ChosenLayout) -> dict[str, Any]:
    """What a commit says of itself."""
    return {
        "operation": request.operation,
        "by": list(request.by),
        "curve": chosen.curve,
        "build": request.build,
        "where": request.where,
        "rows": int(plan.found.rows.sum()),
        "seed": request.seed,
        **({} if chosen.fitted_to is None else {"fitted_to": chosen.fitted_to}),
    }


def _before(handle: Handle, plan: _Plan, sample: Sample, chosen: ChosenLayout) -> tuple[float | None, Depths | None]:
    """Of the files as they are: the share of the rows that the workload reads, and how deep they lie.

    Of many files the share is that of some, and the depth is not known.
    """
    if plan.schema.snapshot.reader is not None:
        return None, None
    places = np.linspace(0, len(plan.found.rows) - 1, min(len(plan.found.rows), _MOST_FOOTERS)).astype(np.int64)
    some = plan.schema.snapshot.select(np.isin(np.arange(len(plan.found.rows)), places))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZskipWarning)
        # In memory: whatever goes wrong later, this table is left as it was.
        index = refresh(Overlay(handle.storage), some, workers=handle.workers)
        bound = index.bind(some, case_sensitive=is_case_sensitive(handle))
    depths = count_depths(bound, plan.fields) if len(some) == len(plan.schema.snapshot) else None
    stats = [bound.column((field.name,)) for field in plan.fields]
    if any(s is None or s.lower.dtype != c.dtype for s, c in zip(stats, sample.columns, strict=True)):
        return None, depths
    known = [s for s in stats if s is not None]
    ends = ([s.lower for s in known], [s.upper for s in known], [s.bounded for s in known])
    return share_of_boxes(sample, *ends, plan.found.rows[places], chosen.workload), depths


def unchanged(handle: Handle, timer: StepTimer) -> OptimizeResult:
    """Of a table that is best left as it is."""
    snapshot = read_snapshot(handle)
    layout = last_layout(handle, snapshot)
    return OptimizeResult(
        path=handle.storage.root,
        version=snapshot.version,
        curve="as it is",
        build="sample",
        by=() if layout is None else layout.by,
        files_before=len(snapshot),
        files_after=len(snapshot),
        bytes_before=snapshot.bytes,
        bytes_after=snapshot.bytes,
        rows=0,
        seconds=timer.seconds,
        predicted_share_before=None,
        predicted_share_after=None,
    )


def _result(handle: Handle, plan: _Plan, request: OptimizeRequest, timer: StepTimer) -> OptimizeResult:
    chosen = plan.schema.snapshot
    return OptimizeResult(
        path=handle.storage.root if request.into is None else request.into,
        version=chosen.version,
        curve=request.curve,
        build=request.build,
        by=request.by,
        files_before=len(chosen),
        files_after=0,
        bytes_before=chosen.bytes,
        bytes_after=0,
        rows=int(plan.found.rows.sum()),
        seconds=timer.seconds,
        predicted_share_before=None,
        predicted_share_after=None,
        compression=str(plan.compression),
    )
