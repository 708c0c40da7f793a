"""A table's reader, and its live files, with Spark's own columns and partition values where there is a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zskip.formats import MetadataReader
from zskip.records import Snapshot
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from zskip.spark.collect.statistics import FilePositions
    from zskip.spark.formats import Reader


def open_reader(handle: Handle) -> Reader:
    """The table's reader, for the version that is current at its first question; needs a session."""
    from zskip.spark import formats

    return formats.open_reader(handle.need_spark("this"), handle.format, handle.storage, handle.catalog_table)


def open_metadata(handle: Handle) -> MetadataReader | Reader:
    """The table's reader, or without a session what its metadata tells."""
    return MetadataReader(handle.format) if handle.spark is None else open_reader(handle)


def read_snapshot(handle: Handle) -> Snapshot:
    """List the live files."""
    return open_metadata(handle).snapshot


def file_positions(handle: Handle, snapshot: Snapshot) -> FilePositions:
    """The numbers of a snapshot's files by the names that Spark gives them."""
    from zskip.spark.collect.statistics import FilePositions

    return FilePositions([handle.storage.uri(path) for path in snapshot.paths])
