"""Delta tables: the log through `deltalake`, one transaction for each rewrite."""

from zskip.formats.delta.format import DeltaFormat

__all__ = ["DeltaFormat"]
