"""The files of a snapshot as Hadoop `FileStatus` objects, in a few calls for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zskip.records import Snapshot
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.gateway import JavaObject, Jvm


def qualify_root(root: str) -> str:
    """A table's root as Hadoop's `Path` accepts it, unescaped and spelled as in Spark's own listings.

    >>> qualify_root("/data/a b"), qualify_root("file:/data"), qualify_root("hdfs://nn/data")
    ('file:///data/a b', 'file:///data', 'hdfs://nn/data')
    """
    return re.sub(r"^([A-Za-z][A-Za-z0-9+.-]*):/(?!/)", r"\1:///", f"file:{root}" if root.startswith("/") else root)


def file_paths(jvm: Jvm, root: str, paths: Sequence[str]) -> JavaObject:
    """A `java.util.List` of Hadoop's `Path` of each path relative to a root."""
    return invoke(jvm, singleton(jvm, "Statuses"), "paths", qualify_root(root), jvm.strings(paths))


def file_statuses(jvm: Jvm, snapshot: Snapshot) -> JavaObject:
    """A `java.util.List` of the `FileStatus` of each file of a snapshot, in its order."""
    numbers = jvm.longs(snapshot.sizes), jvm.longs(snapshot.mtimes_ms)
    paths = jvm.strings(snapshot.paths)
    return invoke(jvm, singleton(jvm, "Statuses"), "of", qualify_root(snapshot.root), paths, *numbers)
