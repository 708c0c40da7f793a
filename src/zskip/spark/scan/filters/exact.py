"""Partition filters decided exactly, by the code Spark itself uses for its own file index.

Spark does not apply filters that mention partition columns alone again after a scan, so a filter that we read
differently from Spark would give a wrong answer. We therefore let `PartitioningAwareFileIndex.prunePartitions`
evaluate them, over an `InMemoryFileIndex` that is given our partitions and has nothing to list.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from zskip.records import Bools
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.scan.filters.catalyst import Handed
from zskip.spark.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_JOINED = "org.apache.spark.sql.catalyst.expressions.JoinedRow"
_GENERIC = "org.apache.spark.sql.catalyst.expressions.GenericInternalRow"
_SOURCES = "org.apache.spark.sql.execution.datasources"
_LIST = "java.util.List"


class PartitionFilter:
    """Evaluates partition filters over all partitions of a table; made once, used by any number of scans."""

    def __init__(self, spark: SparkSession, schema: TableSchema) -> None:
        self._spark = spark
        self._schema = schema
        self._lock = threading.Lock()
        self._native: JavaObject = None

    def matching(self, filters: JavaObject) -> Bools:
        """(partitions,) mask of the partitions for which all of the filters are true.

        filters: Scala Seq of Catalyst expressions over partition columns. Raises what Spark raises in evaluating
        them.
        """
        jvm = Jvm.of(self._spark)
        with self._lock:
            if self._native is None:
                self._native = self._index(jvm)
        expressions = filters.java if isinstance(filters, Handed) else filters
        found = jvm.to_list(self._native.listFiles(expressions, jvm.seq_of()))
        width = len(self._schema.snapshot.partition_fields)
        ordinal = jvm.once(f"ordinal {width}", lambda: jvm.handles.function(_ordinal(jvm, width)))
        mask = np.zeros(len(self._schema.snapshot.partitions), np.bool_)
        mask[np.array(jvm.read(jvm.map(found, ordinal)), np.int64)] = True
        return mask

    def _index(self, jvm: Jvm) -> JavaObject:
        """An `InMemoryFileIndex` without paths, whose partition rows end in the partition's ordinal."""
        make = jvm.once("partition_path", lambda: _partition_path(jvm))
        path = jvm.find("org.apache.hadoop.fs.Path")("/")
        bound = jvm.handles.int_function(jvm.handles.bind(make, 0, path, self._schema.rows))
        indices = jvm.call("java.util.stream.IntStream", "range")(0, len(self._schema.snapshot.partitions))
        paths = jvm.seq(jvm.collect(indices.mapToObj(bound)))
        spec = jvm.find(f"{_SOURCES}.PartitionSpec")(self._schema.partition, paths)
        return jvm.find(f"{_SOURCES}.InMemoryFileIndex")(
            self._spark._jsparkSession,
            jvm.seq_of(),
            jvm.empty_map,
            jvm.none,
            jvm.module(f"{_SOURCES}.NoopCache"),
            jvm.some(spec),
            jvm.none,
        )


def _partition_path(jvm: Jvm) -> JavaObject:
    """(path, rows, i) -> PartitionPath of the i-th row with i behind its last value."""
    handles = jvm.handles
    number = handles.constructor(_GENERIC, "java.lang.Object[]").asCollector(jvm.class_of("java.lang.Object[]"), 1)
    number = number.asType(handles.type(_ROW, "int"))
    row = handles.virtual(_LIST, "get", "java.lang.Object", "int").asType(handles.type(_ROW, _LIST, "int"))
    joined = handles.constructor(_JOINED, _ROW, _ROW)
    joined = handles.feed(handles.feed(joined, 1, number), 0, row).asType(handles.type(_ROW, _LIST, "int", "int"))
    path = "org.apache.hadoop.fs.Path"
    made = handles.constructor(f"{_SOURCES}.PartitionPath", _ROW, path)
    made = handles.feed(made, 0, joined)  # (rows, i, i, path)
    return handles.permute(made, f"{_SOURCES}.PartitionPath", [path, _LIST, "int"], [1, 2, 2, 0])


def _ordinal(jvm: Jvm, width: int) -> JavaObject:
    handles = jvm.handles
    values = handles.virtual(f"{_SOURCES}.PartitionDirectory", "values", _ROW)
    return handles.chain(values, handles.bind(handles.virtual(_ROW, "getInt", "int", "int"), 1, width))
