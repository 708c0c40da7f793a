"""Plain directories of Parquet files, with a commit log of their own."""

from zskip.formats.parquet.format import ParquetFormat

__all__ = ["ParquetFormat"]
