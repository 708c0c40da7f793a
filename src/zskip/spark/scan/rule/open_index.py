"""Opens the indexes that lie in the directories of relations, for `IndexedTables.java`."""

from __future__ import annotations

import json
import logging
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ZskipError, ZskipWarning
from zskip.formats import HOME, HudiFormat
from zskip.formats.delta.columns import stored_paths
from zskip.formats.hudi.values import drop_widened_floats
from zskip.formats.iceberg.column_ids import column_ids_from_json
from zskip.formats.schema import fields_from_json
from zskip.index import Index
from zskip.predicate import Predicate
from zskip.records import ColumnNames, Field, Partition, Reading, ScanReport, Snapshot
from zskip.records.reading import SAME_NAMES
from zskip.spark.jvm.compiled.janino import compile_apart
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import storage_for
from zskip.spark.jvm.versions import SessionVersions, compare_zones
from zskip.spark.scan.bridge.filters import Filters
from zskip.spark.scan.rule.bound_files import BoundFiles
from zskip.spark.scan.rule.learned import facts_of
from zskip.spark.scan.rule.reports import OnFilters
from zskip.storage import Storage
from zskip.storage.redirected import RedirectedStorage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip.scan")
_DELTA = "org.apache.spark.sql.delta.files.TahoeLogFileIndex"
"""A class of Delta Lake's."""

Watch = Callable[[Storage, Sequence[Field], bool], OnFilters | None]
"""Takes a table's storage, its columns, and whether case counts, and returns the listener of its scans, if any."""
_watches: list[Watch] = []


