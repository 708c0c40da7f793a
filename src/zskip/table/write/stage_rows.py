"""Write the rows of a DataFrame, placed by a layout, into a staging directory, from which a format commits them.

partitions -> rows and a sample to disk -> layout -> write through Arrow -> check the rows of each partition
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from zskip.errors import ConflictError
from zskip.formats import RowRules, StagedFile
from zskip.formats.compression import Compression, arrow_codec
from zskip.formats.footers.footer import read_footers
from zskip.formats.footers.traits import NO_TRAITS, FileTraits
from zskip.formats.hive import infer_partitions
from zskip.layout.layout import Layout
from zskip.layout.pages import MOST_ROWS, page_rows
from zskip.layout.predict import predict_share
from zskip.records import Field, FileSizes, Ints, Sample, Snapshot
from zskip.spark.write.staging import StagedFiles, check_spark_writes, stage_files, stage_through_arrow
from zskip.table.advice.choose_layout import ChosenLayout, choose_layout
from zskip.table.handle import Handle
from zskip.table.optimize_request import OptimizeRequest, files_per_partition
from zskip.table.rewrite.step_timer import StepTimer
from zskip.table.write.incoming import Incoming, number_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.write.arrow.job import ArrowRows, RowsWritten
    from zskip.spark.write.arrow.spool import Spool

_log = logging.getLogger("zskip")
INPUT_ORDER = "input order"
"""In place of a curve: the rows as they came."""
_FIRST_ROWS = 20_000
"""Rows that tell the bytes of a row."""
_WIDE_ROW = 1024.0
"""Bytes in files of a row that may be wide."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WritePlan:
    """How new rows are written."""

    snapshot: Snapshot
    """The files that are live, and the table's columns and partition columns."""
    fields: tuple[Field, ...]
    """The clustering columns."""
    request: OptimizeRequest | None
    """None for rows in input order."""
    row_size: float | None
    """Bytes of a row; None where only the rows tell."""
    compression: Compression
    page_rows: int | None
    """The most rows of a page; None where only the rows tell."""
    partitions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """As in `RowRules`."""
    stored: str | None = None
    """As in `RowRules`."""
    traits: FileTraits = NO_TRAITS
    """What the table's files have beside rows."""
    layout: Layout | None = None
    """That of the table's files, by which new rows can be placed without a sample; None where there is none."""
    guide: Layout | None = None
    """The same, also where only a sample tells how new rows lie in it."""
    long_term_file_size: int | None = None
    """Bytes of the table's files, whatever the request says of the new ones."""

    def follow(self, rules: RowRules) -> WritePlan:
        """Write as a table's rules say."""
        return dataclasses.replace(self, partitions=rules.partitions, stored=rules.stored)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StagedRows:
    """Rows in a staging directory, ready to be committed."""

    files: tuple[StagedFile, ...]
    staging: str | None
    """Their directory; None without rows."""
    rows: int
    chosen: ChosenLayout | None
    """None for rows in input order."""
    predicted_share: float | None
    """Mean share of these rows (0 to 1) that a query reads."""

    @property
    def curve(self) -> str:
        """The public name of the rows' order."""
        return INPUT_ORDER if self.chosen is None else self.chosen.curve

    @property
    def sizes(self) -> FileSizes:
        """Of the new files."""
        return FileSizes.of([file.size for file in self.files])


_NOTHING = StagedRows(files=(), staging=None, rows=0, chosen=None, predicted_share=None)


