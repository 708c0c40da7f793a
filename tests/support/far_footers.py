"""Footers that executors read, as on a cluster."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from zskip.index.collect.footers import FooterReader
from zskip.index.collect.plain_footers import PlainFooterReader, make_footer_parser
from zskip.spark.collect import executors
from zskip.storage import Storage


def check_executors(spark: SparkSession, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """They read of each file what this process reads."""
    monkeypatch.setattr(spark.sparkContext, "master", "spark://elsewhere")
    workers = executors.workers_of(spark, storage)
    assert workers is not None
    found = sorted((f.path, f.size) for f in storage.walk(lambda name: name.startswith("_")))
    (told,) = workers.parse_files("read the footers", make_footer_parser(False), found)
    for (path, size), plain in zip(found, told, strict=True):
        with storage.open(path, size) as stream:
            assert PlainFooterReader().read(plain) == FooterReader().read(stream, size)
