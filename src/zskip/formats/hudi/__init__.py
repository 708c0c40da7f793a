"""Hudi tables: file slices and timeline through the `hudi` package."""

from zskip.formats.hudi.format import HudiFormat

__all__ = ["HudiFormat"]
