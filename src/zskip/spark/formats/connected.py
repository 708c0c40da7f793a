"""The reader of a table in a session of Spark Connect: tasks read files through Arrow, the server by their names."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zskip.errors import TableNotFoundError, UnsupportedError
from zskip.formats import IcebergFormat, MetadataReader, TableFormat
from zskip.formats.compression import Compression
from zskip.formats.schema import fields_from_json
from zskip.records import Field, Snapshot
from zskip.spark.connect.replacements import check_no_pattern
from zskip.spark.formats.reader import Reader
from zskip.spark.forms import free_name
from zskip.spark.jvm import compat
from zskip.spark.jvm.arrays import frame_of_texts
from zskip.spark.jvm.failures import translated
from zskip.spark.schema import TableSchema, add_numbers, columns_json, free_ordinal, read_struct, without_field_ids
from zskip.spark.shipping import ship
from zskip.spark.write.arrow.access import reach_of
from zskip.spark.write.arrow.reading import describe_tasks
from zskip.spark.write.arrow.rows import row_reader
from zskip.spark.write.arrow.schema import arrow_schema, first_line
from zskip.spark.write.arrow.tasks import TASKS_A_CORE, source_of, split_into_tasks
from zskip.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAIN_FILES = ("spark.databricks.delta.formatCheck.enabled", "false")
"""Lets a session with Delta Lake read single files of its tables."""
_CARRIED = re.compile(
    r"boolean|byte|short|integer|long|float|double|decimal(\(.*\))?|string|binary|date|timestamp|timestamp_ntz"
)
"""Types that are the same in the batches of tasks as in rows of Spark."""


def _is_carried(kind: Any) -> bool:
    if isinstance(kind, str):
        return _CARRIED.fullmatch(kind) is not None
    parts = [field["type"] for field in kind.get("fields", ())]
    parts += [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    return bool(parts) and all(map(_is_carried, parts))


class ConnectedReader(Reader):
    """Reads tables whose files hold their rows, which this process and the executors reach without Spark."""

    def __init__(self, spark: SparkSession, table: TableFormat, storage: Storage, address: str) -> None:
        """address: the table as the server calls it: a path, or the name of a table in its catalogs."""
        super().__init__(spark, table, storage)
        self._address = address

    def _copy(self) -> ConnectedReader:
        return ConnectedReader(self._spark, self._table, self._storage, self._address)

    @cached_property
    def _listed(self) -> Snapshot:
        """The files of the version, with the columns that this process reads; no server is asked."""
        committed = None if self._read_commit is None else self._read_commit()
        try:
            return self._table.snapshot() if committed is None else committed
        except TableNotFoundError as error:
            raise TableNotFoundError(
                f"{error}. Under Spark Connect this process reaches the table itself, as the server and its executors "
                "do, and it knows no names of the server's catalogs: give a path that all of them see, in an object "
                "store with storage_options"
            ) from error

    @property
    def snapshot(self) -> Snapshot:
        """The live files."""
        return self.__dict__["schema"].snapshot if "schema" in self.__dict__ else self._listed

    @cached_property
    def schema(self) -> TableSchema:
        """The live files, with the columns as the server sees them."""
        if self._before is not None and self._listed.reading.declared is None:
            return dataclasses.replace(self._before, snapshot=self._listed)
        return self._read_schema(self._listed)

    @property
    def reads_rows(self) -> bool:
        """Whether the files hold the rows."""
        return self.feature is None

    def _read_schema(self, snapshot: Snapshot) -> TableSchema:
        """The columns that the format declares, or else those that the server infers, if this process agrees."""
        declared = snapshot.reading.declared
        data, partition = self._infer(snapshot) if declared is None else (without_field_ids(declared[0]), declared[1])
        return TableSchema(
            snapshot=snapshot, data=None, partition=None, rows=None, data_json=data, partition_json=partition
        )

    def _infer(self, snapshot: Snapshot) -> tuple[str, str]:
        with translated(f'read the columns of "{self._address}"'):
            columns = json.loads(columns_json(self._spark.read.parquet(self._address)))["fields"]
        count = len(columns) - len(snapshot.partition_fields)
        structs = [json.dumps({"type": "struct", "fields": part}) for part in (columns[:count], columns[count:])]
        server = [(field.name, field.type) for text in structs for field in fields_from_json(text)]
        own = [(field.name, field.type) for field in (*snapshot.fields, *snapshot.partition_fields)]
        if server != own:
            different = [f"{name} {kind}" for name, kind in server if (name, kind) not in own] or server
            raise UnsupportedError(
                f'the session reads other columns in "{self._address}" than this process does ({different[0]}), for '
                "example since it merges the schemas of files or infers no types of directories; rewrite the table in "
                "a classic session. Nothing was written"
            )
        return structs[0], structs[1]

    def check_rewritable(self, compression: Compression | None) -> None:
        """Raise UnsupportedError also where only the format's own code reads the rows; see `Reader`."""
        super().check_rewritable(compression)
        self.check_rows()
        first = next(iter(self.snapshot.paths), None)
        if self._storage.kind == "disk" and first is not None and self._storage.stat(first) is not None:
            self._check_seen(self._storage.uri(first))

    def _check_seen(self, path: str) -> None:
        from pyspark.errors import AnalysisException

        session = compat.session_for_files(self._spark, dict([_PLAIN_FILES]))
        try:
            session.read.text(path).schema  # noqa: B018
        except AnalysisException as error:
            raise UnsupportedError(
                f'this process sees "{path}", and the server of Spark Connect does not ({first_line(error)}): '
                "give a path that both of them and the executors see, as in an object store. Nothing was written"
            ) from error

    def check_rows(self) -> None:
        """Raise UnsupportedError where the files do not hold the rows."""
        if self.feature is not None:
            raise UnsupportedError(
                f'only the own code of its format reads and rewrites the rows of "{self._address}", since it uses '
                f"{self.feature}, and a Spark Connect session gives no access to that; use a classic session. Nothing "
                "was written"
            )

    def check_indexable(self) -> None:
        """Raise UnsupportedError where an index could tell nothing of the files."""
        MetadataReader.check_indexable(self)

    def declared_columns(self) -> str | None:
        """The columns that the table declares, with the ids that Arrow gives them in files, in Spark's JSON."""
        return self._table.stored_columns() if isinstance(self._table, IcebergFormat) else super().declared_columns()

    def whole(self) -> DataFrame:
        """The rows as the format's own reader gives them."""
        version, name = self.snapshot.reading.version_as_of, self._table.name
        reader = self._spark.read
        if version is None:
            return reader.parquet(self._address)
        reader = reader.option("versionAsOf", version) if version else reader
        is_name = isinstance(self._table, IcebergFormat) and self._table.catalog is not None
        return reader.table(self._address) if is_name else reader.format(name).load(self._address)

    def live_rows(self, session: SparkSession) -> DataFrame:
        """The rows of the files, read through Arrow, with the number of each row's partition in the last column."""
        return self._read_tasks(session, json.loads(self.schema.data_json)["fields"])

    def check_writable(self, session: SparkSession) -> None:
        """Do nothing: Arrow, which alone writes, checks the columns when it does."""

    def rows_of_keys(self, session: SparkSession, keys: Sequence[Field]) -> DataFrame:
        """The `live_rows`, in the columns of some keys."""
        return self._read_tasks(session, self._columns_of(keys))

    def _columns_of(self, keys: Sequence[Field]) -> list[dict[str, Any]]:
        """The columns of files that keys are, or whose names are in their expressions; at least one."""
        columns = json.loads(self.schema.data_json)["fields"]
        texts = [key.name.lower() for key in keys if key.computed]
        plain = {key.path[0] for key in keys if not key.computed}
        return [
            column
            for column in columns
            if column["name"] in plain or any(column["name"].lower() in text for text in texts)
        ] or columns[:1]

    def numbered_rows(self, keys: Sequence[Field]) -> tuple[DataFrame, str, str]:
        """The rows in the files, the column with the number of each row's file, and that with its own number there."""
        frame = self._read_tasks(self._spark, self._columns_of(keys), numbered=True)
        return frame, frame.columns[-2], frame.columns[-1]

    def _read_tasks(
        self, session: SparkSession, columns: Sequence[dict[str, Any]], *, numbered: bool = False
    ) -> DataFrame:
        """Some columns as tasks read them; numbered: with the numbers of file and row in place of the partition's."""
        self.check_rows()
        foreign = next((column for column in columns if not _is_carried(column["type"])), None)
        if foreign is not None:
            raise UnsupportedError(
                f'column "{foreign["name"]}" of type {foreign["type"]} does not travel through Arrow as Spark has it, '
                "so it cannot be a key here, nor can expressions; choose other keys, or use a classic session. Nothing "
                "was written"
            )
        readable, reach = self.readable_files(), reach_of(self._storage)
        assert readable is not None, "files hold the rows"
        assert reach is not None, "executors reach what this process reaches"
        if numbered:
            tasks = [[source_of(file, readable)._replace(partition=i)] for i, file in enumerate(self.snapshot)]
        else:
            tasks = split_into_tasks(self.snapshot, readable, TASKS_A_CORE * compat.cores(session))
        names = [column["name"] for column in columns]
        stored = [field for field in json.loads(readable.columns)["fields"] if field["name"] in names]
        last = [free_ordinal(names), *([free_name("zskip_row", names)] if numbered else [])]
        read = row_reader(
            reach,
            arrow_schema(json.dumps({"fields": stored})),
            corrected=str(session.conf.get("spark.sql.parquet.datetimeRebaseModeInRead")).upper() == "CORRECTED",
            matching=readable.matching,
            numbers=last,
        )
        shown = add_numbers(json.dumps({"type": "struct", "fields": columns}), dict.fromkeys(last))
        frame = frame_of_texts(compat.session_for_files(session, {}), describe_tasks(tasks))
        return frame.mapInArrow(ship(read), read_struct(shown))

    def _read_stored(self, session: SparkSession) -> DataFrame:
        """All rows in the files, which the server reads by their names."""
        self.check_rows()
        root = self._address if self._table.is_plain else self._storage.root
        check_no_pattern((root, *self.snapshot.paths))
        session.conf.set(*_PLAIN_FILES)
        columns = read_struct(self.schema.data_json)
        for field in read_struct(self.schema.partition_json):
            columns = columns.add(field)
        reader = session.read.schema(columns).option("basePath", root)
        return reader.parquet(*(f"{root}/{path}" for path in self.snapshot.paths))
