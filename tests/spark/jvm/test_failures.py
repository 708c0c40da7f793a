"""Failures of Spark, by their texts: which error of zskip they become."""

from __future__ import annotations

import pytest

from zskip.errors import ConflictError, StorageError, UnsupportedError, ZskipError
from zskip.spark.jvm.failures import error_from_text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("java.io.FileNotFoundException: File file:/t/a.parquet does not exist", ConflictError),
        (
            "org.apache.spark.SparkFileNotFoundException: [FAILED_READ_FILE.FILE_NOT_EXIST] File hdfs://t/a",
            ConflictError,
        ),
        ("Error while reading file. File does not exist: /t/a.parquet", ConflictError),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/t/a.parquet'", ConflictError),
        ("[PATH_NOT_FOUND] Path does not exist: file:/t", ConflictError),
        ('AnalysisException: Column "x" does not exist. Did you mean one of the following?', UnsupportedError),
        ("IllegalArgumentException: Field x does not exist in the schema", UnsupportedError),
        ("org.apache.spark.SparkException: The function f does not exist", UnsupportedError),
        ("java.io.IOException: No space left on device", StorageError),
    ],
)
def test_only_a_file_that_is_gone_is_said_to_be_gone(text: str, kind: type[ZskipError]) -> None:
    error = error_from_text("rewrite 2 files of t", text)
    assert type(error) is kind
    assert ("disappeared" in str(error)) is (kind is ConflictError)
