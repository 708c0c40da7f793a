"""Which tables of Delta's protocol zskip can read and commit to, found out before any work is done.

Everything that is not known to be harmless is refused by its name. Features that only bind those who write may be
passed over when a table is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zskip.errors import UnsupportedError

_MOST_READER = 3
_MOST_WRITER = 7
_OLD_WRITER = {6: "identityColumns"}
"""What versions without named features may demand beyond `_REPLACED`."""

_READ = {"deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Of readers; the first two only where the table makes no use of them, which is looked at apart."""

_REPLACED = {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "generatedColumns",
    "changeDataFeed",
    "deletionVectors",
    "columnMapping",
    "timestampNtz",
    "v2Checkpoint",
}
"""Of writers; a rewrite that keeps every row as it is cannot break them, and deltalake commits under them."""

_WAY_OUT = {
    "deletionVectors": "purge them with REORG TABLE ... APPLY (PURGE)",
    "columnMapping": "let Delta drop the feature (ALTER TABLE ... DROP FEATURE columnMapping)",
    "clustering": "let Delta cluster it with OPTIMIZE, or drop the feature after ALTER TABLE ... CLUSTER BY NONE",
    "rowTracking": "turn it off with ALTER TABLE ... DROP FEATURE rowTracking",
    "inCommitTimestamp": "turn it off with ALTER TABLE ... DROP FEATURE inCommitTimestamp",
    "vacuumProtocolCheck": "drop it with ALTER TABLE ... DROP FEATURE vacuumProtocolCheck",
    "typeWidening": "drop it with ALTER TABLE ... DROP FEATURE typeWidening",
}


def check_readable(root: str, protocol: Any, configuration: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for a table that zskip would read wrongly."""
    if protocol.min_reader_version > _MOST_READER:
        _refuse(root, "read", f"the reader version {protocol.min_reader_version}")
    strange = _beyond(protocol.reader_features, _READ)
    if strange:
        _refuse(root, "read", strange[0])
    if str(configuration.get("delta.columnMapping.mode", "none")).lower() != "none":
        _refuse(root, "read", "columnMapping")


def check_writable(root: str, protocol: Any) -> None:
    """Raise UnsupportedError for a table to which zskip cannot commit a rewrite as its protocol asks for."""
    version = protocol.min_writer_version
    if version > _MOST_WRITER:
        _refuse(root, "rewrite", f"the writer version {version}")
    strange = _beyond(protocol.writer_features, _REPLACED)
    if version in _OLD_WRITER:
        strange = [_OLD_WRITER[version]]
    if strange:
        named = [name for name in strange if name in _WAY_OUT]
        _refuse(root, "rewrite", (named or strange)[0])


def refuse_deletion_vectors(root: str, files: str) -> None:
    """Raise UnsupportedError for a table in which some live files have rows that are deleted."""
    _refuse(root, "read", "deletionVectors", f" ({files} live files have rows that are deleted)")


def _beyond(features: Sequence[str] | None, known: set[str]) -> list[str]:
    return sorted(set(features or ()) - known)


def _refuse(root: str, what: str, feature: str, detail: str = "") -> None:
    advice = _WAY_OUT.get(feature, "work on it with Delta Lake itself")
    raise UnsupportedError(
        f'zskip cannot {what} the Delta table "{root}", which uses {feature}{detail}; {advice}. Nothing was written'
    )
