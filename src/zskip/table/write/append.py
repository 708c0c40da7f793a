"""Append the rows of a DataFrame to a table, in the order of the table's own layout.

    columns and types -> sample -> layout -> write in Spark -> the format's append -> index

Nothing changes before the commit; a failure after it costs only the index.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.advisor.maintenance.planner import kept_share
from zskip.errors import ColumnError, InputError
from zskip.formats import BatchId, RowRules, StagedFile
from zskip.formats.compression import Compression
from zskip.formats.footers.inspection import read_clear_footers
from zskip.formats.footers.traits import FileTraits, common_traits
from zskip.layout.curves import curve_traits
from zskip.layout.layout import Layout
from zskip.records import ALL_NULL, Field, FileSizes, LayoutInfo, RewriteResult, Snapshot, WriteResult
from zskip.spark.jvm.compat import cores
from zskip.table.advice.choose_layout import warn_of_nulls
from zskip.table.handle import Handle
from zskip.table.index_binding import check_index_version
from zskip.table.journal import Clustering, read_clustering, read_journal, record_result
from zskip.table.optimize_request import DEFAULT_FILE_SIZE, OptimizeRequest, rows_per_page
from zskip.table.predicates import check_keys
from zskip.table.read.info import layout_of
from zskip.table.refresh_index import index_new_files
from zskip.table.rewrite.file_bounds import read_bounds
from zskip.table.step_timer import StepTimer
from zskip.table.version import TableVersion, open_version
from zskip.table.write.incoming import align, check_frame, find_broken_rule
from zskip.table.write.stage_rows import StagedRows, WritePlan, stage_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("zskip")
_INPUT_ORDER = "input order"
"""In place of a curve: the rows as they came."""
_MOST_FOOTERS = 20
"""Files whose footers tell the bytes of a row and the codec."""


def read_batch(batch: object) -> BatchId | None:
    """Read the argument `batch`; raises InputError."""
    if batch is None:
        return None
    if isinstance(batch, Sequence) and not isinstance(batch, str) and len(batch) == 2:
        name, version = batch
        if isinstance(name, str) and name and isinstance(version, int) and not isinstance(version, bool):
            return BatchId(application=name, version=version)
    raise InputError(f'batch={batch!r}: give the name of the writer and the number of the batch, as in ("orders", 7)')


def append(
    handle: Handle, df: DataFrame, batch: BatchId | None = None, request: OptimizeRequest | None = None
) -> WriteResult:
    """Append rows and commit them, or change nothing.

    request: the layout of a table that was never clustered; by default such a table takes rows in input order.
    """
    from zskip.spark.write.rewrite import check_writable

    check_frame(df)
    handle.need_session("append()")
    timer = StepTimer()
    with timer.step("check"):
        version = open_version(handle)
        schema = version.reader.schema
        version.format.check_appendable()
        check_index_version(handle)
        rules = version.format.row_rules()
        aligned = align(df, schema, rules, case_sensitive=version.case_sensitive)
        check_writable(aligned)
        if batch is not None and _is_committed(handle, batch):
            return WriteResult.of(_no_rows(handle, plan_new_rows(schema.snapshot, (), None, rules), timer), jobs=0)
        plan = _plan(version, request, rules)
        check_keys(aligned, schema.snapshot, plan.fields)
    commit = partial(version.format.append, schema.snapshot, batch=batch)
    return write_and_commit(handle, aligned, plan, "append", commit, timer, version)


def write_and_commit(
    handle: Handle,
    frame: DataFrame,
    plan: WritePlan,
    operation: str,
    commit: Callable[[Sequence[StagedFile], dict[str, Any]], int | None],
    timer: StepTimer,
    base: TableVersion | None = None,
) -> WriteResult:
    """Write the rows, commit them, and index the new files; without rows, or a version, nothing changes.

    frame: as `stage_rows` takes it; operation: its name in the journal; commit: commits files with a description and
    returns the new version, None where the table holds them already; base: the table before, if all its files stay.
    """
    from zskip.spark.jobs import counting_jobs, describe_jobs
    from zskip.spark.jvm.compat import active_session

    spark = handle.need_session(operation)
    with counting_jobs() as count_jobs:
        # Sessions of our own that become active are for these jobs alone.
        with describe_jobs(spark, f"{operation} rows to {plan.snapshot.root}"), active_session(spark):
            try:
                staged = stage_rows(handle, frame, plan, timer)
            except Exception as error:
                broken = find_broken_rule(error)
                if broken is None:
                    raise
                raise broken from error
        result = _no_rows(handle, plan, timer)
        number = None
        try:
            with timer.step("commit"):
                number = commit(staged.files, _describe(operation, plan, staged)) if staged.files else None
        finally:
            if number is None and staged.staging is not None:
                handle.format.abort(staged.staging)
        if number is not None:
            result = dataclasses.replace(
                result,
                version=number,
                rows=staged.rows,
                added=FileSizes.of([file.size for file in staged.files]),
                curve=_curve_of(plan, staged),
                predicted_share_after=staged.predicted_share,
            )
            # Journal and index are about main.
            if handle.is_on_main:
                # A new table shows its format only now.
                new = dataclasses.replace(handle)
                version = open_version(new) if base is None else base.after_commit((), staged.files, number)
                result = _record_and_index(version, result, staged, plan, operation, timer)
        return WriteResult.of(result, count_jobs(spark))


def _record_and_index(
    version: TableVersion, result: RewriteResult, staged: StagedRows, plan: WritePlan, operation: str, timer: StepTimer
) -> RewriteResult:
    """Tell journal and index of a commit; returns its result with the share that queries read, if the index tells."""
    chosen, file_size = staged.chosen, None
    if plan.request is not None:
        size = max(result.added.bytes // max(result.added.files, 1), 1)
        file_size = plan.long_term_file_size or plan.request.target_file_size or size
    names = {file.name for file in staged.files}
    follows = chosen is not None and chosen.layout is plan.layout
    record_result(
        version,
        # The share of an append's rows does not compare with that of a table.
        dataclasses.replace(result, predicted_share_after=None) if operation == "append" else result,
        operation,
        fitted_to=None if chosen is None else chosen.fitted_to,
        names=names,
        layout=None if follows or chosen is None else chosen.layout,
        follows=follows,
        target_file_size=file_size,
    )
    with timer.step("index"):
        indexed = index_new_files(version, plan.fields)
    if chosen is None or indexed is None or result.predicted_share_after is not None:
        return result
    # Of these rows no sample was drawn.
    is_new = np.array([path.rpartition("/")[2] in names for path in version.snapshot.paths], np.bool_)
    bound = indexed.bind(version.snapshot.select(is_new))
    rows = np.maximum(bound.rows, 0)
    for field in plan.fields:
        stats = bound.column(field.path) if field.computed else None
        if stats is not None:
            nulls = np.where(stats.nulls == ALL_NULL, rows, np.clip(stats.nulls, 0, rows))
            warn_of_nulls(field, float(nulls.sum() / max(rows.sum(), 1)), "new")
    is_linear = curve_traits(chosen.curve).is_lexicographic
    share = kept_share(bound.snapshot, rows, read_bounds(bound, plan.fields), linear=is_linear)
    return dataclasses.replace(result, predicted_share_after=share)


def _curve_of(plan: WritePlan, staged: StagedRows) -> str:
    """The public name of the rows' order."""
    return _INPUT_ORDER if staged.chosen is None else staged.chosen.curve


