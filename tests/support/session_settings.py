"""Settings of a Spark session that last as long as a `with`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """Set names with dots as they stand, and `spark.sql.<name>` for others, with dots for double underscores."""
    names = {name if "." in name else f"spark.sql.{name.replace('__', '.')}": values[name] for name in values}
    before = {name: spark.conf.get(name, None) for name in names}
    try:
        for name, value in names.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
