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


def unreadable(protocol: Any, configuration: Mapping[str, Any]) -> str | None:
    """The feature for which zskip would read a table wrongly, if any."""
    if protocol.min_reader_version > _MOST_READER:
        return f"the reader version {protocol.min_reader_version}"
    strange = _beyond(protocol.reader_features, _READ)
    if strange:
        return strange[0]
    mapped = str(configuration.get("delta.columnMapping.mode", "none")).lower() != "none"
    return "columnMapping" if mapped else None


def unwritable(protocol: Any) -> str | None:
    """The feature for which zskip cannot commit a rewrite as the table's protocol asks for, if any."""
    version = protocol.min_writer_version
    if version > _MOST_WRITER:
        return f"the writer version {version}"
    if version in _OLD_WRITER:
        return _OLD_WRITER[version]
    strange = _beyond(protocol.writer_features, _REPLACED)
    return next((name for name in strange if name in _WAY_OUT), strange[0]) if strange else None


def refusal(root: str, what: str, feature: str) -> UnsupportedError:
    """The error for a table that zskip cannot read or rewrite without Delta Lake."""
    advice = _WAY_OUT.get(feature.split(" (")[0], "work on it with Delta Lake itself")
    return UnsupportedError(
        f'zskip cannot {what} the Delta table "{root}", which uses {feature}; {advice}, or open it with a '
        "Spark session that has Delta Lake loaded. Nothing was written"
    )


def _beyond(features: Sequence[str] | None, known: set[str]) -> list[str]:
    return sorted(set(features or ()) - known)
