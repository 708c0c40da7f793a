"""A table's live files, with Spark's own columns and partition values where there is a session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zskip.errors import UnsupportedError
from zskip.records import Snapshot
from zskip.table.handle import Handle

if TYPE_CHECKING:
    from zskip.spark.collect.statistics import FilePositions
    from zskip.spark.schema import TableSchema

_TRIES = 5
_log = logging.getLogger("zskip")


def read_snapshot(handle: Handle) -> Snapshot:
    """List the live files."""
    return handle.format.snapshot() if handle.spark is None else read_table_schema(handle).snapshot


def read_table_schema(handle: Handle) -> TableSchema:
    """List the live files as Spark sees them; needs a session."""
    from zskip.spark.schema import read_schema

    spark = handle.need_spark("this")
    for tries_left in reversed(range(_TRIES)):
        snapshot = handle.format.snapshot()
        try:
            return read_schema(spark, snapshot)
        except Exception as error:
            # Plain Parquet deletes a file as soon as it is replaced, even while Spark reads its footer.
            if not tries_left or handle.format.snapshot().paths == snapshot.paths:
                raise
            _log.info("%s changed while its schema was read (%s); reading it again", snapshot.root, error)
    raise AssertionError("not reached")


def check_files_are_rows(snapshot: Snapshot) -> None:
    """Raise UnsupportedError where the files of a snapshot alone do not say which rows the table has."""
    if snapshot.altered is not None and snapshot.altered.any():
        raise UnsupportedError(
            f'{int(snapshot.altered.sum()):,} of the {len(snapshot):,} files of "{snapshot.root}" have changes in log '
            "files beside them, which only Hudi's own reader applies; compact it (CALL run_compaction), or read it "
            'with spark.read.format("hudi"); files() and explain() work'
        )


def file_positions(handle: Handle, snapshot: Snapshot) -> FilePositions:
    """The numbers of a snapshot's files by the names that Spark gives them."""
    from zskip.spark.collect.statistics import FilePositions

    return FilePositions([handle.storage.uri(path) for path in snapshot.paths])
