"""Table formats: what is live, and how a rewrite is committed."""

from zskip.formats.parquet import ParquetFormat, Staged

__all__ = ["ParquetFormat", "Staged"]
