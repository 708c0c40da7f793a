"""Rows that are too large for the memory of a task."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

import pyarrow as pa


class Spilled:
    """Batches in an Arrow file, which the system may cache in memory."""

    def __init__(self) -> None:
        directory = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
        handle, self._path = tempfile.mkstemp(prefix="zskip-", suffix=".arrow", dir=directory)
        os.close(handle)
        self._sink = pa.OSFile(self._path, "wb")
        self._stream: pa.RecordBatchStreamWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Append a batch of the same columns as all others."""
        if self._stream is None:
            self._stream = pa.ipc.new_stream(self._sink, batch.schema)
        self._stream.write_batch(batch)

    def table(self) -> pa.Table:
        """Map all batches into memory."""
        if self._stream is not None:
            self._stream.close()
        self._sink.close()
        table = pa.ipc.open_stream(pa.memory_map(self._path)).read_all()
        # The map keeps the content, and a task that is killed leaves nothing.
        os.remove(self._path)
        return table

    def __enter__(self) -> Spilled:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.remove(self._path)
