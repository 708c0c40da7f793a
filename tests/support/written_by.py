"""Rewrites whose files Spark writes, as where Arrow would change a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from zskip.spark.write.arrow.schema import NotArrow


@contextmanager
def written_by(writer: str) -> Iterator[None]:
    """Rewrites in here are written by "spark"; "arrow" changes nothing."""
    if writer == "arrow":
        yield
        return
    with mock.patch("zskip.spark.write.staging.stage_through_arrow", side_effect=NotArrow("a test")):
        yield
