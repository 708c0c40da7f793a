"""Iceberg's hidden partitions: files written under one spec with equal partition values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id, index_name_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import BinaryType, DoubleType, FloatType, TimestampType, TimestamptzType

from zskip.errors import ConflictError, UnsupportedError
from zskip.formats.commit_checks import target_path
from zskip.formats.hive import DEFAULT_PARTITION, directory_of, parse_directory
from zskip.formats.iceberg.values import LiveFile
from zskip.records import Partition

_WITHOUT_TEXT = (FloatType, DoubleType, BinaryType, TimestampType, TimestamptzType)
"""Types whose partition values Iceberg does not read from texts, or not all of them."""
_PERIODS: Mapping[type[Transform], str] = {  # type: ignore[type-arg]
    YearTransform: "years",
    MonthTransform: "months",
    DayTransform: "days",
    HourTransform: "hours",
}


def read_partitions(
    files: Sequence[LiveFile], specs: Mapping[int, PartitionSpec], schema: Schema
) -> tuple[tuple[Partition, ...], npt.NDArray[np.int32]]:
    """The partitions in the order of their first files, and each file's index into them.

    They have no values, since their columns are no partition columns for Spark. Their names are unique.
    """
    ordinals: dict[tuple[int, str], int] = {}
    names: dict[str, None] = {}
    partition_of = np.zeros(len(files), np.int32)
    for i, file in enumerate(files):
        key = file.spec, repr([file.data.partition[j] for j in range(len(specs[file.spec].fields))])
        if key not in ordinals:
            ordinals[key] = len(ordinals)
            name = _name(file, specs[file.spec], schema)
            while name in names:
                name += f"/spec={file.spec}"
            names[name] = None
        partition_of[i] = ordinals[key]
    return tuple(Partition(directory=name) for name in names), partition_of


def grouped_columns(files: Sequence[LiveFile], specs: Mapping[int, PartitionSpec], schema: Schema) -> tuple[str, ...]:
    """The columns with one value in all rows of a partition, under every spec that files were written with."""
    used = [specs[spec] for spec in {file.spec for file in files}]
    identities = [
        {part.source_id for part in spec.fields if isinstance(part.transform, IdentityTransform)} for spec in used
    ]
    return tuple(f.name for f in schema.fields if used and all(f.field_id in sources for sources in identities))


def _name(file: LiveFile, spec: PartitionSpec, schema: Schema) -> str:
    """A partition's name in messages and directories; "" for tables without partitions."""
    columns = index_by_id(schema)
    texts = []
    for i, field in enumerate(spec.fields):
        value: Any = file.data.partition[i]
        source = columns.get(field.source_id)
        text = str(value) if source is None else field.transform.to_human_string(source.field_type, value)
        texts.append(f"{quote(field.name, safe='')}={quote(text, safe='')}")
    return "/".join(texts)


def read_partition_expressions(metadata: TableMetadata, catalog: str) -> dict[str, str]:
    """The partition values of a row, in the SQL of a session with the catalog, by the ids of the partition fields."""
    schema, expressions = metadata.schema(), {}
    names = index_name_by_id(schema)
    for field in metadata.spec().fields:
        transform, kind = field.transform, schema.find_type(field.source_id)
        name = ".".join(f"`{part}`" for part in names[field.source_id].split("."))
        call = f"`{catalog}`.system."
        if isinstance(transform, VoidTransform):
            continue
        if isinstance(transform, IdentityTransform | TruncateTransform) and isinstance(kind, _WITHOUT_TEXT):
            refuse_append(metadata.location, f'is partitioned by "{field.name}", a {kind}')
        if isinstance(transform, IdentityTransform):
            text = name
        elif isinstance(transform, BucketTransform):
            text = f"{call}bucket({transform.num_buckets}, {name})"
        elif isinstance(transform, TruncateTransform):
            text = f"{call}truncate({transform.width}, {name})"
        elif type(transform) in _PERIODS:
            text = f"{call}{_PERIODS[type(transform)]}({name})"
        else:
            refuse_append(metadata.location, f"is partitioned by {transform} of a column, which zskip does not know")
        expressions[str(field.field_id)] = text
    return expressions


def refuse_append(root: str, reason: str) -> NoReturn:
    """Raise UnsupportedError for a table to which only Iceberg appends."""
    raise UnsupportedError(
        f'zskip does not append to the Iceberg table "{root}", which {reason}; append with its engine, as in '
        "df.writeTo(...).append(), and let maintain() put the new rows in order. Nothing was written"
    )


def partition_values(metadata: TableMetadata, spec: int, directory: str) -> list[str | None]:
    """The texts of partition values for the fields of a spec, from a directory with the ids of the fields as names.

    Raises ConflictError if the directory is of another spec.
    """
    texts = dict(parse_directory(directory)) if directory else {}
    fields = metadata.specs()[spec].fields
    if texts.keys() != {str(f.field_id) for f in fields if not isinstance(f.transform, VoidTransform)}:
        raise ConflictError(f'the partitions of "{metadata.location}" were changed meanwhile; call again')
    return [None if (text := texts.get(str(f.field_id))) == DEFAULT_PARTITION else text for f in fields]


def name_partition(metadata: TableMetadata, directory: str) -> str:
    """The directory of a partition under the current spec, with the names of its fields."""
    texts = partition_values(metadata, metadata.default_spec_id, directory)
    return directory_of([field.name for field in metadata.spec().fields], texts)


def data_path(partition: str, name: str) -> str:
    """The path of a new file: below `data`, in a directory for its partition if the partition's name needs no escaping.

    >>> data_path("day=2024-01-01", "a.parquet"), data_path("s=a%20b", "a.parquet"), data_path("", "a.parquet")
    ('data/day=2024-01-01/a.parquet', 'data/a.parquet', 'data/a.parquet')
    """
    return f"data/{target_path(partition, name)}"
