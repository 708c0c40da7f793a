"""Iceberg's hidden partitions: files written under one spec with equal partition values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.transforms import IdentityTransform

from zskip.formats.commit_checks import target_path
from zskip.formats.iceberg.values import LiveFile
from zskip.records import Partition


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


def data_path(partition: str, name: str) -> str:
    """The path of a new file: below `data`, in a directory for its partition if the partition's name needs no escaping.

    >>> data_path("day=2024-01-01", "a.parquet"), data_path("s=a%20b", "a.parquet"), data_path("", "a.parquet")
    ('data/day=2024-01-01/a.parquet', 'data/a.parquet', 'data/a.parquet')
    """
    return f"data/{target_path(partition, name)}"