def _describe(operation: str, plan: WritePlan, staged: StagedRows) -> dict[str, Any]:
    """The description in the commit."""
    info: dict[str, Any] = {"operation": operation, "rows": staged.rows}
    if plan.request is not None:
        by = [field.name for field in plan.fields]
        info |= {"by": by, "curve": _curve_of(plan, staged), "build": plan.request.build}
    return info


def _no_rows(handle: Handle, plan: WritePlan, timer: StepTimer) -> RewriteResult:
    """The result of a write of no rows."""
    return RewriteResult(
        path=handle.storage.root,
        version=plan.snapshot.version,
        by=tuple(field.name for field in plan.fields),
        curve=_INPUT_ORDER if plan.request is None else plan.request.curve,
        build="" if plan.request is None else plan.request.build,
        seconds=timer.seconds,
    )


def _is_committed(handle: Handle, batch: BatchId) -> bool:
    last = handle.format.last_batch(batch.application)
    return last is not None and last >= batch.version


def _plan(version: TableVersion, request: OptimizeRequest | None, rules: RowRules) -> WritePlan:
    """Plan an append by the table's own layout, or by the request's if the table has none."""
    handle, snapshot = version.handle, version.snapshot
    clustering = read_clustering(read_journal(handle.home), snapshot)
    layout, guide, size = _layout_that_applies(version, clustering), None, None
    if layout is not None:
        names = None if request is None else [field.name for field in version.find_keys(request.by)]
        size = None if clustering is None else clustering.newest.target_file_size
        guide = None if clustering is None else clustering.largest_run.layout()
        request = _request(layout, size, request, names)
    fields = () if request is None else version.find_keys(request.by)
    plan = dataclasses.replace(plan_new_rows(snapshot, fields, request, rules), guide=guide, long_term_file_size=size)
    if not len(snapshot):
        return plan
    some, footers = read_clear_footers(handle.storage, snapshot, _MOST_FOOTERS, handle.workers)
    rows = np.array([footer.rows for footer in footers], np.int64)
    codecs = [footer.codec for footer in footers if footer.codec]
    compression = Compression(codec=max(set(codecs), key=codecs.count, default="zstd"))
    partition_rows = np.bincount(some.partition_of, rows, len(some.partitions)).astype(np.int64)
    traits, _ = common_traits({footer.traits for footer in footers if footer.rows}, snapshot.reading)
    return dataclasses.replace(
        plan,
        row_size=some.bytes / max(int(rows.sum()), 1),
        compression=compression,
        page_rows=rows_per_page(handle.storage, some, partition_rows, fields, compression),
        traits=traits,
        layout=_own_cuts(handle, guide, fields),
    )