def stage_rows(handle: Handle, spark: SparkSession, frame: DataFrame, plan: WritePlan, timer: StepTimer) -> StagedRows:
    """Write all rows of a DataFrame that has the columns of the table, partition columns last.

    Raises ConflictError if the new files do not hold the rows that Spark has read.
    """
    from zskip.spark.write.arrow.job import rows_session

    with timer.step("partitions"):
        incoming = number_partitions(rows_session(spark), frame, plan.snapshot, plan.partitions)
        if not incoming.directories:
            return _NOTHING
    staged_rows = _stage_by_own_cuts(handle, spark, incoming, plan, timer)
    if staged_rows is not None:
        return staged_rows
    with contextlib.ExitStack() as stack:
        spool, chosen, share, layout = None, None, None, None
        rows = 0 if incoming.rows is None else int(incoming.rows.sum())
        request = plan.request
        if request is None:
            plan = _measure_rows(incoming, plan, None)
        else:
            with timer.step("sample"):
                spool = _spool(stack, handle, spark, incoming, plan, request.seed)
                if spool is not None and not spool.rows:
                    return _NOTHING
                plan = _measure_rows(incoming, plan, spool)
                sample = _draw(incoming, plan, request) if spool is None else spool.draw(plan.fields)
                rows = rows or (round(float(sample.weights.sum())) if spool is None else spool.rows)
            with timer.step("fit"):
                chosen = _choose(handle, plan, request, sample, incoming)
                layout = chosen.layout
                share = predict_share(layout, sample, chosen.workload) if len(sample) else None
        with timer.step("write"):
            staged = _write(handle, spark, _Writing(incoming, layout, plan, rows, spool))
    files = _check_staged(handle, staged, layout, incoming)
    return StagedRows(files=files, staging=staged.directory, rows=staged.rows, chosen=chosen, predicted_share=share)


def _stage_by_own_cuts(
    handle: Handle, spark: SparkSession, incoming: Incoming, plan: WritePlan, timer: StepTimer
) -> StagedRows | None:
    """Write rows by the cuts of the table, in one run of their plan; None where that needs another layout."""
    from zskip.spark.write.arrow.schema import NotArrow

    layout, request = plan.layout, plan.request
    if layout is None or request is None or plan.row_size is None or incoming.rows is not None:
        return None
    row_size, rows = plan.row_size, round(plan.snapshot.bytes / plan.row_size)

    def count_files(new_rows: int) -> int:
        count: Ints = np.array([new_rows], np.int64)
        return int(files_per_partition(request, count, (count * row_size).astype(np.int64))[0])

    def write(staging: str) -> RowsWritten:
        job = _rows_job(handle, spark, incoming, plan, staging)
        return job.write_joined(layout, rows, count_files)

    try:
        with timer.step("write"):
            staged = stage_through_arrow(handle.format, handle.storage, write)
    except NotArrow:
        return None
    files = _check_staged(handle, _in_one_partition(staged), None, incoming)
    chosen = ChosenLayout(layout=layout, curve=request.curve, workload=None, fitted_to=None)
    return StagedRows(files=files, staging=staged.directory, rows=staged.rows, chosen=chosen, predicted_share=None)


def _spool(
    stack: contextlib.ExitStack, handle: Handle, spark: SparkSession, incoming: Incoming, plan: WritePlan, seed: int
) -> Spool | None:
    """Run the plan of the rows, and keep them until the stack ends; None where Arrow does not hold them."""
    from zskip.spark.jvm.compat import version
    from zskip.spark.write.arrow.schema import NotArrow

    is_guess = plan.row_size is None
    if is_guess:
        size = float(incoming.frame._jdf.schema().defaultSize())
        # Only since Spark 4.1 the bytes of a batch are limited, too.
        plan = dataclasses.replace(plan, row_size=size if version(spark) >= (4, 1) else max(size, _WIDE_ROW))
    try:
        job = dataclasses.replace(_rows_job(handle, spark, incoming, plan, ""), is_guess=is_guess)
        return stack.enter_context(job.spool(plan.fields, seed))
    except NotArrow as error:
        _log.info("%s: Spark writes the new files: %s", handle.storage.root, error.reason)
        return None


