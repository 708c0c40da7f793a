"""Deletion vectors: the files of which they delete rows, and which rows."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from zskip.errors import UnsupportedError
from zskip.formats.delta.protocol import may_delete_rows
from zskip.formats.delta.values import relative_path
from zskip.formats.schema import first_line
from zskip.records import Bools, Deletes

if TYPE_CHECKING:
    from deltalake import DeltaTable

VECTOR = "deletion vector"
_NAME_LENGTH = 20
"""Characters of the UUID in the name of a file with vectors."""
_Z85 = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
"""From the alphabet of ZeroMQ's RFC 32, in which the log writes bytes, to Python's."""


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
        deletes[path] = (Deletes(kind=VECTOR, rows=rows.astype(np.int64)),)
    return deletes


def read_descriptor(vector: Mapping[str, Any], root: str) -> Deletes:
    """Where the log says that a deletion vector is; its path is relative to the table.

    Raises UnsupportedError for a vector outside of the table's directory.

    >>> read_descriptor({"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}, "/t").path
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    place, offset = str(vector["pathOrInlineDv"]), vector.get("offset") or 0
    if vector["storageType"] == "i":
        return Deletes(kind=VECTOR, inline=_decode(place)[: vector["sizeInBytes"]])
    if vector["storageType"] == "u":
        prefix, name = place[:-_NAME_LENGTH], uuid.UUID(bytes=_decode(place[-_NAME_LENGTH:]))
        place = f"{prefix}{'/' * bool(prefix)}deletion_vector_{name}.bin"
    return Deletes(kind=VECTOR, path=relative_path(place, root), offset=offset)


def _decode(text: str) -> bytes:
    return base64.b85decode(text.translate(_Z85))


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
