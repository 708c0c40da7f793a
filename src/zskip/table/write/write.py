"""Make a clustered table of a DataFrame in one pass, or replace or extend one.

    target -> columns -> sample -> layout -> write in Spark -> the format's commit -> index

A new table appears whole or not at all; until the commit a table that exists stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ColumnError, InputError, ZskipError
from zskip.formats import CREATIONS, IcebergFormat
from zskip.formats.footers.inspection import check_not_encrypted
from zskip.formats.iceberg.catalog import TableDefinition
from zskip.formats.schema import fields_from_json
from zskip.records import Snapshot, WriteResult
from zskip.spark.forms import quote_identifier
from zskip.spark.schema import columns_json, read_struct
from zskip.spark.write.rewrite import check_writable
from zskip.table.address import open_in_catalog
from zskip.table.advice.choose_layout import check_columns_and_curve
from zskip.table.catalog_updates import notifying_catalog, registering_new_table
from zskip.table.handle import Handle, classic, storage_at
from zskip.table.index_binding import check_index_version
from zskip.table.optimize_request import OptimizeRequest
from zskip.table.predicates import check_keys, clustering_fields
from zskip.table.rewrite.rewrite import open_target
from zskip.table.session import is_case_sensitive, is_session_case_sensitive, session_time_zone
from zskip.table.step_timer import StepTimer
from zskip.table.version import TableVersion, open_version
from zskip.table.write.append import append, plan_new_rows, write_and_commit
from zskip.table.write.incoming import align, check_frame, column_key
from zskip.table.write.stage_rows import WritePlan
from zskip.table.write.target import WriteTarget, check_does_not_read, check_new_name, resolve_target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODES = ("error", "append", "overwrite")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _NewColumns:
    """The columns of a new table."""

    frame: DataFrame
    """Partition columns last."""
    names: tuple[str, ...]
    """Of the partition columns."""
    schema_json: str
    """All columns, in Spark's JSON."""


def write(
    df: DataFrame,
    target: Any,
    request: OptimizeRequest,
    *,
    format_name: str,
    mode: str,
    partition_by: Sequence[str],
    branch: str | None,
) -> WriteResult:
    """Write rows to a new table, or to one that exists; `zskip.write` describes the arguments."""
    spark = check_frame(df)
    partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    if mode not in MODES:
        raise InputError(f'mode={mode!r} is not one of "error", "append", "overwrite"')
    if not request.by:
        raise InputError('by="auto" needs a table with a workload; name columns, such as by=["a", "b"]')
    check_columns_and_curve(request)
    write_target = resolve_target(spark, target, format_name)
    if write_target.existing is None and branch is not None:
        raise InputError(
            f'branch="{branch}": there is no table "{write_target.name}" yet, and the first rows of a table go to its '
            "main branch; leave branch out. Nothing was written"
        )
    if write_target.existing is None and write_target.catalog is not None:
        return _write_new_iceberg_table(spark, df, write_target, partition_by, request)
    if write_target.existing is None:
        columns = _new_columns(spark, df, partition_by)
        plan = _plan(spark, write_target.name, columns, request)
        return _write_new_table(spark, write_target, columns, plan, format_name)
    if mode == "error" and not _is_empty_iceberg_table(write_target):
        raise InputError(
            f'"{write_target.name}" already exists; write with mode="append" or mode="overwrite", or to another target'
        )
    existing = write_target.existing.for_new_rows(branch)
    write_target = dataclasses.replace(write_target, existing=existing)
    with notifying_catalog(existing) as handle:
        if mode != "overwrite":
            _check_partitions(handle, partition_by, write_target.name)
            return append(handle, df, None, request)
        return _overwrite(spark, df, write_target, partition_by, request)