class IndexOpener:
    """Answers the rule; what it opened lives as long as Java holds it."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        compare_zones(jvm)
        self._warned: set[str] = set()

    def answer(self, question: str, *arguments: Any) -> JavaObject:
        """Answer a question; None where there is no index that can be used."""
        if question == "failed":
            task, fault = arguments
            self._warn(
                f"zskip could not {task}, so queries may read more files than they must: {fault}; please report it"
            )
            return None
        if question == "refused":
            self._warn(arguments[0])
            return None
        if question == "compile_delta":
            return self._compile_delta()
        root, *arguments_of_relation = arguments
        try:
            open_it = self._open_by_id if question == "open_by_id" else self._open
            return open_it(root, *arguments_of_relation)
        except Exception as error:
            if root not in self._warned:
                self._warned.add(root)
                _log.warning("the index is not used\n%s", traceback.format_exc())
                reason = str(error) if isinstance(error, ZskipError) else f"{type(error).__name__}: {error}"
                self._warn(f'the index of "{root}" is not used: {reason}')
            return None

    def _open(
        self,
        root: str,
        home: str,
        data: str,
        partition: str,
        case_sensitive: bool,
        session: JavaObject,
        mapping_mode: str | None,
        mapped_schema: str | None,
    ) -> JavaObject:
        paths = None if mapped_schema is None else stored_paths(mapped_schema, str(mapping_mode).lower())
        names = ColumnNames(paths=paths)
        spark = _session(session)
        files = open_index(spark, root, data, partition, home=home, case_sensitive=case_sensitive, names=names)
        return None if files is None else files.to_java()

    def _open_by_id(self, root: str, data: str, columns: str, case_sensitive: bool, session: JavaObject) -> JavaObject:
        ids = column_ids_from_json(columns)
        names = ColumnNames(ids=ids)
        spark = _session(session)
        files = open_index(spark, root, data, None, case_sensitive=case_sensitive, names=names)
        return None if files is None else files.to_java()

    def _compile_delta(self) -> JavaObject:
        try:
            return compile_apart(self._jvm, "formats/delta/apart/DeltaFiles", _DELTA)
        except Exception as error:
            _log.warning("the Java over Delta's classes does not compile", exc_info=True)
            self._warn(
                "zskip leaves the choice of files, and tables whose rows may be deleted, to Delta Lake, which has "
                f"other classes: {error}"
            )
            return None

    @staticmethod
    def _warn(text: str) -> None:
        warnings.warn(text, ZskipWarning, stacklevel=2)


def _session(session: JavaObject) -> SparkSession:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    assert context is not None, "a session has a context"
    return SparkSession(context, session)


def watch_scans(watch: Watch) -> None:
    """Have the scans of tables in enabled sessions noted from now on."""
    if watch not in _watches:
        _watches.append(watch)


def open_index(
    spark: SparkSession,
    root: str,
    data_json: str,
    partition_json: str | None,
    *,
    case_sensitive: bool,
    home: str = HOME,
    names: ColumnNames = SAME_NAMES,
) -> BoundFiles | None:
    """The index in a directory, seen from relations of one schema; None where there is none.

    home: where all that belongs to zskip lies in it; names: of columns in the files. Nothing is listed: what the
    index knows of a file counts where a relation lists it with that size and time.
    Raises IndexFormatError where it is damaged, StorageError where it cannot be read.
    """
    storage = storage_for(spark, root)
    if home != HOME:
        storage = RedirectedStorage(storage, HOME, home)
    index = Index.load(storage)
    if index is None:
        return None
    partition_fields = () if partition_json is None else fields_from_json(partition_json)
    fields = _fields_of_files(data_json, {field.name.lower() for field in partition_fields})
    if home == HudiFormat.home:
        fields = drop_widened_floats(fields, index.manifest.segments)
    return BoundFiles(
        spark,
        index.bind(
            replace(_described_files(index, storage.root, fields), reading=Reading(names=names)),
            case_sensitive=case_sensitive,
            versions=SessionVersions(spark),
        ),
        case_sensitive=case_sensitive,
        partition_fields=partition_fields,
        on_filters=_tell_watches(storage, fields, case_sensitive),
        is_recorded=lambda: any(watch(storage, fields, case_sensitive) is not None for watch in _watches),
        # Sessions differ in whether they find columns by such ids.
        facts=None
        if "parquet.field.id" in data_json
        else facts_of(storage.root, home, data_json, partition_json, case_sensitive, repr(names)),
    )


def _tell_watches(storage: Storage, fields: Sequence[Field], case_sensitive: bool) -> OnFilters:
    def tell(filters: Sequence[Filters], keys: Sequence[Predicate], report: ScanReport) -> None:
        for watch in _watches:
            note = watch(storage, fields, case_sensitive)
            if note is not None:
                note(filters, keys, report)

    return tell


def _fields_of_files(data_json: str, partitions: set[str]) -> tuple[Field, ...]:
    """The columns of files that their statistics can tell of."""
    fields = []
    described = json.loads(data_json)["fields"]
    for field, description in zip(fields_from_json(data_json), described, strict=True):
        # Files that lack a column with a default do not hold nulls; columns of partitions are not read from files.
        has_default = any("DEFAULT" in key for key in description.get("metadata", {}))
        if field.name.lower() not in partitions and not has_default:
            fields.append(field)
    return tuple(fields)


def _described_files(index: Index, root: str, fields: tuple[Field, ...]) -> Snapshot:
    """The files that an index describes, each as it was last seen, as if they were the table."""
    latest: dict[str, tuple[int, int, int]] = {}
    for listing in index.listings():
        numbers_of = (listing.sizes.tolist(), listing.mtimes_ms.tolist(), listing.identities.tolist())
        latest.update(zip(listing.paths.to_pylist(), zip(*numbers_of, strict=True), strict=True))
    paths = sorted(latest)
    numbers = np.array([latest[path] for path in paths], np.int64).reshape(-1, 3)
    return Snapshot(
        root=root,
        version=index.version,
        fields=fields,
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(paths),
        sizes=numbers[:, 0].copy(),
        mtimes_ms=numbers[:, 1].copy(),
        identities=numbers[:, 2].copy(),
        partition_of=np.zeros(len(paths), np.int32),
    )
