"""Fixtures that the tests of scans share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"


@pytest.fixture
def old_dates(spark: SparkSession) -> Iterator[None]:
    """Dates before 1582 in files of other writers are read as they are, which Spark 3.5 refuses by default."""
    spark.conf.set(_REBASE, "CORRECTED")
    yield
    spark.conf.unset(_REBASE)