def _new_columns(spark: SparkSession, df: DataFrame, partition_by: Sequence[str]) -> _NewColumns:
    """Move the partition columns to the end; raises ColumnError for one that is not there."""
    import pyspark.sql.functions as F

    case_sensitive = is_session_case_sensitive(spark)
    names = {column_key(name, case_sensitive): name for name in df.columns}
    keys = [column_key(str(name), case_sensitive) for name in partition_by]
    for name, key in zip(partition_by, keys, strict=True):
        if key not in names:
            raise ColumnError(
                f'partition_by names "{name}", which is not a column; the columns are {", ".join(df.columns)}'
            )
        if keys.count(key) > 1:
            raise ColumnError(f'partition_by names "{name}" twice; name each column once')
    if len(keys) == len(names):
        raise InputError("partition_by names all columns, which leaves none for the files; leave one out")
    order = [*(name for key, name in names.items() if key not in keys), *(names[key] for key in keys)]
    frame = df.select(*(F.col(quote_identifier(name)) for name in order))
    schema_json = _without_metadata(columns_json(frame))
    return _NewColumns(frame=frame, names=tuple(names[key] for key in keys), schema_json=schema_json)


def _without_metadata(schema_json: str) -> str:
    """The columns without what another table's writer has noted at them, but for how texts compare."""

    def clear(part: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in part.get("metadata", {}).items() if key == "__COLLATIONS"}
        return part | {"metadata": kept} if "metadata" in part else part

    return json.dumps(json.loads(schema_json, object_hook=clear))


def _plan(spark: SparkSession, root: str, columns: _NewColumns, request: OptimizeRequest) -> WritePlan:
    """Plan a write to a table of which nothing is known but the columns; raises ColumnError for `by`."""
    check_writable(columns.frame)
    fields = fields_from_json(columns.schema_json)
    data = len(fields) - len(columns.names)
    snapshot = Snapshot(
        root=root,
        version=0,
        fields=fields[:data],
        partition_fields=fields[data:],
        partitions=(),
        paths=(),
        sizes=np.zeros(0, np.int64),
        mtimes_ms=np.zeros(0, np.int64),
        partition_of=np.zeros(0, np.int32),
    )
    by = clustering_fields(
        request.by, snapshot, case_sensitive=is_session_case_sensitive(spark), timezone=session_time_zone(spark)
    )
    check_keys(columns.frame, snapshot, by)
    return plan_new_rows(snapshot, by, request)


def _write_new_table(
    spark: SparkSession,
    target: WriteTarget,
    columns: _NewColumns,
    plan: WritePlan,
    format_name: str,
) -> WriteResult:
    creation = CREATIONS[format_name]
    creation.check_columns(columns.schema_json)
    check_new_name(spark, target.name, creation)
    jvm_session = classic(spark)
    beside = Handle(storage_at(target.name, jvm_session), jvm_session).attach(spark)
    with registering_new_table(target.name, beside, format_name) as path:
        assert path is not None, "the target has a path"
        root = storage_at(path, jvm_session).root
        with open_target(beside, path) as handle:
            commit = partial(creation.create, handle.storage, columns.schema_json, columns.names, plan.snapshot)
            result = write_and_commit(handle, columns.frame, plan, "write", commit, StepTimer())
            _check_has_rows(result, target)
    return dataclasses.replace(result, path=root)


def _check_has_rows(result: WriteResult, target: WriteTarget) -> None:
    if not result.rows:
        raise InputError(f'the DataFrame has no rows; nothing was written to "{target.name}"')


