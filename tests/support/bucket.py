"""A bucket of the store under test, as its owner sees it."""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from obstore.store import S3Store

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog


@dataclass(frozen=True)
class Bucket:
    endpoint: str
    name: str

    @classmethod
    def make(cls, endpoint: str, name: str) -> Bucket:
        made = cls(endpoint, name)
        made.client.create_bucket(Bucket=name)
        return made

    @property
    def client(self) -> Any:
        """Tells more of objects than `store`."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.options["aws_access_key_id"],
            aws_secret_access_key=self.options["aws_secret_access_key"],
        )

    @property
    def options(self) -> dict[str, str]:
        return options(self.endpoint)

    @property
    def store(self) -> S3Store:
        keys: Any = self.options
        return S3Store(self.name, config=keys, client_options={"allow_http": True})

    def uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.store, key, data)

    def put_table(self, key: str, table: pa.Table) -> None:
        stream = io.BytesIO()
        pq.write_table(table, stream)
        self.put(key, stream.getvalue())

    def unpack(self, key: str, packed: Path) -> None:
        """Put the files of a zip archive below a key."""
        with zipfile.ZipFile(packed) as archive:
            for name in archive.namelist():
                if not name.endswith("/"):
                    self.put(f"{key}/{name}", archive.read(name))

    def names(self, prefix: str = "") -> list[str]:
        return sorted(meta["path"] for meta in obstore.list(self.store, prefix or None).collect())

    def catalog(self, place: Path) -> SqlCatalog:
        """A catalog of Iceberg with a namespace "n", whose tables lie in the bucket, and its own file at a place."""
        from pyiceberg.catalog.sql import SqlCatalog

        keys = self.options
        reach = {
            "s3.endpoint": self.endpoint,
            "s3.region": keys["aws_region"],
            "s3.access-key-id": keys["aws_access_key_id"],
            "s3.secret-access-key": keys["aws_secret_access_key"],
        }
        made = SqlCatalog("c", uri=f"sqlite:///{place}/catalog.db", warehouse=self.uri("wh"), **reach)
        made.create_namespace("n")
        return made

    def table(self, key: str, files: int = 10, rows: int = 100) -> None:
        """Files that hold `id` in order, so that a range of it lies in few of them, and `v` in none."""
        for i in range(files):
            ids = np.arange(i * rows, (i + 1) * rows)
            self.put_table(f"{key}/d={i % 2}/part-{i:05}.parquet", pa.table({"id": ids, "v": (ids * 7919) % 1000}))


def options(endpoint: str) -> dict[str, str]:
    """How the store is reached, in the words of deltalake and Polars."""
    return {
        "aws_access_key_id": os.environ.get("AWS_ACCESS_KEY_ID", "x"),
        "aws_secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY", "y"),
        "aws_region": "us-east-1",
        "aws_endpoint_url": endpoint,
    }