def _measure_rows(incoming: Incoming, plan: WritePlan, spool: Spool | None) -> WritePlan:
    """Learn the bytes of a row from the spool, or the first rows, where no files tell."""
    from pyspark.errors import UnsupportedOperationException

    from zskip.spark.jvm.compat import collect_arrow
    from zskip.spark.shipping import by_value
    from zskip.spark.write.arrow.rows import MEASURED, row_measurer

    if plan.row_size is not None and plan.page_rows is not None:
        return plan
    if spool is not None and spool.row_bytes is not None:
        return _with_row_size(plan, spool.row_bytes, _FIRST_ROWS, len(incoming.frame.columns) - 1)
    first = incoming.frame.drop(incoming.ordinal).limit(_FIRST_ROWS)
    sizes: list[dict[str, int]] = []
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, UnsupportedOperationException), by_value():
        measure = row_measurer(arrow_codec(plan.compression.codec))
        sizes = collect_arrow(first.mapInArrow(measure, MEASURED)).to_pylist()
    if not sizes:  # No rows, or types that Arrow does not know.
        return dataclasses.replace(plan, row_size=float(first._jdf.schema().defaultSize()), page_rows=MOST_ROWS)
    rows, size = (sum(one[name] for one in sizes) for name in ("rows", "bytes"))
    return _with_row_size(plan, size / rows, rows, len(first.columns))


def _with_row_size(plan: WritePlan, row_bytes: float, rows: int, columns: int) -> WritePlan:
    """rows: of which the bytes of a row are the mean."""
    is_zstd = plan.compression.codec == "zstd"
    return dataclasses.replace(
        plan,
        row_size=row_bytes,
        # zstd takes a column without its dictionary in as few bytes; with other codecs, large pages keep dictionaries.
        page_rows=page_rows(round(row_bytes * rows), rows, columns) if is_zstd else MOST_ROWS,
    )


def _draw(incoming: Incoming, plan: WritePlan, request: OptimizeRequest) -> Sample:
    from zskip.spark.write.draw import draw_reservoir

    return draw_reservoir(incoming.frame, plan.fields, incoming.ordinal, request.seed)


def _choose(
    handle: Handle, plan: WritePlan, request: OptimizeRequest, sample: Sample, incoming: Incoming
) -> ChosenLayout:
    """Choose the layout, and as many files as the rows are worth."""
    partition_rows = incoming.rows
    if partition_rows is None:
        partition_rows = np.rint(np.bincount(sample.partition, sample.weights, 1)).astype(np.int64)
    sizes = (partition_rows * (plan.row_size or 0.0)).astype(np.int64)
    files: Ints = files_per_partition(request, partition_rows, sizes)
    snapshot = plan.snapshot
    if incoming.rows is not None:
        # The numbers of the sample's partitions are those of the new rows.
        names, partitions = infer_partitions(incoming.directories)
        snapshot = dataclasses.replace(snapshot, partition_fields=names, partitions=partitions)
    return choose_layout(handle, snapshot, sample, files, partition_rows, request, plan.guide)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Writing:
    """What to write, and how."""

    incoming: Incoming
    layout: Layout | None
    plan: WritePlan
    rows: int
    """About how many; 0 if that does not matter."""
    spool: Spool | None
    """What holds them, if they were sampled through Arrow."""

    @property
    def is_routed(self) -> bool:
        """Whether each row has its file; else each partition of Spark is one."""
        return self.layout is not None or len(self.incoming.directories) > 1

    @property
    def page_rows(self) -> int:
        """The most rows of a page."""
        return self.plan.page_rows or MOST_ROWS


def _write(handle: Handle, spark: SparkSession, writing: _Writing) -> StagedFiles:
    """Write the rows; the number of a file is that of the layout, or without one of its Hive partition."""
    staged = stage_files(
        handle.format,
        handle.storage,
        [lambda staging: _write_through_arrow(handle, spark, writing, staging)],
        lambda staging, reason: _write_by_spark(handle, spark, writing, staging, reason),
        source=handle.storage.root,
    )
    return staged if writing.is_routed else _in_one_partition(staged)


def _in_one_partition(staged: StagedFiles) -> StagedFiles:
    """Number files by the only Hive partition."""
    return dataclasses.replace(staged, files=[(0, file) for _, file in staged.files])


