"""Tables of the catalog in a plan that zskip may open, and why it may not open others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zskip.records import Snapshot
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.compiled.lists import read_columns
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.statuses import file_paths, qualify_root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCES = "org.apache.spark.sql.execution.datasources"
_RELATION = f"{_SOURCES}.LogicalRelation"
_FILES = f"{_SOURCES}.HadoopFsRelation"
_PARQUET = f"{_SOURCES}.parquet.ParquetFileFormat"
_OF_PATHS = f"{_SOURCES}.InMemoryFileIndex"
_OF_CATALOG = f"{_SOURCES}.CatalogFileIndex"
_HARMLESS = {"path", "serialization.format", "mergeschema", "compression", "header", "partitionoverwritemode"}
"""Options of a table that have no say in which files it has and how they are read, beyond its schema."""
_FIELD_ID = "parquet.field.id"


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileRelation:
    """A table of the catalog in one directory of Parquet files, as Spark has it in a plan."""

    files: JavaObject
    """`HadoopFsRelation`."""
    root: str
    """Path of the directory, as Hadoop writes it."""
    catalog: JavaObject
    """`CatalogTable`."""


def read_relation(jvm: Jvm, leaf: JavaObject) -> FileRelation | str:
    """The table that a leaf of a plan is, or why zskip cannot open it."""
    if leaf.getClass().getName() != _RELATION:
        return f"{leaf.getClass().getSimpleName()} is no table of Parquet files"
    files, catalog = leaf.relation(), leaf.catalogTable()
    if files.getClass().getName() != _FILES or catalog.isEmpty():
        return f"{files.getClass().getSimpleName()} is no table of files"
    if files.fileFormat().getClass().getName() != _PARQUET:
        return f"its format is {files.fileFormat().toString()}, not parquet"
    roots = [str(path.toString()) for path in jvm.items(files.location().rootPaths())]
    if len(roots) != 1:
        return f"it has {len(roots)} paths, not one directory"
    if files.location().getClass().getName() not in (_OF_PATHS, _OF_CATALOG):
        return "another program chooses its files"
    if not files.bucketSpec().isEmpty():
        return "it is bucketed"
    options = {key.lower() for key in str(files.options().keys().mkString("\n")).split("\n") if key}
    others = sorted(key for key in options - _HARMLESS if not key.startswith("parquet."))
    if others:
        return f"it is read with the option {others[0]}"
    if _FIELD_ID in files.dataSchema().json():
        return "its columns may be matched by field id"
    return FileRelation(files=files, root=roots[0], catalog=catalog.get())


def same_partitions(spark: SparkSession, relation: FileRelation, current: Callable[[], Snapshot]) -> bool:
    """Whether the catalog has exactly the partitions of the table's directory, each in its usual directory.

    True for tables whose partitions no catalog keeps. current: reads the current snapshot of the table.
    """
    if relation.files.location().getClass().getName() != _OF_CATALOG:
        return True
    snapshot = current()
    jvm = Jvm.of(spark)
    catalog, java = relation.catalog, singleton(jvm, "CatalogPartitions")
    listed = spark._jsparkSession.sessionState().catalog().listPartitions(catalog.identifier(), jvm.none)
    partitions, names = jvm.to_list(listed), catalog.partitionColumnNames()
    locations = jvm.read(invoke(jvm, java, "paths", partitions))
    if locations != jvm.read(invoke(jvm, java, "usualPaths", partitions, names, qualify_root(snapshot.root))):
        return False
    directories = file_paths(jvm, snapshot.root, [partition.directory for partition in snapshot.partitions])
    return set(read_columns(jvm, directories, "toString")[0]) <= set(locations)
