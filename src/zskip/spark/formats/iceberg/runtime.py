"""Which versions of Iceberg's runtime zskip rewrites tables with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from zskip.errors import UnsupportedError
from zskip.spark.formats.iceberg.catalog import ICEBERG, SessionCatalog
from zskip.spark.jvm import compat
from zskip.spark.jvm.failures import root_cause, text_with_causes
from zskip.spark.jvm.gateway import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WITH_ROW_IDS = 3
"""The first version of tables whose rows have ids, which older versions of Iceberg would not keep."""
_OLDEST, _OLDEST_WITH_ROW_IDS = (1, 9), (1, 10)


def check_runtime(spark: SparkSession, catalog: SessionCatalog) -> None:
    """Raise UnsupportedError where the runtime is older than the calls that a rewrite needs, or lacks a type."""
    jvm, table = Jvm.of(spark), catalog.load()
    version = jvm.call(f"{ICEBERG}.IcebergBuild", "version")()
    oldest = _OLDEST_WITH_ROW_IDS if table.operations().current().formatVersion() >= _WITH_ROW_IDS else _OLDEST
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < oldest:
        raise UnsupportedError(
            f'zskip rewrites "{catalog.table}" through Iceberg {".".join(map(str, oldest))} or later, and '
            f"the session has loaded {version}; load {compat.iceberg_runtime(spark)}. Nothing was written"
        )
    try:
        jvm.call(f"{ICEBERG}.spark.SparkSchemaUtil", "convert")(table.schema())
    except Py4JError as error:
        raise UnsupportedError(
            f'Iceberg\'s runtime in Spark does not read "{catalog.table}" '
            f"({root_cause(text_with_causes(error))}); rewrite it with another engine. Nothing was written"
        ) from error