def _rows_job(handle: Handle, spark: SparkSession, incoming: Incoming, plan: WritePlan, staging: str) -> ArrowRows:
    from zskip.spark.write.arrow.job import ArrowRows

    return ArrowRows(
        spark=spark,
        target=handle.storage,
        staging=staging,
        compression=plan.compression,
        page_rows=plan.page_rows or MOST_ROWS,
        frame=incoming.frame,
        ordinal=incoming.ordinal,
        row_bytes=plan.row_size or 1.0,
        stored=plan.stored,
        snapshot=plan.snapshot,
        traits=plan.traits.kept_by_arrow,
    )


def _write_through_arrow(handle: Handle, spark: SparkSession, writing: _Writing, staging: str) -> RowsWritten:
    job = _rows_job(handle, spark, writing.incoming, writing.plan, staging)
    if writing.layout is not None and writing.spool is not None:
        return job.write_spooled(writing.layout, writing.spool)
    if writing.layout is not None:
        return job.write_by_layout(writing.layout, writing.rows)
    if writing.is_routed:
        return job.write_by_partition(len(writing.incoming.directories), writing.rows)
    return job.write_in_order()


def _write_by_spark(handle: Handle, spark: SparkSession, writing: _Writing, staging: str, reason: str) -> int:
    import pyspark.sql.functions as F
    from pyspark.sql import Observation

    from zskip.spark.jvm.compat import frame_of
    from zskip.spark.schema import name_as_stored
    from zskip.spark.write.rewrite import WriteOptions, routed, write_rows, writing_session
    from zskip.spark.write.routing import route

    check_spark_writes(handle.storage.root, writing.plan.stored, reason)
    session = writing_session(spark)
    # Columns of a DataFrame may carry the ids of another table: those that the table does not store are left out.
    session.conf.set("spark.sql.parquet.fieldId.write.enabled", str(writing.plan.stored is not None).lower())
    ordinal = writing.incoming.ordinal
    frame = frame_of(session, writing.incoming.frame._jdf.queryExecution().analyzed())
    observation = Observation()
    counted = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    if writing.layout is not None:
        rows = routed(counted, ordinal, writing.layout)
    elif writing.is_routed:
        rows = route(counted, ordinal, len(writing.incoming.directories)).drop(ordinal)
    else:
        rows = counted.drop(ordinal)
    if writing.plan.stored is not None:
        rows = name_as_stored(rows, writing.plan.stored)
    options = WriteOptions(
        compression=writing.plan.compression,
        page_rows=writing.page_rows,
        bloom_filters=writing.plan.traits.bloom_filters,
    )
    write_rows(rows, handle.storage.uri(staging), options)
    return int(observation.get["rows"])


def _check_staged(
    handle: Handle, staged: StagedFiles, layout: Layout | None, incoming: Incoming
) -> tuple[StagedFile, ...]:
    """The new files that hold rows; raises ConflictError unless they hold every row that Spark has read."""
    files = [file for _, file in staged.files]
    counts = [f.rows for f in read_footers(handle.storage, [(f.path, f.size) for f in files], handle.workers)]
    partitions: Ints = np.array([number for number, _ in staged.files], np.int64)
    if layout is not None:
        partitions = layout.partition_of_file[partitions].astype(np.int64)
    written = np.bincount(partitions, counts, max(len(incoming.directories), 1)).astype(np.int64)
    if sum(counts) != staged.rows or (incoming.rows is not None and not np.array_equal(written, incoming.rows)):
        handle.format.abort(staged.directory)
        expected = staged.rows if incoming.rows is None else int(incoming.rows.sum())
        raise ConflictError(
            f"the DataFrame gave {expected} rows, but {sum(counts)} were written to "
            f'"{handle.storage.root}"; nothing was committed. If its plan gives other rows each time it runs, persist '
            "it first"
        )
    return tuple(
        StagedFile(path=file.path, directory=incoming.directories[int(partition)], size=file.size)
        for file, partition, count in zip(files, partitions.tolist(), counts, strict=True)
        if count
    )
