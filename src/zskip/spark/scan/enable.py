"""Every scan of a session prunes, or none: a setting of the session, read by the rule in its optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zskip.spark.jvm.compat import check_session
from zskip.spark.scan.rule.install import install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.zskip.enabled"


def switch_on(spark: SparkSession, beside: Callable[[], object] | None = None) -> None:
    """Install the rule and set the setting; beside: as in `install`."""
    install(spark, beside)
    spark.conf.set(SETTING, "true")


def switch_off(spark: SparkSession) -> None:
    """Unset the setting; the rule stays, for `Table.df()`."""
    check_session(spark)
    spark.conf.set(SETTING, "false")


@contextmanager
def switched_on(spark: SparkSession, beside: Callable[[], object] | None = None) -> Iterator[SparkSession]:
    """The setting for a while; what it was comes back. beside: as in `install`."""
    check_session(spark)
    before = spark.conf.get(SETTING, None)
    switch_on(spark, beside)
    try:
        yield spark
    finally:
        if spark.sparkContext._jsc is not None:
            if before is None:
                spark.conf.unset(SETTING)
            else:
                spark.conf.set(SETTING, before)
