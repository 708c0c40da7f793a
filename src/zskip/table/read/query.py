"""The query side, on one page: a DataFrame over pruned files, and the list of those files.

    snapshot -> bind the index to its files -> (for each query) predicate -> prune -> the files to read

`open_frame` hands this line to Spark, which calls it with the filters of each scan (`spark/scan/rule/bound_files.py`);
`prune_files` runs it once, without Spark. A predicate or index that cannot be used keeps its files.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from zskip.advisor.workload.predicate_text import text_of
from zskip.errors import UnsupportedError, ZskipWarning
from zskip.formats.hudi.values import drop_widened_floats
from zskip.formats.schema import fields_from_json
from zskip.index import BoundIndex, prune_row_groups
from zskip.records import Bools, PruneResult, ScanReport, Snapshot
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.predicates import read_where
from zskip.table.read.kept_file import KeptFile
from zskip.table.read.whole_table import read_by_engine, read_by_name
from zskip.table.session import is_case_sensitive
from zskip.table.snapshot import check_rows_readable, read_snapshot, read_table_schema
from zskip.table.workload.recording import home_of, recorder, scan_listener
from zskip.types import read_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.jvm.catalog import NamedTable
    from zskip.spark.scan.relation import Pruning
    from zskip.spark.scan.rule.bound_files import OnFilters


def open_frame(handle: Handle, on_scan: Callable[[ScanReport], None], *, recorded: bool = False) -> DataFrame:
    """A DataFrame over the files that are live now, of which each query reads those that its filters leave.

    recorded: whether its scans belong to the workload.
    Tables that only the format's own reader reads rightly are read by it, if the session has it; that costs a warning.
    """
    spark = handle.need_spark("df()")
    from zskip.spark.engines import read_whole
    from zskip.spark.scan.relation import scan

    try:
        schema = read_table_schema(handle)
    except UnsupportedError as error:
        return read_by_engine(handle, error)
    snapshot = schema.snapshot
    check_rows_readable(handle, snapshot)
    if snapshot.altered is not None:
        whole = read_whole(spark, handle.format.name, snapshot)
        assert whole is not None, "it was checked"
        return _prune_listing(handle, whole, snapshot, on_scan, recorded=recorded)
    if snapshot.reader is not None and handle.catalog is not None:
        whole = read_by_name(handle)
        return _prune_listing(handle, whole, as_read(snapshot, whole), on_scan, recorded=recorded)
    if snapshot.reader is not None:
        whole = read_whole(spark, handle.format.name, snapshot)
        if whole is None:
            raise UnsupportedError(f'"{snapshot.root}" uses {snapshot.reader}, and the session has no reader for it')
        return whole if snapshot.opaque else _prune_listing(handle, whole, snapshot, on_scan, recorded=recorded)
    if handle.catalog_table is not None and not _as_named(spark, handle.catalog_table, snapshot):
        warnings.warn(
            f"{handle.catalog_table.sql} has other columns in the catalog than its files have: it is read as the "
            "catalog says, without the index unless zskip.enable(spark) is on",
            ZskipWarning,
            stacklevel=4,
        )
        return spark.table(handle.catalog_table.sql)
    return scan(spark, schema, _pruning(handle, snapshot, on_scan, recorded=recorded))


def _pruning(handle: Handle, snapshot: Snapshot, on_scan: Callable[[ScanReport], None], *, recorded: bool) -> Pruning:
    from zskip.spark.scan.relation import Pruning

    return Pruning(
        index=bind_index(handle, snapshot),
        case_sensitive=is_case_sensitive(handle),
        on_scan=on_scan,
        on_filters=recording(handle, snapshot) if recorded else None,
    )


def _prune_listing(
    handle: Handle, whole: DataFrame, snapshot: Snapshot, on_scan: Callable[[ScanReport], None], *, recorded: bool
) -> DataFrame:
    """A DataFrame over the files that the format's own reader lists; other files change or delete rows of some."""
    from zskip.spark.scan.relation import partition_columns, prune_listing

    fields = snapshot.fields
    if handle.format.name == "hudi":
        segments = [segment.reader.segment for segment in bind_index(handle, snapshot).segments]
        partitions = partition_columns(whole)
        fields = drop_widened_floats([f for f in fields if f.name.lower() not in partitions], segments)
    pruning = _pruning(handle, replace(snapshot, fields=fields), on_scan, recorded=recorded)
    return prune_listing(handle.need_spark("df()"), whole, pruning)


def as_read(snapshot: Snapshot, whole: DataFrame) -> Snapshot:
    """The snapshot with the columns of Iceberg's reader; those that it gives in another form are not bound to files."""
    fields, ids = fields_from_json(whole.schema.json()), snapshot.column_ids
    assert ids is not None, "Iceberg's columns have ids"
    stored = {field.name: field.type for field in snapshot.fields}
    same = {field.name for field in fields if stored.get(field.name) == field.type}
    return replace(
        snapshot,
        fields=fields,
        column_ids=replace(ids, ids={path: i for path, i in ids.ids.items() if path[0] in same}),
    )


