"""Parquet files with encrypted columns or an encrypted footer."""

from __future__ import annotations

import base64
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe


class _Keys(pe.KmsClient):  # type: ignore[misc]
    def __init__(self, config: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, name: str) -> bytes:
        return base64.b64decode(key)


def write_encrypted(path: Path, table: pa.Table, columns: list[str], *, plaintext_footer: bool = True) -> None:
    """Write a file whose leaf columns of these names nobody reads without a key."""
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": columns}, plaintext_footer=plaintext_footer
    )
    factory = pe.CryptoFactory(lambda _: _Keys(_))
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table, row_group_size=2)
