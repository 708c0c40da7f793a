"""A statement of one session in the midst of a statement of another."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import zskip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_amid(
    spark: SparkSession, place: Path, statement: str, other: str
) -> tuple[Exception | None, tuple[zskip.ScanReport, ...]]:
    """Run a statement that calls `wait(value)`, and another one in a new session while it waits there.

    Args:
        spark: The session of the statement.
        place: A new directory for the files by which the two tell each other how far they are.
        statement: SQL.
        other: SQL.

    Returns:
        The error of the statement, if there was one, and its scans.
    """
    place.mkdir()
    started, go = str(place / "started"), str(place / "go")

    def wait(value: int) -> int:
        Path(started).touch()
        while not Path(go).exists():
            time.sleep(0.01)
        return value

    spark.udf.register("wait", wait, "bigint")
    errors: list[Exception] = []
    scans: list[zskip.ScanReport] = []

    def run() -> None:
        try:
            spark.sql(statement).collect()
        except Exception as error:
            errors.append(error)
        scans.extend(zskip.scans(spark))

    thread = threading.Thread(target=run)
    thread.start()
    while not Path(started).exists() and thread.is_alive():
        time.sleep(0.01)
    try:
        spark.newSession().sql(other).collect()
    finally:
        Path(go).touch()
        thread.join()
    return (errors[0] if errors else None), tuple(scans)
