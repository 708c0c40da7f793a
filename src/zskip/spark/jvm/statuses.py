"""The files of a snapshot as Hadoop `FileStatus` objects, all created in a few calls."""

from __future__ import annotations

import re

import numpy as np

from zskip.records import Bools, Ints, Snapshot
from zskip.spark.jvm.gateway import JavaObject, Jvm

_BLOCK = 128 << 20
_PATH = "org.apache.hadoop.fs.Path"
_STATUS = "org.apache.hadoop.fs.FileStatus"
_LIST = "java.util.List"
_INTS = "java.nio.IntBuffer"
_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_DIRECTORY = "org.apache.spark.sql.execution.datasources.PartitionDirectory"


def qualify_root(root: str) -> str:
    """A table's root as Hadoop's `Path` accepts it, unescaped and spelled as in Spark's own listings.

    >>> qualify_root("/data/a b"), qualify_root("file:/data"), qualify_root("hdfs://nn/data")
    ('file:///data/a b', 'file:///data', 'hdfs://nn/data')
    """
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*):/(?!/)", r"\1:///", f"file:{root}" if root.startswith("/") else root)


def path_maker(jvm: Jvm, root: str) -> JavaObject:
    """A handle that turns a path relative to the root into a Hadoop `Path`.

    `Path` has no escapes: names may contain blanks, `%`, `#` and line breaks, as in Spark's own listings.
    """
    handles = jvm.handles
    concat = handles.virtual("java.lang.String", "concat", "java.lang.String", "java.lang.String")
    absolute = concat.bindTo(root.rstrip("/") + "/")
    return handles.chain(absolute, handles.constructor(_PATH, "java.lang.String"))


class FileStatuses:
    """The files of a snapshot in the JVM, ordered by partition."""

    def __init__(self, jvm: Jvm, snapshot: Snapshot, rows: JavaObject) -> None:
        """rows: `java.util.List` of one InternalRow per partition."""
        self._jvm = jvm
        self._rows = rows
        self._partition_of = snapshot.partition_of
        self._order: Ints = np.argsort(snapshot.partition_of, kind="stable")
        paths = [snapshot.paths[i] for i in self._order.tolist()]
        self._make = jvm.handles.int_function(
            _status_maker(jvm, snapshot.root, paths, snapshot.sizes[self._order], snapshot.mtimes_ms[self._order])
        )

    def select(self, keep: Bools) -> JavaObject:
        """A `FileStatus[]` of the kept files, in the order of their partitions.

        keep: (files,) mask.
        """
        array = self._jvm.once("FileStatus[]", lambda: self._jvm.handles.array_maker(f"{_STATUS}[]"))
        return self._stream(keep).toArray(array)

    def everything(self) -> JavaObject:
        """A `java.util.List` of all files' `FileStatus`."""
        return self._jvm.collect(self._stream(np.ones(len(self._order), np.bool_)))

    def _stream(self, keep: Bools) -> JavaObject:
        return self._jvm.bits(keep[self._order]).stream().mapToObj(self._make)

    def directories(self, keep: Bools) -> JavaObject:
        """A Scala Seq of one `PartitionDirectory` per partition with a kept file.

        keep: (files,) mask.
        """
        jvm = self._jvm
        counts = np.bincount(self._partition_of[keep], minlength=1)
        partitions = np.flatnonzero(counts)
        statuses = self.select(keep)
        if len(partitions) == 1:
            apply = jvm.call(_DIRECTORY, "apply")
            return jvm.seq_of(apply(self._rows.get(int(partitions[0])), statuses))
        ends = np.cumsum(counts[partitions])
        make = jvm.once("directory", lambda: _directory_maker(jvm))
        buffers = (jvm.ints(partitions), jvm.ints(ends - counts[partitions]), jvm.ints(ends))
        bound = jvm.handles.bind(make, 0, self._rows, statuses, *buffers)
        indices = jvm.call("java.util.stream.IntStream", "range")(0, len(partitions))
        return jvm.seq(jvm.collect(indices.mapToObj(jvm.handles.int_function(bound))))

    def uris(self) -> JavaObject:
        """A `String[]` of all files' URIs, escaped as in `DataFrame.inputFiles`."""
        jvm = self._jvm
        uri = jvm.once("uri_of", lambda: jvm.handles.function(_uri_of(jvm)))
        strings = jvm.once("String[]", lambda: jvm.handles.array_maker("java.lang.String[]"))
        return self._stream(np.ones(len(self._order), np.bool_)).map(uri).toArray(strings)


def _uri_of(jvm: Jvm) -> JavaObject:
    handles = jvm.handles
    path = handles.virtual(_STATUS, "getPath", _PATH)
    uri = handles.virtual(_PATH, "toUri", "java.net.URI")
    return handles.chain(path, uri, handles.virtual("java.net.URI", "toString", "java.lang.String"))


def _status_maker(jvm: Jvm, root: str, paths: list[str], sizes: Ints, mtimes_ms: Ints) -> JavaObject:
    """A handle from the index of a file to its FileStatus."""
    handles = jvm.handles
    get_long = handles.virtual("java.nio.LongBuffer", "get", "long", "int")
    get = handles.virtual(_LIST, "get", "java.lang.Object", "int").bindTo(jvm.strings(paths))
    path = handles.chain(get, path_maker(jvm, qualify_root(root)))
    status = handles.constructor(_STATUS, "long", "boolean", "int", "long", "long", _PATH)
    status = handles.feed(status, 0, get_long.bindTo(jvm.longs(sizes)))
    status = handles.feed(status, 4, get_long.bindTo(jvm.longs(mtimes_ms)))
    status = handles.feed(status, 5, path)
    block = jvm.call("java.lang.Long", "valueOf")(_BLOCK)
    status = handles.bind(status, 1, False, 1, block)
    return handles.permute(status, _STATUS, ["int"], [0, 0, 0])


def _directory_maker(jvm: Jvm) -> JavaObject:
    """(rows, statuses, partitions, starts, ends, k) -> the k-th PartitionDirectory."""
    handles = jvm.handles
    statuses, objects = f"{_STATUS}[]", "java.lang.Object[]"
    get = handles.virtual(_INTS, "get", "int", "int")
    row = handles.virtual(_LIST, "get", "java.lang.Object", "int").asType(handles.type(_ROW, _LIST, "int"))
    copy = handles.static("java.util.Arrays", "copyOfRange", objects, objects, "int", "int")
    copy = copy.asType(handles.type(statuses, statuses, "int", "int"))
    directory = handles.static(_DIRECTORY, "apply", _DIRECTORY, _ROW, statuses)
    directory = handles.feed(directory, 1, copy)  # (row, statuses, start, end)
    directory = handles.feed(directory, 0, row)  # (rows, partition, statuses, start, end)
    for position in (4, 3, 1):
        directory = handles.feed(directory, position, get)
    # (rows, partitions, k, statuses, starts, k, ends, k)
    return handles.permute(
        directory, _DIRECTORY, [_LIST, statuses, _INTS, _INTS, _INTS, "int"], [0, 2, 5, 1, 3, 5, 4, 5]
    )
