"""The reader of Iceberg tables: zskip's where files hold the rows, else the session's Iceberg, by the table's name."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from zskip.errors import UnsupportedError, ZskipWarning
from zskip.formats import IcebergFormat, TableFormat
from zskip.formats.compression import Compression
from zskip.formats.iceberg.commit import HIDDEN_IDS
from zskip.formats.schema import fields_from_json
from zskip.records import Ints, ReadableFiles, Snapshot
from zskip.spark.formats.iceberg.catalog import ICEBERG, SessionCatalog
from zskip.spark.formats.iceberg.scan_tasks import ScanTasks
from zskip.spark.formats.reader import Reader
from zskip.spark.jvm import compat
from zskip.spark.jvm.catalog import quote_name
from zskip.spark.jvm.failures import root_cause, text_with_causes, translated
from zskip.spark.jvm.gateway import Jvm
from zskip.spark.scan.relation import Pruning
from zskip.spark.schema import complete, ordinal_of
from zskip.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zskip.spark.jvm.catalog import NamedTable

_WITH_ROW_IDS = 3
"""The first version of tables whose rows have ids, which older versions of Iceberg would not keep."""
_OLDEST, _OLDEST_WITH_ROW_IDS = (1, 9), (1, 10)


class IcebergReader(Reader):
    """Reads an Iceberg table; tables with deletes, row ids, renamed columns and the like through Iceberg itself."""

    _table: IcebergFormat

    def __init__(
        self, spark: SparkSession, table: TableFormat, storage: Storage, named: NamedTable | None = None
    ) -> None:
        super().__init__(spark, table, storage, named)
        catalog = self._table.catalog
        self._catalog = catalog if isinstance(catalog, SessionCatalog) else None
        """The session's catalog that has the table; None where the session does not know it by name."""
        self._tasks = None if self._catalog is None else ScanTasks(spark, storage, self._catalog, self._table.branch)

    @cached_property
    def files_hold_rows(self) -> bool:
        """Whether there are no deletes, no other names in files, no ids of rows, and no types that Spark changes."""
        return self._tasks is None or self._table.unsupported_feature() is None

    def check_rewritable(self, compression: Compression | None) -> None:
        """Raise UnsupportedError, with the reason and the way out, where a rewrite could not be committed; only reads.

        compression: as in `Reader.check_rewritable`.
        """
        super().check_rewritable(compression)
        if self._catalog is not None and not self.files_hold_rows:
            _check_runtime(self._spark, self._catalog)

    @property
    def shown(self) -> Snapshot:
        """The files with the columns of Iceberg's reader; those that it gives in another form have no statistics."""
        snapshot = self.snapshot
        if self.feature is None:
            return snapshot
        fields, names = fields_from_json(self.whole().schema.json()), snapshot.reading.names
        assert names.ids is not None, "Iceberg's columns have ids"
        types = {field.name: field.type for field in snapshot.fields}
        same = {field.name for field in fields if types.get(field.name) == field.type}
        ids = dataclasses.replace(names.ids, ids={path: i for path, i in names.ids.ids.items() if path[0] in same})
        reading = dataclasses.replace(snapshot.reading, names=dataclasses.replace(names, ids=ids))
        return dataclasses.replace(snapshot, fields=fields, reading=reading)

    @property
    def filters_itself(self) -> bool:
        """Whether Iceberg reads the rows."""
        return self.feature is not None

    @property
    def _reads_stored(self) -> bool:
        return self._tasks is not None

    @property
    def footers_count(self) -> bool:
        """Whether footers tell of the rows: not where Iceberg reads them."""
        return super().footers_count and self.files_hold_rows

    @property
    def indexes_files(self) -> bool:
        """Whether the index, not the manifests, has the bounds of files: deletes leave the manifests' as they are."""
        if self.feature is not None and self.snapshot.known is not None and self._catalog is not None:
            return False
        return super().indexes_files

    def frame(self, prune: Callable[[Snapshot], Pruning]) -> DataFrame:
        """The rows as users see them, of which each query reads the files that its filters leave.

        Iceberg skips files by itself where zskip does not know what the table uses.
        """
        try:
            feature = self.feature
        except UnsupportedError as reason:
            if self._catalog is None:
                raise
            name = self._catalog.table
            text = f'Iceberg itself reads "{name}", without the index of zskip: {reason}'
            warnings.warn(text, ZskipWarning, stacklevel=4)
            return self._by_name(self._catalog)
        return self._prune_whole(prune) if feature is not None else super().frame(prune)

    def whole(self) -> DataFrame:
        """The rows as users see them, by Iceberg where it has to read them."""
        if self._catalog is None or self.feature is None:
            return super().whole()
        return self._by_name(self._catalog)

    def _by_name(self, catalog: SessionCatalog) -> DataFrame:
        name, branch = quote_name(catalog.table.split(".")), self._table.branch
        reader = self._read_uncached() if branch is None else self._read_uncached().option("branch", branch)
        with translated(f'open "{catalog.table}" with Iceberg'):
            return reader.table(name)

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows of the files without deleted ones, with the ids of rows in tables that have them."""
        if self.files_hold_rows or self._tasks is None:
            return super().live_rows(session)
        return self._tasks.read_live(session, self.snapshot)

    def readable_files(self) -> ReadableFiles | None:
        """By the deletes and the ids of rows with which Iceberg scans each file; None where it has equality deletes."""
        if self.files_hold_rows or self._tasks is None or self.snapshot.reading.opaque:
            return super().readable_files()
        return self._tasks.readable_files(self.snapshot, self._table.stored_columns())

    def stored_columns(self, live: DataFrame) -> str | None:
        """The columns of files with their ids there."""
        return (
            None
            if self.files_hold_rows
            else complete(self._table.stored_columns(), live.drop(ordinal_of(live)), HIDDEN_IDS)
        )

    def declared_columns(self) -> str | None:
        """Also the parts of lists and maps have ids: Iceberg finds what has none by names, which change."""
        return self._table.stored_columns()

    def count_live_rows(self, stored: Ints) -> Ints:
        """(files,) the rows of each file without deleted ones."""
        if self.files_hold_rows or self._tasks is None:
            return stored
        return self._tasks.count_live_rows(self._spark, self.snapshot)

    def _read_stored(self, session: SparkSession) -> DataFrame:
        if self.feature is None or self._tasks is None:
            return super()._read_stored(session)
        assert self._catalog is not None, "the session reads the table"
        _check_runtime(self._spark, self._catalog)
        return self._tasks.read_stored(session, self.snapshot)

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints | None:
        """(files,) the rows in deletion vectors, and those of delete files spread over the files that they apply to."""
        if snapshot.reading.feature is None or self._tasks is None:
            return None
        return self._tasks.count_deleted_rows(snapshot)

    def release(self) -> None:
        """Forget the version that was read, and what Iceberg's caches hold of it."""
        if self._tasks is not None:
            self._tasks.release()


def _check_runtime(spark: SparkSession, catalog: SessionCatalog) -> None:
    """Raise UnsupportedError where the runtime is older than the calls that a rewrite needs, or lacks a type."""
    jvm, table = Jvm.of(spark), catalog.load()
    version = jvm.call(f"{ICEBERG}.IcebergBuild", "version")()
    oldest = _OLDEST_WITH_ROW_IDS if table.operations().current().formatVersion() >= _WITH_ROW_IDS else _OLDEST
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < oldest:
        raise UnsupportedError(
            f'zskip rewrites "{catalog.table}" through Iceberg {".".join(map(str, oldest))} or later, and '
            f"the session has loaded {version}; load {compat.iceberg_runtime(spark)}. Nothing was written"
        )
    try:
        jvm.call(f"{ICEBERG}.spark.SparkSchemaUtil", "convert")(table.schema())
    except Py4JError as error:
        raise UnsupportedError(
            f'Iceberg\'s runtime in Spark does not read "{catalog.table}" '
            f"({root_cause(text_with_causes(error))}); rewrite it with another engine. Nothing was written"
        ) from error
