"""Iceberg's hidden partitions: files written under one spec with equal partition values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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

from zskip.errors import ColumnError, ConflictError, InputError, UnsupportedError
from zskip.formats.commit_checks import target_path
from zskip.formats.hive import DEFAULT_PARTITION, directory_of, parse_directory
from zskip.formats.iceberg.values import LiveFile, leaves
from zskip.records import Partition

_WITHOUT_TEXT = (FloatType, DoubleType, BinaryType, TimestampType, TimestamptzType)
"""Types whose partition values Iceberg does not read from texts, or not all of them."""
_PERIODS: Mapping[type[Transform], str] = {  # type: ignore[type-arg]
    YearTransform: "years",
    MonthTransform: "months",
    DayTransform: "days",
    HourTransform: "hours",
}

_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,9}")
_NAMES: Mapping[str, Callable[[], Transform[Any, Any]]] = {
    "identity": IdentityTransform,
    **dict.fromkeys(("years", "year"), YearTransform),
    **dict.fromkeys(("months", "month"), MonthTransform),
    **dict.fromkeys(("days", "day", "date"), DayTransform),
    **dict.fromkeys(("hours", "hour", "date_hour"), HourTransform),
}
"""Transforms of a column alone, as Spark and Iceberg spell them."""
_NUMBERED_NAMES: Mapping[str, Callable[[int], Transform[Any, Any]]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionTerm:
    """A partition field of a new table: a transform of a column."""

    column: str
    """The full name, as Iceberg spells it."""
    transform: Transform[Any, Any]


def parse_partition_terms(
    texts: Sequence[str], schema: Schema, table: str, *, case_sensitive: bool
) -> tuple[PartitionTerm, ...]:
    """Read the partition fields of a new table as Spark spells them: columns, and transforms such as "days(ts)".

    Raises ColumnError for unknown columns and those whose type the transform does not take, InputError for unknown
    transforms, and UnsupportedError for values that zskip does not write.

    >>> from pyiceberg.types import LongType, NestedField
    >>> schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", LongType()))
    >>> terms = parse_partition_terms(["bucket(8, id)", "p"], schema, "db.t", case_sensitive=False)
    >>> [(term.column, str(term.transform)) for term in terms]
    [('id', 'bucket[8]'), ('p', 'identity')]
    """
    terms: list[PartitionTerm] = []
    for text in texts:
        term = _parse_term(text, schema, table, case_sensitive)
        if any(_is_redundant(term, other) for other in terms):
            raise ColumnError(
                f'partition_by names "{term.column}" twice by the same transform, or by two periods of time; '
                "Iceberg takes one of them"
            )
        terms.append(term)
    return tuple(terms)


def check_partition_terms(texts: Sequence[str], metadata: TableMetadata, table: str, *, case_sensitive: bool) -> None:
    """Raise InputError unless partition fields, in the form of `parse_partition_terms`, are those of new files."""
    schema = metadata.schema()
    terms = parse_partition_terms(texts, schema, table, case_sensitive=case_sensitive)
    fields = [field for field in metadata.spec().fields if not isinstance(field.transform, VoidTransform)]
    given = [(schema.find_field(term.column).field_id, term.transform) for term in terms]
    if given != [(field.source_id, field.transform) for field in fields]:
        names = index_name_by_id(schema)
        own = ", ".join(f"{field.transform} of {names.get(field.source_id, field.name)}" for field in fields)
        now = f"partitioned by {own}" if fields else "not partitioned"
        raise InputError(f'partition_by={list(texts)}: "{table}" is {now}; leave partition_by out')


def _is_redundant(term: PartitionTerm, other: PartitionTerm) -> bool:
    both = type(term.transform), type(other.transform)
    return term.column == other.column and (term.transform == other.transform or all(kind in _PERIODS for kind in both))


def _parse_term(text: str, schema: Schema, table: str, case_sensitive: bool) -> PartitionTerm:
    names = {name if case_sensitive else name.lower(): name for name in index_name_by_id(schema).values()}
    call = _CALL.fullmatch(text)
    if _find_column(names, text, case_sensitive) is not None:
        call = None
    identity: Transform[Any, Any] = IdentityTransform()
    argument, transform = (text, identity) if call is None else _parse_call(text, call[1].lower(), call[2])
    column = _find_column(names, argument, case_sensitive)
    if column is None:
        raise ColumnError.unknown(_unquote(argument), names.values(), f'the rows for "{table}" (partition_by)')
    kind = schema.find_type(column)
    if not transform.can_transform(kind):
        raise ColumnError(
            f'partition_by="{text}": Iceberg has no {transform} of "{column}", a {kind}; take another transform or '
            "another column"
        )
    if isinstance(transform, IdentityTransform | TruncateTransform) and isinstance(kind, _WITHOUT_TEXT):
        raise UnsupportedError(
            f'partition_by="{text}": zskip does not write partitions by the values of a {kind}; take another '
            "transform or another column, or make the table with df.writeTo(...).create(). Nothing was written"
        )
    return PartitionTerm(column=column, transform=transform)


def _parse_call(text: str, name: str, arguments: str) -> tuple[str, Transform[Any, Any]]:
    """The column and the transform of a call such as `bucket(8, id)`."""
    if name in _NAMES:
        return arguments, _NAMES[name]()
    if name not in _NUMBERED_NAMES:
        known = [*_NAMES, *_NUMBERED_NAMES]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "Iceberg has years, months, days, hours, bucket and truncate"
        raise InputError(f'partition_by="{text}" names no transform of Iceberg; {hint}')
    first, _, second = (part.strip() for part in arguments.partition(","))
    number, column = (first, second) if _NUMBER.fullmatch(first) else (second, first)
    if not _NUMBER.fullmatch(number) or not int(number) or not column:
        example = "bucket(16, id)" if name == "bucket" else "truncate(4, name)"
        raise InputError(f'partition_by="{text}": {name} takes a positive number and a column, as in "{example}"')
    return column, _NUMBERED_NAMES[name](int(number))


def _find_column(names: Mapping[str, str], text: str, case_sensitive: bool) -> str | None:
    """The column of a name, which may stand in backticks."""
    for name in (text, _unquote(text)):
        column = names.get(name if case_sensitive else name.lower())
        if column is not None:
            return column
    return None


def _unquote(text: str) -> str:
    parts = re.findall(r"`((?:[^`]|``)*)`|([^.`]+)", text.strip())
    return ".".join(quoted.replace("``", "`") or plain for quoted, plain in parts)


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
    # Of columns in structs, too: their parts may have dots, and backticks.
    names = {
        i: ".".join("`" + part.replace("`", "``") + "`" for part in path) for path, i in leaves(schema.as_struct())
    }
    for field in metadata.spec().fields:
        transform, kind = field.transform, schema.find_type(field.source_id)
        name, call = names[field.source_id], f"`{catalog}`.system."
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