def recording(handle: Handle, snapshot: Snapshot) -> OnFilters | None:
    """Notes scans for the workload; None where it is not recorded."""
    return scan_listener(home_of(handle), (*snapshot.fields, *snapshot.partition_fields), is_case_sensitive(handle))


def _as_named(spark: SparkSession, named: NamedTable, snapshot: Snapshot) -> bool:
    """Check that the catalog has the same columns and partition types as the table's directory."""
    if named.relation is None:
        return True
    fields = spark.table(named.sql).schema.jsonValue()["fields"]
    catalog_types = [(f["name"], read_type(f["type"], f.get("metadata"))) for f in fields]
    return catalog_types == [(field.name, field.type) for field in (*snapshot.fields, *snapshot.partition_fields)]


def list_files(handle: Handle, where: str | pc.Expression | None, *, deletes: bool) -> list[KeptFile]:
    """List the files that might hold a matching row.

    deletes: say what deletes rows of them. Raises UnsupportedError for a table with such files otherwise.
    """
    snapshot = read_snapshot(handle)
    if snapshot.opaque:
        raise UnsupportedError(
            f'the files of "{snapshot.root}" are not its rows, since it uses {snapshot.reader}; read it with df()'
        )
    if not deletes and snapshot.reader is not None and snapshot.column_ids is not None:
        raise UnsupportedError(
            f'the files of "{snapshot.root}" are not its rows, since it uses {snapshot.reader}; read it with df()'
        )
    changed = snapshot.deleted if snapshot.altered is None else snapshot.altered
    if not deletes and changed is not None and changed.any():
        raise UnsupportedError(
            f'the files of "{snapshot.root}" are not its rows: {int(changed.sum()):,} of {len(snapshot):,} have rows '
            f"that are deleted{' or changed' if snapshot.altered is not None else ''}; read it with df(), or use "
            "files(deletes=True) and apply the deletes of each file yourself"
        )
    files = _prune(handle, snapshot, where)[0]
    if not deletes or snapshot.read_deletes is None:
        return files
    deletes_by_uri = {handle.storage.uri(path): value for path, value in snapshot.read_deletes().items()}
    return [KeptFile(file, file.row_groups, deletes_by_uri.get(file, ())) for file in files]


def prune_files(handle: Handle, where: str | pc.Expression | None) -> tuple[list[KeptFile], ScanReport]:
    """List the files that might hold a matching row, and report what pruning did.

    Files whose row groups are all ruled out are dropped. Rows of the files may be deleted.
    """
    return _prune(handle, read_snapshot(handle), where)


def _prune(handle: Handle, snapshot: Snapshot, where: str | pc.Expression | None) -> tuple[list[KeptFile], ScanReport]:
    started = time.perf_counter()
    predicate = read_where(handle, snapshot, where)
    bound = bind_index(handle, snapshot, warn=where is not None)
    result = bound.prune(predicate)
    row_groups = prune_row_groups(bound, predicate, result.kept)
    groups_by_file = {} if row_groups is None else row_groups.by_file
    kept = [i for i in np.flatnonzero(result.kept).tolist() if groups_by_file.get(i) != ()]
    if len(kept) < result.files:
        result = replace(result, kept=np.isin(np.arange(len(snapshot)), kept))
    counts = [len(groups_by_file[i]) for i in kept if i in groups_by_file]
    report = replace(
        _report(snapshot, bound, result, time.perf_counter() - started),
        row_groups=sum(counts) if row_groups is not None and len(counts) == len(kept) else None,
        row_groups_total=None if row_groups is None else row_groups.total,
    )
    workload_recorder = recorder(home_of(handle))
    if workload_recorder is not None:
        workload_recorder.note(lambda: text_of([predicate]), report)
    return [KeptFile(handle.storage.uri(snapshot.paths[i]), groups_by_file.get(i)) for i in kept], report


def _report(snapshot: Snapshot, bound: BoundIndex, result: PruneResult, seconds: float) -> ScanReport:
    return ScanReport(
        files=result.files,
        files_total=len(snapshot),
        bytes=int(snapshot.sizes[result.kept].sum()),
        bytes_total=snapshot.bytes,
        rows=known_rows(bound, result.kept),
        rows_total=known_rows(bound, np.ones_like(result.kept)),
        seconds=seconds,
        leaves=result.leaves,
    )


def known_rows(bound: BoundIndex, files: Bools) -> int | None:
    """The total rows of some files; None where a file's count is unknown, or rows of it are deleted."""
    deleted = bound.snapshot.deleted
    rows = bound.rows[files] if deleted is None else np.where(deleted, -1, bound.rows)[files]
    return None if (rows < 0).any() else int(rows.sum())
