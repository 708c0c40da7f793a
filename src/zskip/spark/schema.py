"""The schema of a table's files and the values of its partitions, as Spark infers them from the directory.

Both come from Spark's own code (`ParquetFileFormat.inferSchema`, `PartitioningUtils.parsePartitions`), so that they
follow all relevant settings of the session.
"""

from __future__ import annotations

import dataclasses
import decimal
import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import UnsupportedError
from zskip.formats.hive import DEFAULT_PARTITION
from zskip.formats.schema import fields_from_json
from zskip.index.resolve import fold
from zskip.records import Field, Partition, Snapshot
from zskip.spark.forms import free_name
from zskip.spark.jvm import compat
from zskip.spark.jvm.catalog import quote_name
from zskip.spark.jvm.compiled.janino import invoke, singleton
from zskip.spark.jvm.compiled.lists import get_each
from zskip.spark.jvm.failures import to_zskip_error, translated
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import translate_errors
from zskip.spark.jvm.statuses import file_paths, file_statuses, qualify_root
from zskip.types import DataType, Encoded, Form, encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger("zskip")
_ROW = "org.apache.spark.sql.catalyst.InternalRow"
_TYPE = "org.apache.spark.sql.types.DataType"
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet"
_CONVERTER = "org.apache.parquet.format.converter"
_SUMMARY_FILES = ("_common_metadata", "_metadata")
_FIELD_ID = "parquet.field.id"
_DEFAULT = "EXISTS_DEFAULT"
_SIZES = {"string": 20, "binary": 100, "variant": 2048, "integer": 4, "float": 4, "date": 4, "boolean": 1}
"""What values of types other than of 8 bytes take, about; as Spark guesses."""
_BY_ID = "spark.sql.parquet.fieldId.read.enabled"
"""With this setting Spark matches columns by id, not by name, so statistics by name do not apply to them."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TableSchema:
    """A table as Spark sees it: schemas and partition values, in the JVM and as records."""

    snapshot: Snapshot
    """The snapshot with the columns, partition columns and partition values that Spark infers."""
    data: JavaObject
    """`StructType` of the files; they may hold columns under the names of partition columns."""
    partition: JavaObject
    """`StructType` of the partition columns."""
    rows: JavaObject
    """`java.util.List` of one InternalRow per partition."""
    data_json: str
    partition_json: str


def read_schema(spark: SparkSession, snapshot: Snapshot) -> TableSchema:
    """Let Spark infer a table's schema and partition values from the files of a snapshot.

    Reads one footer, or all footers where the session merges schemas, unless the table declares its columns. Raises
    CorruptFileError, StorageError or ConflictError for files that Spark cannot read, and UnsupportedError for
    directories that are not partitions of one table.
    """
    with translated(f'read the columns and partitions of "{snapshot.root}"'):
        return _read_schema(spark, snapshot)


def _read_schema(spark: SparkSession, snapshot: Snapshot) -> TableSchema:
    jvm = Jvm.of(spark)
    declared = [jvm.call(_TYPE, "fromJson")(without_field_ids(text)) for text in snapshot.reading.declared or ()]
    data = declared[0] if declared else _data_schema(spark, jvm, snapshot)
    partition, rows = _partitions(spark, jvm, snapshot, declared[1] if declared else None)
    data_json, partition_json = data.json(), partition.json()
    partition_fields = fields_from_json(partition_json)
    if declared:
        # A format may know that Spark reads the values of a column from directories otherwise than the format does.
        pairs = zip(snapshot.partition_fields, partition_fields, strict=True)
        partition_fields = tuple(own if own.type.form is None else field for own, field in pairs)
    columns = [_read_values(jvm, rows, i, partition, f.type) for i, f in enumerate(partition_fields)]
    values = list(zip(*columns, strict=True)) if columns else [()] * len(snapshot.partitions)
    fields = fields_from_json(data_json)
    if partition_fields:
        # Values of directories count, not those of a column in the files that has the same name.
        case_sensitive = spark._jsparkSession.sessionState().conf().caseSensitiveAnalysis()
        names = {fold(field.path, case_sensitive) for field in partition_fields}
        fields = tuple(field for field in fields if fold(field.path, case_sensitive) not in names)
    if _FIELD_ID in data_json and spark.conf.get(_BY_ID, "false") == "true":
        fields = tuple(dataclasses.replace(f, type=DataType(f"{f.type} by field id")) for f in fields)
    inferred = dataclasses.replace(
        snapshot,
        fields=fields,
        partition_fields=partition_fields,
        partitions=tuple(
            Partition(directory=p.directory, values=tuple(v)) for p, v in zip(snapshot.partitions, values, strict=True)
        ),
    )
    return TableSchema(
        snapshot=inferred, data=data, partition=partition, rows=rows, data_json=data_json, partition_json=partition_json
    )


def without_field_ids(schema_json: str) -> str:
    """The schema without field ids, so that no session matches columns by id."""
    return json.dumps(json.loads(schema_json, object_hook=lambda part: {k: part[k] for k in part if k != _FIELD_ID}))


def restore_field_ids(spark: SparkSession, schema: TableSchema, declared: str | None) -> TableSchema:
    """The schema with the columns that the table's format declares, in Spark's JSON with their ids, if it does."""
    if declared is None:
        return schema
    return dataclasses.replace(schema, data=Jvm.of(spark).call(_TYPE, "fromJson")(declared))


def read_struct(text: str) -> StructType:
    """Read columns from Spark's JSON."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(text))


