"""Which rows of a data file are deleted, by deletion vectors and position deletes, which Delta and Iceberg share.

Both formats keep a vector as the 64-bit Roaring bitmap that its specification calls portable, behind four bytes that
name it; in a file, its length comes before and a checksum after it (the Delta protocol, "Deletion Vector Format"; the
Puffin specification, "deletion-vector-v1").
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zskip.records import Deletes, Ints
from zskip.spark.write.arrow.access import Access
from zskip.spark.write.arrow.schema import NotReadable

_MAGIC = b"\xd1\xd3\x39\x64"
_PATH, _POSITION = "file_path", "pos"


def read_vector(content: bytes) -> Ints:
    """The numbers of the rows in a deletion vector, ascending; raises NotReadable for what is none.

    >>> import pyroaring
    >>> read_vector(_MAGIC + pyroaring.BitMap64([3, 1 << 33]).serialize()).tolist()
    [3, 8589934592]
    """
    try:
        import pyroaring
    except ImportError as error:
        raise NotReadable("executors have no pyroaring, which reads deletion vectors") from error
    if not content.startswith(_MAGIC):
        raise NotReadable("a deletion vector does not begin as one")
    try:
        rows = pyroaring.BitMap64.deserialize(content[len(_MAGIC) :])
    except (ValueError, IndexError) as error:
        raise NotReadable(f"a deletion vector cannot be read: {error}") from error
    return np.fromiter(rows, np.int64, len(rows))


def describe_deletes(deletes: Sequence[Deletes]) -> list[tuple[str | None, int | None, int | None, str | None]]:
    """Deletion vectors and position deletes, as they travel to tasks."""
    inline = [None if one.inline is None else base64.b64encode(one.inline).decode() for one in deletes]
    return [(one.path, one.offset, one.size, text) for one, text in zip(deletes, inline, strict=True)]


def deleted_rows(access: Access, location: str, deletes: Sequence[Sequence[Any]]) -> Ints:
    """The numbers of a data file's deleted rows, ascending.

    location: what delete files call it; deletes: from `describe_deletes`.
    """
    rows = [
        read_vector(base64.b64decode(inline))
        if inline is not None
        else _stored_vector(access, path, offset, size)
        if offset is not None
        else _positions(access, path, size, location)
        for path, offset, size, inline in deletes
    ]
    return np.unique(np.concatenate(rows)) if rows else np.zeros(0, np.int64)


def _stored_vector(access: Access, path: str, offset: int, size: int | None) -> Ints:
    with access.open(path, size) as stream:
        stream.seek(offset)
        content = stream.read(int.from_bytes(stream.read(4), "big"))
        if int.from_bytes(stream.read(4), "big") != zlib.crc32(content):
            raise NotReadable(f'the deletion vector at {offset} in "{path}" has another checksum')
    return read_vector(content)


def _positions(access: Access, path: str, size: int | None, location: str) -> Ints:
    with access.open(path, size) as stream:
        # Rows lie by file, so that the statistics of few row groups fit.
        rows = pq.read_table(stream, columns=[_POSITION], filters=pc.field(_PATH) == location, use_threads=False)
    return cast(Ints, rows[_POSITION].to_numpy().astype(np.int64))
