"""Deletion vectors: the files of which they delete rows, and which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from zskip.errors import UnsupportedError
from zskip.formats.delta.protocol import may_delete_rows
from zskip.formats.delta.values import relative_path
from zskip.formats.schema import first_line
from zskip.records import Bools, Deletes

if TYPE_CHECKING:
    from deltalake import DeltaTable


def read_deletes(table: DeltaTable, root: str) -> Mapping[str, tuple[Deletes, ...]]:
    """Read the deletion vectors of the live files, by the paths of the files.

    Raises UnsupportedError where deltalake cannot read them.
    """
    from deltalake.exceptions import DeltaError

    try:
        vectors = pa.table(table.deletion_vectors())
    except DeltaError as error:
        raise UnsupportedError(f'the deletion vectors of "{root}" cannot be read: {first_line(error)}') from error
    deletes = {}
    prefix = table.table_uri.rstrip("/") + "/"
    for uri, kept in zip(vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True):
        rows = np.flatnonzero(~kept.values.to_numpy(zero_copy_only=False))
        path = relative_path(uri.removeprefix(prefix), root)
        deletes[path] = (Deletes(kind="deletion vector", rows=rows.astype(np.int64)),)
    return deletes


def deleted_files(table: DeltaTable, root: str, paths: Sequence[str]) -> Bools | None:
    """(paths,) the live files of which rows are deleted, all where that cannot be read; None where no rows are.

    paths: of all live files.
    """
    if not may_delete_rows(table.protocol()):
        return None
    try:
        deletes = read_deletes(table, root)
    except UnsupportedError:
        return np.ones(len(paths), np.bool_) if paths else None
    deleted = np.array([path in deletes for path in paths], np.bool_)
    return deleted if deleted.any() else None
