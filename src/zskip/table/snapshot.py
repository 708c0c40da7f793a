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
    from zskip.spark.engines import add_stored_reader
    from zskip.spark.schema import read_schema

    spark = handle.need_spark("this")
    for tries_left in reversed(range(_TRIES)):
        snapshot = handle.format.snapshot()
        try:
            schema = read_schema(spark, snapshot)
            if snapshot.reader is None or snapshot.opaque:
                return schema
            return add_stored_reader(spark, handle.format, schema)
        except Exception as error:
            # Plain Parquet deletes a file as soon as it is replaced, even while Spark reads its footer.
            if not tries_left or handle.format.snapshot().paths == snapshot.paths:
                raise
            _log.info("%s changed while its schema was read (%s); reading it again", snapshot.root, error)
    raise AssertionError("not reached")


def check_rows_readable(handle: Handle, snapshot: Snapshot) -> None:
    """Raise UnsupportedError where other files change rows, and the session lacks the reader that applies them."""
    if snapshot.altered is None:
        return
    from zskip.spark.engines import has_own_reader

    if not has_own_reader(handle.spark, handle.format.name):
        raise UnsupportedError(
            f'{int(snapshot.altered.sum()):,} of the {len(snapshot):,} files of "{snapshot.root}" have changes in log '
            "files beside them, which only Hudi's own reader applies; open the table in a session that has loaded "
            "Hudi's bundle, or compact it (CALL run_compaction); explain() works"
        )


def file_positions(handle: Handle, snapshot: Snapshot) -> FilePositions:
    """The numbers of a snapshot's files by the names that Spark gives them."""
    from zskip.spark.collect.statistics import FilePositions

    return FilePositions([handle.storage.uri(path) for path in snapshot.paths])