def plan_new_rows(
    snapshot: Snapshot, fields: tuple[Field, ...], request: OptimizeRequest | None, rules: RowRules | None = None
) -> WritePlan:
    """Plan a write of rows of which no live file tells anything."""
    return WritePlan(
        snapshot=snapshot,
        fields=fields,
        request=request,
        rules=rules or RowRules(),
        compression=(request and request.compression) or Compression(codec="zstd"),
        traits=FileTraits(bloom_filters=snapshot.reading.bloom_filters),
    )


def _own_cuts(handle: Handle, layout: Layout | None, fields: Sequence[Field]) -> Layout | None:
    """The layout of a table, if its cuts can place new rows as they are: enough of them for all tasks to have some."""
    tasks = cores(handle.need_session("append()"))
    if layout is None or layout.partitions > 1 or len(layout.spread) < tasks:
        return None
    columns, others = ([(field.name, field.type) for field in some] for some in (fields, layout.fields))
    return layout if columns == others else None


def _layout_that_applies(version: TableVersion, clustering: Clustering | None) -> LayoutInfo | None:
    """The table's layout; None also where a column of it was dropped since, or is of a type without an order."""
    layout = layout_of(version.handle, version.snapshot, clustering)
    if layout is None:
        return None
    try:
        version.find_keys(layout.by)
    except ColumnError as error:
        text = '"%s" was clustered by %s, which is no longer possible, so new rows are not placed by it: %s'
        _log.warning(text, version.handle.storage.root, ", ".join(layout.by), error)
        return None
    return layout


def _request(
    layout: LayoutInfo, size: int | None, request: OptimizeRequest | None, names: list[str] | None
) -> OptimizeRequest:
    """The request that places rows by the table's own layout; raises InputError if another one asks for other columns.

    It takes from the other one, whose columns have these names, the number or size of files. size: the table's own.
    """
    if request is not None and names != list(layout.by):
        raise InputError(
            f"by={list(request.by)}: the table is clustered by {', '.join(layout.by)}, and an append places rows as "
            "the table does; give these columns, or cluster it by others with optimize() first"
        )
    own = OptimizeRequest(
        by=layout.by,
        curve=layout.curve,
        build=layout.build,
        target_file_size=size or DEFAULT_FILE_SIZE,
        sampling="reservoir",
    )
    if request is None or (request.files is None and request.target_file_size == DEFAULT_FILE_SIZE):
        return own
    return dataclasses.replace(own, files=request.files, target_file_size=request.target_file_size)