def _write_new_iceberg_table(
    spark: SparkSession, df: DataFrame, target: WriteTarget, partition_by: Sequence[str], request: OptimizeRequest
) -> WriteResult:
    """Make a table in its catalog together with its rows, in one commit."""
    import pyspark.sql.functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    assert target.catalog is not None, "Iceberg tables have a catalog"
    # Iceberg has no smaller integers.
    wide = [
        F.col(quote_identifier(field.name)).cast("int").alias(field.name)
        if field.dataType.typeName() in ("byte", "short")
        else F.col(quote_identifier(field.name))
        for field in df.schema.fields
    ]
    frame = df.select(*wide)
    schema_json = _without_metadata(columns_json(frame))
    definition = TableDefinition(
        columns=to_arrow_schema(read_struct(schema_json)),
        schema_json=schema_json,
        partition_by=tuple(partition_by),
        case_sensitive=is_session_case_sensitive(spark),
    )
    handle = open_in_catalog(target.catalog.draft(definition), classic(spark), None).attach(spark)
    timer = StepTimer()
    try:
        handle.format.check_appendable()
        with timer.step("check"):
            check_index_version(handle)
            frame, plan = _fit_to_table(frame, open_version(handle), request)
        commit = partial(handle.format.append, plan.snapshot)
        result = write_and_commit(handle, frame, plan, "write", commit, timer)
        _check_has_rows(result, target)
    except BaseException:
        with suppress(ZskipError):
            _delete_if_empty(handle)
        raise
    return result


def _delete_if_empty(handle: Handle) -> None:
    """Delete the directory of a table that was not made, if no file is left there."""
    if not handle.storage.walk(lambda name: False):
        handle.storage.delete("")


def _is_empty_iceberg_table(target: WriteTarget) -> bool:
    """Whether a table has never held a row, as after an interrupted first write."""
    if target.catalog is None or target.existing is None:
        return False
    snapshot = target.existing.format.snapshot()
    return not len(snapshot) and not snapshot.version


def _check_partitions(handle: Handle, partition_by: Sequence[str], name: str) -> None:
    """Raise InputError if partition columns are named that are not the table's."""
    if not partition_by:
        return
    if isinstance(handle.format, IcebergFormat):
        handle.format.check_partitions(list(partition_by), case_sensitive=is_case_sensitive(handle))
        return
    names = [field.name for field in handle.format.snapshot().partition_fields]
    if [name.lower() for name in partition_by] != [name.lower() for name in names]:
        now = f"partitioned by {', '.join(names)}" if names else "not partitioned"
        raise InputError(f'partition_by={list(partition_by)}: "{name}" is {now}; leave partition_by out')


def _fit_to_table(df: DataFrame, version: TableVersion, request: OptimizeRequest) -> tuple[DataFrame, WritePlan]:
    """The rows with a table's columns, and how to write them in an order of their own."""
    schema, rules = version.reader.schema, version.format.row_rules()
    frame = align(df, schema, rules, case_sensitive=version.case_sensitive)
    check_writable(frame)
    by = version.find_keys(request.by)
    check_keys(frame, schema.snapshot, by)
    return frame, plan_new_rows(schema.snapshot, by, request, rules)


def _overwrite(
    spark: SparkSession, df: DataFrame, target: WriteTarget, partition_by: Sequence[str], request: OptimizeRequest
) -> WriteResult:
    """Replace all rows; a plain Parquet table without a name takes the columns of the DataFrame, too."""
    handle = target.existing
    assert handle is not None, "only a table that exists is overwritten"
    if handle.is_on_main:
        check_does_not_read(df, target)
    timer = StepTimer()
    with timer.step("check"):
        is_directory = handle.format.is_plain and handle.catalog_table is None
        # Before the format's own check, which lists the files unless they were listed.
        snapshot = handle.format.snapshot() if is_directory else None
        handle.format.check_appendable(overwrites=True)
        check_index_version(handle)
        if snapshot is not None:
            check_not_encrypted(handle.storage, snapshot)
            columns = _new_columns(spark, df, partition_by)
            frame, plan = columns.frame, _plan(spark, handle.storage.root, columns, request)
        else:
            _check_partitions(handle, partition_by, target.name)
            version = open_version(handle)
            check_not_encrypted(handle.storage, version.snapshot)
            frame, plan = _fit_to_table(df, version, request)
    commit = partial(handle.format.overwrite, plan.snapshot)
    result = write_and_commit(handle, frame, plan, "write", commit, timer)
    _check_has_rows(result, target)
    spark.catalog.refreshByPath(handle.storage.root)
    return result
