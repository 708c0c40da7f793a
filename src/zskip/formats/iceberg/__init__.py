"""Iceberg tables: manifests and catalogs through `pyiceberg`."""

from zskip.formats.iceberg.format import IcebergFormat

__all__ = ["IcebergFormat"]
