"""Write the rows of a DataFrame, placed by a layout, into a staging directory, from which a format commits them.

partitions -> rows and a sample to disk -> layout -> write through Arrow -> check the rows of each partition
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
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
from zskip.records import Field, Ints, Sample, Snapshot
from zskip.spark.schema import guess_row_bytes
from zskip.spark.write.staging import StagedFiles, check_spark_writes, stage_files, stage_through_arrow
from zskip.table.advice.choose_layout import ChosenLayout, choose_layout
from zskip.table.handle import Handle
from zskip.table.optimize_request import OptimizeRequest, files_per_partition
from zskip.table.step_timer import StepTimer
from zskip.table.write.incoming import Incoming, number_partitions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.write.arrow.job import ArrowRows, RowsWritten
    from zskip.spark.write.arrow.spool import Spool

_log = logging.getLogger("zskip")
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
    rules: RowRules
    row_size: float | None = None
    """Bytes of a row; None where only the rows tell."""
    compression: Compression
    page_rows: int | None = None
    """The most rows of a page; None where only the rows tell."""
    traits: FileTraits = NO_TRAITS
    """What the table's files have beside rows."""
    layout: Layout | None = None
    """That of the table's files, by which new rows can be placed without a sample; None where there is none."""
    guide: Layout | None = None
    """The same, also where only a sample tells how new rows lie in it."""
    long_term_file_size: int | None = None
    """Bytes of the table's files, whatever the request says of the new ones."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StagedRows:
    """Rows in a staging directory, ready to be committed."""

    files: tuple[StagedFile, ...] = ()
    staging: str | None = None
    """Their directory; None without rows."""
    rows: int = 0
    chosen: ChosenLayout | None = None
    """None for rows in input order."""
    predicted_share: float | None = None
    """Mean share of these rows (0 to 1) that a query reads."""


def stage_rows(handle: Handle, frame: DataFrame, plan: WritePlan, timer: StepTimer) -> StagedRows:
    """Write all rows of a DataFrame that has the columns of the table, partition columns last.

    Raises ConflictError if the new files do not hold the rows that Spark has read.
    """
    from zskip.spark.write.arrow.job import rows_session

    spark = handle.need_session("a write")
    with timer.step("partitions"):
        incoming = number_partitions(rows_session(spark), frame, plan.snapshot, plan.rules.partitions)
        if not incoming.directories:
            return StagedRows()
    new_rows = _NewRows(handle, spark, incoming, plan)
    staged_rows = new_rows.stage_by_own_cuts(timer)
    if staged_rows is not None:
        return staged_rows
    with contextlib.ExitStack() as stack:
        spool, chosen, share = None, None, None
        rows = 0 if incoming.rows is None else int(incoming.rows.sum())
        if plan.request is None:
            new_rows = new_rows.measure(None)
        else:
            with timer.step("sample"):
                spool = new_rows.spool(stack, plan.request.seed)
                if spool is not None and not spool.rows:
                    return StagedRows()
                new_rows = new_rows.measure(spool)
                sample = new_rows.draw(plan.request.seed) if spool is None else spool.draw(plan.fields)
                rows = rows or (round(float(sample.weights.sum())) if spool is None else spool.rows)
            with timer.step("fit"):
                chosen = new_rows.choose_layout(plan.request, sample)
                share = predict_share(chosen.layout, sample, chosen.workload) if len(sample) else None
        with timer.step("write"):
            layout = None if chosen is None else chosen.layout
            staged = new_rows.write(layout, rows, spool)
    files = new_rows.check_staged(staged, layout)
    return StagedRows(files=files, staging=staged.directory, rows=staged.rows, chosen=chosen, predicted_share=share)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _NewRows:
    """Rows on their way into files, and how they are written."""

    handle: Handle
    spark: SparkSession
    incoming: Incoming
    plan: WritePlan

    @property
    def page_rows(self) -> int:
        """The most rows of a page."""
        return self.plan.page_rows or MOST_ROWS

    def stage_by_own_cuts(self, timer: StepTimer) -> StagedRows | None:
        """Write rows by the cuts of the table, in one run of their plan; None where that needs another layout."""
        from zskip.spark.write.arrow.schema import NotArrow

        plan, handle = self.plan, self.handle
        layout, request, row_size = plan.layout, plan.request, plan.row_size
        if layout is None or request is None or row_size is None or self.incoming.rows is not None:
            return None

        def count_files(new_rows: int) -> int:
            count: Ints = np.array([new_rows], np.int64)
            return int(files_per_partition(request, count, (count * row_size).astype(np.int64))[0])

        def write(staging: str) -> RowsWritten:
            return self.job(staging).write_joined(layout, round(plan.snapshot.bytes / row_size), count_files)

        try:
            with timer.step("write"):
                staged = stage_through_arrow(handle.format, handle.storage, write)
        except NotArrow:
            return None
        files = self.check_staged(_in_one_partition(staged), None)
        chosen = ChosenLayout(layout=layout, curve=request.curve, workload=None, fitted_to=None)
        return StagedRows(files=files, staging=staged.directory, rows=staged.rows, chosen=chosen)

    def spool(self, stack: contextlib.ExitStack, seed: int) -> Spool | None:
        """Run the plan of the rows, and keep them until the stack ends; None where Arrow does not hold them."""
        from zskip.spark.jvm.compat import version
        from zskip.spark.write.arrow.schema import NotArrow

        guess = self.plan.row_size
        if guess is None:
            size = guess_row_bytes(self.incoming.frame)
            # Only since Spark 4.1 the bytes of a batch are limited, too.
            guess = size if version(self.spark) >= (4, 1) else max(size, _WIDE_ROW)
        try:
            job = dataclasses.replace(self.job(""), row_bytes=guess, is_guess=self.plan.row_size is None)
            return stack.enter_context(job.spool(self.plan.fields, seed))
        except NotArrow as error:
            _log.info("%s: Spark writes the new files: %s", self.handle.storage.root, error.reason)
            return None

    def measure(self, spool: Spool | None) -> _NewRows:
        """Learn the bytes of a row from the spool, or the first rows, where no files tell."""
        from pyspark.errors import UnsupportedOperationException

        from zskip.spark.jvm.compat import collect_arrow
        from zskip.spark.shipping import ship
        from zskip.spark.write.arrow.rows import MEASURED, row_measurer

        plan, codec = self.plan, self.plan.compression.codec
        if plan.row_size is not None and plan.page_rows is not None:
            return self
        first = self.incoming.frame.drop(self.incoming.ordinal).limit(_FIRST_ROWS)
        if spool is not None and spool.row_bytes is not None:
            rows, row_bytes = _FIRST_ROWS, spool.row_bytes
        else:
            sizes, unknown = list[dict[str, int]](), (pa.ArrowException, TypeError, ValueError)
            with contextlib.suppress(*unknown, UnsupportedOperationException):
                measured = first.mapInArrow(ship(row_measurer(arrow_codec(codec))), MEASURED)
                sizes = collect_arrow(measured).to_pylist()
            rows = sum(one["rows"] for one in sizes)
            if not rows:  # Or types that Arrow does not know.
                size = guess_row_bytes(first)
                return dataclasses.replace(self, plan=dataclasses.replace(plan, row_size=size, page_rows=MOST_ROWS))
            row_bytes = sum(one["bytes"] for one in sizes) / rows
        # zstd takes a column without its dictionary in as few bytes; with other codecs, large pages keep dictionaries.
        most = page_rows(round(row_bytes * rows), rows, len(first.columns)) if codec == "zstd" else MOST_ROWS
        return dataclasses.replace(self, plan=dataclasses.replace(plan, row_size=row_bytes, page_rows=most))

    def draw(self, seed: int) -> Sample:
        """Draw a sample of the keys where Arrow does not hold the rows."""
        from zskip.spark.write.draw import draw_reservoir

        return draw_reservoir(self.incoming.frame, self.plan.fields, self.incoming.ordinal, seed)

    def choose_layout(self, request: OptimizeRequest, sample: Sample) -> ChosenLayout:
        """Choose the layout, and as many files as the rows are worth."""
        partition_rows, snapshot = self.incoming.rows, self.plan.snapshot
        if partition_rows is None:
            partition_rows = np.rint(np.bincount(sample.partition, sample.weights, 1)).astype(np.int64)
        else:
            # The numbers of the sample's partitions are those of the new rows.
            names, partitions = infer_partitions(self.incoming.directories)
            snapshot = dataclasses.replace(snapshot, partition_fields=names, partitions=partitions)
        sizes = (partition_rows * (self.plan.row_size or 0.0)).astype(np.int64)
        files: Ints = files_per_partition(request, partition_rows, sizes)
        return choose_layout(self.handle, snapshot, sample, files, partition_rows, request, self.plan.guide)

    def job(self, staging: str) -> ArrowRows:
        """Their write through Arrow."""
        from zskip.spark.write.arrow.job import ArrowRows

        return ArrowRows(
            spark=self.spark,
            target=self.handle.storage,
            staging=staging,
            compression=self.plan.compression,
            page_rows=self.page_rows,
            frame=self.incoming.frame,
            ordinal=self.incoming.ordinal,
            row_bytes=self.plan.row_size or 1.0,
            stored=self.plan.rules.stored,
            snapshot=self.plan.snapshot,
            traits=self.plan.traits.kept_by_arrow,
        )

    def write(self, layout: Layout | None, rows: int, spool: Spool | None) -> StagedFiles:
        """Write the rows; the number of a file is that of the layout, or without one of its Hive partition.

        rows: about how many; spool: what holds them, if they were sampled through Arrow.
        """
        partitions = len(self.incoming.directories)

        def write_through_arrow(staging: str) -> RowsWritten:
            job = self.job(staging)
            if layout is not None:
                return job.write_by_layout(layout, rows) if spool is None else job.write_spooled(layout, spool)
            return job.write_by_partition(partitions, rows) if partitions > 1 else job.write_in_order()

        staged = stage_files(
            self.spark,
            self.handle.format,
            self.handle.storage,
            [write_through_arrow],
            lambda staging, reason: self._write_by_spark(layout, staging, reason),
            source=self.handle.storage.root,
        )
        return staged if layout is not None or partitions > 1 else _in_one_partition(staged)

    def _write_by_spark(self, layout: Layout | None, staging: str, reason: str) -> int:
        import pyspark.sql.functions as F
        from pyspark.sql import Observation

        from zskip.spark.jvm.compat import in_session
        from zskip.spark.schema import name_as_stored
        from zskip.spark.write.rewrite import WriteOptions, routed, write_rows, writing_session
        from zskip.spark.write.routing import route

        stored, ordinal = self.plan.rules.stored, self.incoming.ordinal
        check_spark_writes(self.handle.storage.root, stored, reason)
        session = writing_session(self.spark)
        # Columns of a DataFrame may carry the ids of another table: those that the table does not store are left out.
        session.conf.set("spark.sql.parquet.fieldId.write.enabled", str(stored is not None).lower())
        frame = in_session(self.incoming.frame, session)
        observation, partitions = Observation(), len(self.incoming.directories)
        rows = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
        if layout is not None:
            rows = routed(rows, ordinal, layout)
        else:
            rows = (route(rows, ordinal, partitions) if partitions > 1 else rows).drop(ordinal)
        if stored is not None:
            rows = name_as_stored(rows, stored)
        options = WriteOptions(
            compression=self.plan.compression,
            page_rows=self.page_rows,
            bloom_filters=self.plan.traits.bloom_filters,
        )
        write_rows(rows, self.handle.storage.uri(staging), options)
        return int(observation.get["rows"])

    def check_staged(self, staged: StagedFiles, layout: Layout | None) -> tuple[StagedFile, ...]:
        """The new files that hold rows; raises ConflictError unless they hold every row that Spark has read."""
        handle, incoming = self.handle, self.incoming
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
                f'"{handle.storage.root}"; nothing was committed. If its plan gives other rows each time it runs, '
                "persist it first"
            )
        return tuple(
            StagedFile(path=file.path, directory=incoming.directories[int(partition)], size=file.size)
            for file, partition, count in zip(files, partitions.tolist(), counts, strict=True)
            if count
        )


def _in_one_partition(staged: StagedFiles) -> StagedFiles:
    """Number files by the only Hive partition."""
    return dataclasses.replace(staged, files=[(0, file) for _, file in staged.files])
