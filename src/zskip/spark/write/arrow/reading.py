"""The rows of data files as batches of Arrow, of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from zskip.errors import ZskipError
from zskip.spark.write.arrow.access import Access
from zskip.spark.write.arrow.schema import NotArrow, check_file

_MOST_ROWS = 65_536
_FIRST_ROWS = 8_192
_BATCH_BYTES = 16 << 20
_STREAMED = 256 << 20
"""Of row groups of more bytes columns are read piece by piece."""
_BUFFER = 1 << 20


class Source(NamedTuple):
    """A data file, or those of its row groups that begin in one of some equal parts of it."""

    path: str
    size: int
    partition: int
    """The place of its Hive partition in the snapshot."""
    part: int = 0
    parts: int = 1


class Reader:
    """Reads the files of one table in the columns, and the types, of a schema."""

    def __init__(self, access: Access, schema: pa.Schema, *, corrected: bool) -> None:
        """corrected: as `check_file` takes it."""
        self._access = access
        self._schema = schema
        self._corrected = corrected
        self._row_bytes = 0.0
        """The most bytes that a row of a batch took."""

    def batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        """The rows of a file in their order. Raises NotArrow for a file that pyarrow reads otherwise than Spark."""
        try:
            with self._access.open(source.path, source.size) as stream:
                yield from self._batches(stream, source)
        except (pa.ArrowException, OSError, ZskipError) as error:
            # Spark reads more, and says in its own words what it cannot read.
            raise NotArrow(f'pyarrow cannot read "{source.path}": {str(error).splitlines()[0]}') from error

    def _batches(self, stream: Any, source: Source) -> Iterator[pa.RecordBatch]:
        metadata = pq.read_metadata(stream)
        check_file(metadata, self._schema, corrected=self._corrected)
        groups = _row_groups(metadata, source)
        largest = max((metadata.row_group(i).total_byte_size for i in groups), default=0)
        file = pq.ParquetFile(
            stream, metadata=metadata, pre_buffer=False, buffer_size=_BUFFER if largest > _STREAMED else 0
        )
        columns = self._columns(file.schema_arrow)
        for group in groups:
            rows = _FIRST_ROWS if not self._row_bytes else int(_BATCH_BYTES / self._row_bytes)
            for batch in file.iter_batches(
                min(max(rows, 1), _MOST_ROWS), row_groups=[group], columns=columns, use_threads=False
            ):
                if batch.num_rows:
                    self._row_bytes = max(self._row_bytes, batch.nbytes / batch.num_rows, 1.0)
                    yield self._typed(batch)

    def _columns(self, stored: pa.Schema) -> list[str] | None:
        """The columns to read; None for all, also where a name could mean a part of a column."""
        names = self._schema.names
        return None if set(names) == set(stored.names) or any("." in name for name in names) else names

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(batch.schema.get_field_index(name)) for name in self._schema.names]
        typed = [c if c.type == f.type else c.cast(f.type) for c, f in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=self._schema)


def _row_groups(metadata: pq.FileMetaData, source: Source) -> list[int]:
    """The row groups that begin in the source's part of the file."""
    if source.parts == 1:
        return list(range(metadata.num_row_groups))
    groups, start = [], 4
    for i in range(metadata.num_row_groups):
        if min(start * source.parts // max(source.size, 1), source.parts - 1) == source.part:
            groups.append(i)
        group = metadata.row_group(i)
        start += sum(group.column(j).total_compressed_size for j in range(group.num_columns))
    return groups
