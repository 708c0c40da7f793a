"""Checks which Hudi tables zskip can read and rewrite, before any work is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from zskip.errors import UnsupportedError
from zskip.storage import Storage

_VERSIONS = ("5", "6", "8", "9")
"""Table versions: those of Hudi 0.12 to 0.15 and of 1.0 to 1.2."""
_LOST_TYPES = {"bytes decimal", "timestamp-millis", "local-timestamp-millis", "uuid", "enum", "fixed"}
"""Types that Spark's own types do not distinguish from others."""
_MAINTAINED = {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
"""Partitions of a metadata table that Hudi updates from the commit alone."""
_SCHEMAS = ".hoodie/.schema"
_PREFIX = "hoodie."
_PARTITION_MARK = ".hoodie_partition_metadata"
"""The file, apart from an ending, that Hudi writes into the directory of each partition."""


def metadata_parts(options: Mapping[str, str]) -> set[str]:
    """The partitions of a table's metadata table, such as `column_stats`.

    options: from `hoodie.properties`.

    >>> sorted(metadata_parts({"hoodie.table.metadata.partitions": "files, column_stats"}))
    ['column_stats', 'files']
    """
    parts = (part.strip() for part in options.get("hoodie.table.metadata.partitions", "").split(","))
    return {part for part in parts if part}


def check_partitions(storage: Storage, options: Mapping[str, str], directories: Iterable[str]) -> None:
    """Raise UnsupportedError for a partition above another one, which the package `hudi` does not list.

    directories: of the partitions that it lists. Only values with slashes lead to such ones; Hudi's metadata table
    lists all.
    """
    if "files" in metadata_parts(options):
        return
    fields, known = options.get("hoodie.table.partition.fields", "").count(",") + 1, set(directories)
    parts = (directory.split("/") for directory in known)
    above = {"/".join(names[:i]) for names in parts if len(names) > fields for i in range(1, len(names))}
    for directory in sorted(above - known):
        names = [entry.path.rpartition("/")[2] for entry in storage.list_dir(directory) if not entry.is_dir]
        if any(name.startswith(_PARTITION_MARK) for name in names):
            _refuse(
                storage,
                f'the partition "{directory}" above another one, which Hudi itself lists only with its metadata table',
                "turn that on (hoodie.metadata.enable=true), or write the values of partitions encoded "
                "(hoodie.datasource.write.partitionpath.urlencode=true)",
            )


def check_readable(storage: Storage, options: Mapping[str, str]) -> None:
    """Raise UnsupportedError for a table that zskip would read wrongly.

    options: from `hoodie.properties`.
    """

    def setting(name: str, default: str = "") -> str:
        return options.get(_PREFIX + name, default).strip()

    version = setting("table.version", "6")
    if version not in _VERSIONS:
        _refuse(storage, f"version {version}", "let Hudi upgrade it, or read it with Hudi itself")
    if setting("table.base.file.format", "PARQUET").upper() != "PARQUET" or _is_true(
        setting("table.multiple.base.file.formats.enable")
    ):
        _refuse(storage, "base files that are not Parquet", "zskip reads Parquet only: read it with Hudi itself")
    if setting("table.format", "native").lower() != "native":
        _refuse(storage, f"the table format {setting('table.format')}", "open it with that format")
    if setting("bootstrap.base.path"):
        _refuse(storage, "bootstrapped files, which lie partly elsewhere", "rewrite it with Hudi into a full table")
    if _is_true(setting("datasource.write.drop.partition.columns")):
        _refuse(
            storage,
            "partition columns that are not in its files (hoodie.datasource.write.drop.partition.columns)",
            "write it with that setting off",
        )
    if any(not file.is_dir and file.path.endswith(".schemacommit") for file in storage.list_dir(_SCHEMAS)):
        _refuse(
            storage,
            "columns that go by ids (hoodie.schema.on.read.enable)",
            "columns were renamed or dropped in it: read it with Hudi itself, or copy it into a new table",
        )


def check_rewritable(root: str, options: Mapping[str, str], avro: str) -> None:
    """Raise UnsupportedError for a table whose files zskip must not rewrite.

    avro: the schema of the table's own columns.
    """
    if _is_true(options.get("hoodie.table.cdc.enabled", "")):
        raise UnsupportedError(
            f'the Hudi table "{root}" keeps a log of changes (hoodie.table.cdc.enabled), in which a rewrite would show '
            "as a change of every row; cluster it with Hudi (CALL run_clustering). Nothing was written"
        )
    if options.get("hoodie.populate.meta.fields", "true").lower() == "false":
        raise UnsupportedError(
            f'the Hudi table "{root}" is without the columns that Hudi adds (hoodie.populate.meta.fields), by which '
            "zskip tells Hudi where rows belong; cluster it with Hudi (CALL run_clustering). Nothing was written"
        )
    types = sorted(_kinds(json.loads(avro)) & _LOST_TYPES)
    if types:
        raise UnsupportedError(
            f'the Hudi table "{root}" has a column of the Avro type {types[0]}, which Spark would write as another '
            "one; cluster it with Hudi (CALL run_clustering). Nothing was written"
        )
    parts = sorted(metadata_parts(options) - _MAINTAINED)
    if parts:
        raise UnsupportedError(
            f'the Hudi table "{root}" has the index {parts[0]}, which zskip has not been tried with; '
            "cluster it with Hudi (CALL run_clustering), or drop the index. Nothing was written"
        )


def _kinds(avro: object) -> set[str]:
    """All types in a schema, by their logical names if they have any."""
    if isinstance(avro, str):
        return {avro}
    if isinstance(avro, list):
        return set().union(*map(_kinds, avro))
    assert isinstance(avro, dict), "schemas are made of texts, lists and objects"
    kind = avro["type"]
    if avro.get("logicalType") is not None:
        return {f"{kind} {avro['logicalType']}" if kind == "bytes" else str(avro["logicalType"])}
    inner = [field["type"] for field in avro.get("fields", ())] + [avro[n] for n in ("items", "values") if n in avro]
    return _kinds(kind) | set().union(*map(_kinds, inner))


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _refuse(storage: Storage, feature: str, advice: str) -> None:
    raise UnsupportedError(
        f'zskip cannot read the Hudi table "{storage.root}", which has {feature}; {advice}. Nothing was written'
    )
