"""The reader of Hudi tables: zskip's where files hold the rows, else Hudi's, which merges log files into them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from zskip.formats import HudiFormat
from zskip.formats.hudi.values import drop_widened_floats
from zskip.records import Snapshot
from zskip.spark.formats.hudi.bundle import is_loaded
from zskip.spark.formats.hudi.commits import HudiEngine
from zskip.spark.formats.reader import Reader
from zskip.spark.forms import free_name
from zskip.spark.jvm.compat import frame_of_rows
from zskip.spark.jvm.compiled.janino import new_instance
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.jvm.statuses import qualify_root
from zskip.spark.scan.relation import Pruning, partition_columns, prune_listing
from zskip.spark.schema import free_ordinal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DIRECTORY = "_hoodie_partition_path"


class HudiReader(Reader):
    """Reads a Hudi table; file groups with log files through Hudi's bundle."""

    _table: HudiFormat

    @cached_property
    def engine(self) -> HudiEngine:
        """Hudi, which alone writes the columns that it adds to each row."""
        return HudiEngine(self._spark, self._table)

    @property
    def _has_changes(self) -> bool:
        return self.snapshot.reading.changed is not None

    def check(self) -> None:
        """Raise UnsupportedError where log files change rows, and the session lacks the bundle that applies them."""
        if not is_loaded(self._spark):
            super().check()

    def frame(self, prune: Callable[[Snapshot], Pruning]) -> DataFrame:
        """The rows as users see them, of which each query reads the files that its filters leave."""
        self.check()
        return self._prune_whole(prune) if self._has_changes else super().frame(prune)

    def _prune_whole(self, prune: Callable[[Snapshot], Pruning]) -> DataFrame:
        snapshot, whole = self.snapshot, self.whole()
        segments, partitions = prune(snapshot).index.segments, partition_columns(whole)
        fields = [field for field in snapshot.fields if field.name.lower() not in partitions]
        known = drop_widened_floats(fields, [segment.reader.segment for segment in segments])
        return prune_listing(self._spark, whole, prune(dataclasses.replace(snapshot, fields=known)))

    def whole(self) -> DataFrame:
        """The rows as users see them, by Hudi where the session has it."""
        if not is_loaded(self._spark):
            return super().whole()
        snapshot = self.snapshot
        version = self._read_uncached().format("hudi").option("as.of.instant", str(snapshot.version))
        return version.load(snapshot.root)

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows of the files, with those of their log files, and the number of each row's partition.

        All columns come from the files, those of partitions too.
        """
        from pyspark.sql import DataFrame

        if not self._has_changes:
            return super().live_rows(session)
        jvm, snapshot, schema = Jvm.of(session), self.snapshot, self.schema
        plan = session.read.format("hudi").load(snapshot.root)._jdf.queryExecution().analyzed()
        relation = plan.collectLeaves().apply(0).relation()
        paths = jvm.strings(snapshot.paths)
        chosen = jvm.find("org.apache.spark.sql.execution.datasources.HadoopFsRelation")(
            new_instance(jvm, "ChosenFiles", relation.location(), qualify_root(snapshot.root), paths),
            schema.partition,
            schema.data,
            jvm.none,
            relation.fileFormat(),
            relation.options(),
            session._jsparkSession,
        )
        frame = DataFrame(session._jsparkSession.baseRelationToDataFrame(chosen), session)
        # A union has no `_metadata`: Hudi's reader promises the rows' numbers in their files, and does not keep it.
        return _add_partition_numbers(frame.unionAll(frame.limit(0)), snapshot)


def _add_partition_numbers(frame: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Add a column with the number of each row's partition."""
    import pyspark.sql.functions as F

    partitions, ordinal = np.unique(snapshot.partition_of).tolist(), free_ordinal(frame.columns)
    if len(partitions) == 1:
        return frame.withColumn(ordinal, F.lit(partitions[0]))
    rows = [(snapshot.partitions[i].directory, i) for i in partitions]
    directory = free_name("__zskip_directory", frame.columns)
    numbers = frame_of_rows(frame.sparkSession, rows, f"{directory} string, {ordinal} int")
    return frame.join(F.broadcast(numbers), frame[_DIRECTORY] == numbers[directory]).drop(directory)
