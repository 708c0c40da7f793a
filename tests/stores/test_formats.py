"""Tables of the formats in an object store, without Spark and without a library of the format in a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from bucket import Bucket

import zskip
from zskip.errors import InputError


def test_hudi(bucket: Bucket) -> None:
    bucket.unpack("h", Path(__file__).parents[1] / "data" / "hudi" / "hive.zip")
    table = zskip.open(bucket.uri("h"), storage_options=bucket.options)
    everything = table.files()
    assert table.index().files == len(everything) > 1
    assert table.info().format == "hudi"
    assert 0 < len(table.files("id = 1")) < len(everything)
    assert table.clean().leftovers == ()
    assert all(key.startswith("h/.hoodie/zskip/") for key in bucket.names() if "zskip" in key.split("/"))
    with pytest.raises(zskip.ZskipError, match=r"zskip\.table"):
        table.optimize(by=["id", "ts"])


def test_iceberg(bucket: Bucket, tmp_path: Path) -> None:
    catalog = bucket.catalog(tmp_path)
    rows = pa.table({"id": list(range(90)), "v": [i % 7 for i in range(90)]})
    iceberg = catalog.create_table("n.t", schema=rows.schema)
    for i in range(3):
        iceberg.append(rows.slice(i * 30, 30))
    for path in (iceberg.location(), iceberg.location().replace("s3:", "s3a:"), iceberg):
        table = zskip.open(path, storage_options=bucket.options)
        assert table.index().files == 3
        assert table.info().format == "iceberg"
        assert len(table.files("id = 65")) == 1
        assert len(table.files("id = 65 or v = 3")) == 3
    assert table.clean().leftovers == ()


def test_what_is_no_table_of_the_format(bucket: Bucket) -> None:
    bucket.table("t", files=1)
    for name in ("delta", "iceberg", "hudi"):
        with pytest.raises(InputError, match=name):
            zskip.open(bucket.uri("t"), storage_options=bucket.options, format=name).info()
