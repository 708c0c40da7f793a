"""The files of a snapshot as Hadoop `FileStatus` objects, in a few calls for all of them."""

from __future__ import annotations

import re

from zskip.records import Snapshot
from zskip.spark.jvm.gateway import JavaObject, Jvm

_BLOCK = 128 << 20
_PATH = "org.apache.hadoop.fs.Path"
_STATUS = "org.apache.hadoop.fs.FileStatus"


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


def file_statuses(jvm: Jvm, snapshot: Snapshot) -> JavaObject:
    """A `java.util.List` of the `FileStatus` of each file of a snapshot, in its order."""
    handles = jvm.handles
    get_long = handles.virtual("java.nio.LongBuffer", "get", "long", "int")
    get = handles.virtual("java.util.List", "get", "java.lang.Object", "int").bindTo(jvm.strings(snapshot.paths))
    status = handles.constructor(_STATUS, "long", "boolean", "int", "long", "long", _PATH)
    status = handles.feed(status, 0, get_long.bindTo(jvm.longs(snapshot.sizes)))
    status = handles.feed(status, 4, get_long.bindTo(jvm.longs(snapshot.mtimes_ms)))
    status = handles.feed(status, 5, handles.chain(get, path_maker(jvm, qualify_root(snapshot.root))))
    status = handles.bind(status, 1, False, 1, jvm.call("java.lang.Long", "valueOf")(_BLOCK))
    make = jvm.handles.int_function(handles.permute(status, _STATUS, ["int"], [0, 0, 0]))
    indices = jvm.call("java.util.stream.IntStream", "range")(0, len(snapshot))
    return jvm.collect(indices.mapToObj(make))
