"""Where new rows go: a path, or a name of a catalog, and the table that lies there already."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zskip.errors import InputError, TableNotFoundError, UnsupportedError
from zskip.formats import CATALOG_FORMAT, CREATIONS, HOME, Creation, check_name
from zskip.formats.iceberg.catalog import IcebergCatalog
from zskip.spark.jvm.catalog import DEFAULT_CATALOG
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.table.address import find_catalog, is_session_name, name_parts, open_in_catalog, resolve_address
from zskip.table.handle import Handle, classic, storage_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WriteTarget:
    """The target of a write."""

    name: str
    """As the caller writes it."""
    existing: Handle | None
    """The table that lies there; None where a new one is made."""
    catalog: IcebergCatalog | None = None
    """The catalog of an Iceberg table."""


def resolve_target(spark: SparkSession, target: Any, format_name: str) -> WriteTarget:
    """Find what lies at a path or under a name.

    Raises InputError for a file, a table of another format, and a name that no catalog of the session can hold, and
    UnsupportedError for Hudi.
    """
    check_name(format_name)
    if not isinstance(target, str | os.PathLike) or not str(target):
        raise InputError(f"target={target!r} is neither a path nor the name of a table")
    name = str(target)
    write_target = _resolve(classic(spark), name, format_name)
    if write_target.existing is None:
        return write_target
    return replace(write_target, existing=write_target.existing.attach(spark, name))


def _resolve(spark: SparkSession | None, name: str, format_name: str) -> WriteTarget:
    CREATIONS[format_name].check(name)
    if CREATIONS[format_name].in_catalog:
        return _resolve_in_catalog(spark, name)
    _check_catalog(spark, name, format_name)
    handle = resolve_address(name, spark, None, None)
    if handle.catalog_table is None:
        info = handle.storage.stat("")
        if info is not None and not info.is_dir:
            raise InputError(f'"{name}" is a file; give the path of a directory for the table')
        if info is None or _is_vacant(handle):
            return WriteTarget(name=name, existing=None)
    if handle.format.name != format_name:
        raise InputError(
            f'"{name}" is a table of the format {handle.format.name}; write format="{handle.format.name}", or name '
            "another target"
        )
    return WriteTarget(name=name, existing=handle)


def _is_vacant(handle: Handle) -> bool:
    """Whether a directory is empty, or holds only what a process that died, or still writes, has begun in a store."""
    names = {entry.path for entry in handle.storage.list_dir("")}
    return names <= {HOME} and not handle.storage.list_dir(f"{HOME}/log")


def _resolve_in_catalog(spark: SparkSession | None, name: str) -> WriteTarget:
    catalog = find_catalog(name_parts(name, spark), spark, may_be_new=True)
    if catalog is None:
        raise InputError(
            f'"{name}" is not a name in any Iceberg catalog that this session or pyiceberg knows; zskip writes Iceberg '
            'tables through their catalog, so give a name such as "catalog.db.table"'
        )
    try:
        return WriteTarget(name=name, existing=open_in_catalog(catalog, spark, None), catalog=catalog)
    except TableNotFoundError:
        return WriteTarget(name=name, existing=None, catalog=catalog)


def _check_catalog(spark: SparkSession | None, name: str, format_name: str) -> None:
    """Raise InputError for the name of a table in a catalog that could not hold it."""
    parts = name_parts(name, spark)
    if len(parts) < 3 or parts[0] == DEFAULT_CATALOG or storage_at(name, spark).stat("") is not None:
        return
    if find_catalog(parts, spark) is not None:
        raise InputError(
            f'"{name}" is a name in an Iceberg catalog; write format="{CATALOG_FORMAT}", not "{format_name}"'
        )
    raise InputError(
        f'"{name}" looks like a table in the catalog "{parts[0]}", which this session does not have; configure '
        f'spark.sql.catalog.{parts[0]}, or write "./{name}" for a directory'
    )


def check_new_name(spark: SparkSession, name: str, creation: Creation) -> None:
    """Raise UnsupportedError where the session's catalog could not read a new table of a format by its name."""
    from zskip.spark.formats import has_own_reader

    is_name = "." in name and is_session_name(name) and spark.catalog.databaseExists(name.rpartition(".")[0])
    if is_name and classic(spark) is None:
        raise UnsupportedError(
            f'zskip does not register the new table "{name}" in the catalog of Spark Connect; give a path, or '
            f'"./{name}" for a directory of that name. Nothing was written'
        )
    if is_name and creation.own_reader and not has_own_reader(spark, creation.name):
        raise UnsupportedError(
            f'the session has not loaded {creation.own_reader}, so its catalog cannot hold the table "{name}" of the '
            f"format {creation.name}; give a path. Nothing was written"
        )


def check_does_not_read(df: DataFrame, target: WriteTarget) -> None:
    """Raise InputError if a DataFrame reads the table that it would overwrite."""
    handle = target.existing
    assert handle is not None, "only a table that exists is overwritten"
    if any(_is_inside(source, handle, target.name) for source in _all_sources(df)):
        raise InputError(
            f'the DataFrame reads "{target.name}", which it would overwrite; write to another target, or use '
            "optimize() if only the order of the rows should change"
        )


def _all_sources(df: DataFrame) -> Iterator[str]:
    """The paths, or the names, of the tables that a DataFrame reads; of a connected session, its files."""
    if classic(df.sparkSession) is None:
        yield from df.inputFiles()
        return
    jvm, plan = Jvm.of(df.sparkSession), df._jdf.queryExecution().analyzed()
    for node in [plan, *jvm.items(plan.subqueriesAll())]:
        for leaf in jvm.items(node.collectLeaves()):
            yield from _sources(jvm, leaf)


def _sources(jvm: Jvm, leaf: JavaObject) -> list[str]:
    """The paths, or the name, of the table that a leaf of a plan reads."""
    kind = str(leaf.getClass().getSimpleName())
    if kind == "LogicalRelation" and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation":
        return [str(path.toString()) for path in jvm.items(leaf.relation().location().rootPaths())]
    if kind == "HiveTableRelation":
        return [str(leaf.tableMeta().location().toString())]
    if kind.startswith("DataSourceV2"):
        return [str(leaf.table().name())]
    return []


def _is_inside(source: str, handle: Handle, name: str) -> bool:
    """Whether a path lies in the table or around it, or is the table's name."""
    path, root = (re.sub("^file:(//)?", "", text).rstrip("/") for text in (source, handle.storage.root))
    return source.replace("`", "") == name or path == root or path.startswith(f"{root}/") or root.startswith(f"{path}/")