def columns_json(frame: DataFrame) -> str:
    """The columns of a frame in Spark's JSON, in each of which, and of whose parts, nulls may be."""

    def allow_nulls(part: dict[str, Any]) -> dict[str, Any]:
        return part | dict.fromkeys(part.keys() & {"nullable", "containsNull", "valueContainsNull"}, True)

    return json.dumps(json.loads(frame.schema.json(), object_hook=allow_nulls))


def guess_row_bytes(frame: DataFrame) -> float:
    """About how many bytes a row takes, by the types of its columns."""

    def size(kind: Any) -> int:
        parts = [field["type"] for field in kind["fields"]] if kind.get("type") == "struct" else []
        parts += [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
        return sum(size(part) if isinstance(part, dict) else _SIZES.get(part, 8) for part in parts)

    return float(size(frame.schema.jsonValue()))


def name_as_stored(frame: DataFrame, stored: str) -> DataFrame:
    """Give the first columns of a frame the names, types and metadata of others, in their order.

    stored: the others, in Spark's JSON.
    """
    import pyspark.sql.functions as F

    fields = read_struct(stored).fields
    named = [
        F.col(quote_name([name])).cast(field.dataType).alias(field.name, metadata=field.metadata)
        for name, field in zip(frame.columns, fields, strict=False)
    ]
    return frame.select(*named, *(quote_name([name]) for name in frame.columns[len(fields) :]))


def complete(stored: str, frame: DataFrame, ids: Mapping[str, int] | None = None) -> str:
    """Add a frame's further columns to the first ones, in Spark's JSON.

    ids: in files, of further columns that have one.
    """
    struct, fields = json.loads(stored), json.loads(frame.schema.json())["fields"]
    for field in fields[len(struct["fields"]) :]:
        field_id = (ids or {}).get(field["name"])
        struct["fields"].append(field | {"metadata": {} if field_id is None else {_FIELD_ID: field_id}})
    return json.dumps(struct)


def names_without_default(stored: str, filled: Collection[int] = ()) -> frozenset[str]:
    """The columns, of some in Spark's JSON, that are null in files without them; filled: ids of others."""
    fields = ((field["name"], field.get("metadata") or {}) for field in json.loads(stored)["fields"])
    return frozenset(name for name, noted in fields if _DEFAULT not in noted and noted.get(_FIELD_ID) not in filled)


def add_numbers(stored: str, ids: Mapping[str, int | None]) -> str:
    """Add columns of longs to others, in Spark's JSON; ids: in files, of those that have one."""
    struct = json.loads(stored)
    for name, field_id in ids.items():
        metadata = {} if field_id is None else {_FIELD_ID: field_id}
        struct["fields"].append({"name": name, "type": "long", "nullable": True, "metadata": metadata})
    return json.dumps(struct)


def add_columns(spark: SparkSession, schema: TableSchema, types: Mapping[str, str]) -> TableSchema:
    """Add columns to those of the files, which no query sees; types: their types in Spark's JSON, by their names."""
    struct = json.loads(schema.data_json)
    for name, kind in types.items():
        struct["fields"].append({"name": name, "type": kind, "nullable": True, "metadata": {}})
    text = json.dumps(struct)
    data = None if compat.is_connected(spark) else Jvm.of(spark).call(_TYPE, "fromJson")(text)
    return dataclasses.replace(schema, data=data, data_json=text)


def free_ordinal(names: Iterable[str]) -> str:
    """A name for the column with the number of a row's partition in its snapshot, beside columns of other names."""
    return free_name("__zskip_partition", names)


def ordinal_of(frame: DataFrame) -> str:
    """The column with the number of a row's partition: the last one, since its name depends on the others."""
    return frame.columns[-1]


def partition_by_ordinal(spark: SparkSession, schema: TableSchema) -> TableSchema:
    """The same files under one artificial partition column: the index of the file's Hive partition."""
    jvm = Jvm.of(spark)
    column = free_ordinal(schema.data.fieldNames())
    field = Field(name=column, type=DataType("integer"), nullable=False)
    json_field = {"name": column, "type": "integer", "nullable": False, "metadata": {}}
    partition_json = json.dumps({"type": "struct", "fields": [json_field]})
    return dataclasses.replace(
        schema,
        snapshot=dataclasses.replace(
            schema.snapshot,
            partition_fields=(field,),
            partitions=tuple(
                Partition(directory=p.directory, values=(i,)) for i, p in enumerate(schema.snapshot.partitions)
            ),
        ),
        partition=jvm.call(_TYPE, "fromJson")(partition_json),
        partition_json=partition_json,
        rows=invoke(jvm, singleton(jvm, "PartitionRows"), "numbers", len(schema.snapshot.partitions)),
    )


def _data_schema(spark: SparkSession, jvm: Jvm, snapshot: Snapshot) -> JavaObject:
    """The schema that `spark.read.parquet` infers, from the first file in the order of Java's strings or from all."""
    state = spark._jsparkSession.sessionState()
    settings, hadoop = state.conf(), state.newHadoopConf()
    summaries = _summaries(jvm, hadoop, snapshot.root)
    if summaries or settings.isParquetSchemaMergingEnabled():
        schema = _infer(spark, jvm, snapshot, summaries)
    else:
        one = np.zeros(len(snapshot), np.bool_)
        one[min(range(len(snapshot)), key=lambda i: snapshot.paths[i].encode("utf-16-be", "surrogatepass"))] = True
        first = snapshot.select(one)
        read = _read_footer(jvm, settings, hadoop, first)
        schema = _infer(spark, jvm, first, []) if read is None else read
    schema = schema.asNullable()
    jvm.module("org.apache.spark.sql.util.SchemaUtils").checkSchemaColumnNameDuplication(
        schema, settings.caseSensitiveAnalysis()
    )
    return schema


def _read_footer(jvm: Jvm, settings: JavaObject, hadoop: JavaObject, file: Snapshot) -> JavaObject | None:
    """What `_infer` finds in one file, without a job of Spark's; None where that has to say what is wrong."""
    path = jvm.find("org.apache.hadoop.fs.Path")(f"{qualify_root(file.root).rstrip('/')}/{file.paths[0]}")
    try:
        metadata = jvm.call("org.apache.parquet.hadoop.ParquetFileReader", "readFooter")(
            hadoop,
            path,
            jvm.once("SKIP_ROW_GROUPS", lambda: jvm.find(f"{_CONVERTER}.ParquetMetadataConverter").SKIP_ROW_GROUPS),
        )
        footer = jvm.find("org.apache.parquet.hadoop.Footer")(path, metadata)
        converter = jvm.find(f"{_PARQUET}.ParquetToSparkSchemaConverter")(settings)
        return jvm.call(f"{_PARQUET}.ParquetFileFormat", "readSchemaFromFooter")(footer, converter)
    except Exception:
        _log.debug("Spark has to read the footer of %s", file.paths[0], exc_info=True)
        return None


def _infer(spark: SparkSession, jvm: Jvm, snapshot: Snapshot, summaries: Sequence[JavaObject]) -> JavaObject:
    """Let Spark infer the schema of files, by a job."""
    files = file_statuses(jvm, snapshot)
    for summary in summaries:
        files.add(summary)
    parquet = jvm.find(f"{_PARQUET}.ParquetFileFormat")()
    try:
        option = parquet.inferSchema(spark._jsparkSession, jvm.empty_map, jvm.seq(files))
    except Exception as error:
        raise to_zskip_error(f'infer the columns of "{snapshot.root}"', error) from error
    if option.isEmpty():
        raise UnsupportedError(f'Spark finds no schema in "{snapshot.root}"; write its first file again')
    return option.get()


def _summaries(jvm: Jvm, hadoop: JavaObject, root: str) -> list[JavaObject]:
    """Statuses of old summary files in the root, whose schema Spark prefers."""
    path = jvm.find("org.apache.hadoop.fs.Path")
    directory = path(qualify_root(root))
    with translate_errors("look for old summary files in", root):
        files = directory.getFileSystem(hadoop)
        paths = [path(directory, name) for name in _SUMMARY_FILES]
        return [files.getFileStatus(p) for p in paths if files.exists(p)]


def _partitions(
    spark: SparkSession, jvm: Jvm, snapshot: Snapshot, declared: JavaObject
) -> tuple[JavaObject, JavaObject]:
    """Partition columns as a `StructType`, and a `java.util.List` of one InternalRow per partition.

    declared: the partition columns that the table declares, or None.
    """
    # Spark sees no partitions in directories whose files hold all columns.
    directories = [p.directory * bool(declared is None or declared.size()) for p in snapshot.partitions]
    if declared is not None and not directories:
        return declared, jvm.list_of()
    if not any(directories) or (snapshot.reading.declared is not None and not snapshot.partition_fields):
        row = jvm.call(_ROW, "empty")()
        struct = jvm.find("org.apache.spark.sql.types.StructType")()
        _check_declared(snapshot, struct, declared)
        return struct, jvm.call("java.util.Collections", "nCopies")(len(directories), row)
    root = qualify_root(snapshot.root)
    paths = file_paths(jvm, root, directories)
    base = jvm.seq_of(jvm.find("org.apache.hadoop.fs.Path")(root)).toSet()
    utils = jvm.module("org.apache.spark.sql.execution.datasources.PartitioningUtils")
    option = jvm.none if declared is None else jvm.some(declared)
    try:
        spec = compat.parse_partitions(spark, utils, jvm.seq(paths), base, option)
    except Exception as error:
        for directory in directories:
            if any(part.startswith("=") or part.endswith("=") for part in directory.split("/")):
                raise UnsupportedError(
                    f'Spark does not read "{snapshot.root}", since the directory "{directory}" has an empty name or '
                    f'value; rename it, for a null to "{directory.rstrip("=")}={DEFAULT_PARTITION}", or open the table '
                    "with zskip.open"
                ) from error
        raise to_zskip_error(f'read the partitions of "{snapshot.root}"', error) from error
    partitions = jvm.to_list(spec.partitions())
    if partitions.size() != len(directories):
        raise UnsupportedError(
            f'some directories with files in "{snapshot.root}" are not partitions of it; move them out of the table'
        )
    _check_declared(snapshot, spec.partitionColumns(), declared)
    return spec.partitionColumns() if declared is None else declared, get_each(jvm, partitions, "values")


def _check_declared(snapshot: Snapshot, inferred: JavaObject, declared: JavaObject) -> None:
    """Refuse directories whose partition columns differ from the declared ones, or from their order."""
    if declared is None:
        return
    names = [[(f.name, f.type) for f in fields_from_json(struct.json())] for struct in (inferred, declared)]
    if names[0] != names[1]:
        raise UnsupportedError(
            f'the directories of "{snapshot.root}" are partitioned by {[n for n, _ in names[0]]}, but the table is '
            f"declared to be partitioned by {[n for n, _ in names[1]]}; declare it as its directories are"
        )


def _read_values(
    jvm: Jvm, rows: JavaObject, column: int, schema: JavaObject, data_type: DataType
) -> Sequence[Encoded | None]:
    """The values of one partition column in the form of its type; None for null and for types without a form."""
    if data_type.form is None:
        return [None] * rows.size()
    kind = schema.apply(column).dataType()
    texts = jvm.read(invoke(jvm, singleton(jvm, "PartitionRows"), "texts", rows, column, kind))
    return [None if t is None else _encode(t, data_type) for t in texts]


def _encode(text: str, data_type: DataType) -> Encoded:
    """The form of a value, from the text of Spark's internal value (days, micro- or nanoseconds, unscaled decimals)."""
    if data_type.is_decimal:
        return encode(decimal.Decimal(text), data_type)
    if data_type.name == "boolean":
        return int(text == "true")
    if data_type.is_time:
        return int(text) // 1000
    if data_type.form is Form.INT:
        return int(text)
    if data_type.form is Form.FLOAT:
        return float(np.float32(text)) if data_type.name == "float" else float(text)
    return text.encode("utf-8", "surrogatepass")
