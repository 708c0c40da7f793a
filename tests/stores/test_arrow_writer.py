"""The tasks of a rewrite through Arrow read from a store and write to it, each reaching it by itself."""

from __future__ import annotations

import io
import pickle
from mmap import mmap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bucket import Bucket
from pyspark import cloudpickle

from zskip.spark.shipping import by_value
from zskip.spark.write.arrow import access
from zskip.spark.write.arrow.access import RemoteAccess
from zskip.spark.write.arrow.reading import Source, describe_tasks
from zskip.spark.write.arrow.rows import merger
from zskip.spark.write.arrow.writing import FileOptions
from zskip.storage import parse_object_uri
from zskip.storage.objects import ObjectStorage


def test_files_of_a_store_are_merged(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [pa.table({"id": range(i * 1000, (i + 1) * 1000), "s": [f"{i} é"] * 1000}) for i in range(3)]
    for i, part in enumerate(parts):
        bucket.put_table(f"t/{i}.parquet", part)
    uri, options = parse_object_uri(bucket.uri("t")), bucket.options
    reach = lambda: RemoteAccess(ObjectStorage(uri, options))  # noqa: E731
    sizes = [(f"{i}.parquet", len(ObjectStorage(uri, options).read(f"{i}.parquet")), 0) for i in range(3)]
    given = FileOptions(
        reach=reach,
        directory="_zskip/staging/x",
        schema=parts[0].schema,
        codec="zstd",
        level=None,
        page_rows=100,
        row_bytes=10.0,
        metadata={},
    )
    for whole in (access._WHOLE, 10):  # at once, or by ranges
        monkeypatch.setattr(access, "_WHOLE", whole)
        with by_value():
            sent = cloudpickle.dumps(merger(given, reach, corrected=True))
        bins = iter([pa.RecordBatch.from_pydict({"value": describe_tasks([[Source(*one) for one in sizes]])})])
        (report,) = pa.Table.from_batches(list(pickle.loads(sent)(bins))).to_pylist()
        data = ObjectStorage(uri, options).read(f"_zskip/staging/x/{report['name']}")
        assert len(data) == report["bytes"]
        assert pq.read_table(io.BytesIO(data)).equals(pa.concat_tables(parts))
    assert len(bucket.names("t/_zskip")) == 2


def test_a_new_file_is_uploaded_without_a_copy_in_memory(tmp_path: Path) -> None:
    written: dict[str, tuple[type, bytes]] = {}

    class Uploads:
        def write(self, path: str, data: bytes, *, overwrite: bool) -> None:
            written[path] = type(data), bytes(data)

    (tmp_path / "new").write_bytes(b"PAR1" * 1000)
    RemoteAccess(Uploads()).publish(str(tmp_path / "new"), "a.parquet")
    assert written == {"a.parquet": (mmap, b"PAR1" * 1000)}
    assert not (tmp_path / "new").exists()
