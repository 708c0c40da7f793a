"""Checks which tables zskip can read and commit to by Delta's protocol, before any work is done.

Every feature that is not known to be harmless is refused by name. Features that bind only writers do not matter for
reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zskip.errors import UnsupportedError

_MOST_READER = 3
_MOST_WRITER = 7
_OLD_WRITER = {6: "identityColumns"}
"""Demands beyond `_REPLACED` of versions without named features."""

_WIDENING = ("typeWidening", "typeWidening-preview")
_READ = {"deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", *_WIDENING}
"""Reader features whose meaning for the statistics of files is known."""

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
"""Writer features that a rewrite with unchanged rows cannot violate, and that deltalake supports."""

_BY_SESSION = {
    *_REPLACED,
    *_WIDENING,
    "allowColumnDefaults",
    "checkpointProtection",
    "clustering",
    "domainMetadata",
    "identityColumns",
    "inCommitTimestamp",
    "rowTracking",
    "vacuumProtocolCheck",
}
"""Writer features of tables to which one of Delta Lake's own transactions adds files of new rows."""

_BY_CATALOG = {
    "catalogManaged",
    "catalogOwned",
    "catalogOwned-preview",
    "coordinatedCommits",
    "coordinatedCommits-preview",
}
"""Features of tables of which a catalog, not the log, knows the newest version."""
_COORDINATOR = "delta.coordinatedCommits."
"""How the properties begin that name such a catalog."""

_WAY_OUT = {
    "deletionVectors": "purge them with REORG TABLE ... APPLY (PURGE)",
    "columnMapping": "let Delta drop the feature (ALTER TABLE ... DROP FEATURE columnMapping)",
    "clustering": "let Delta cluster it with OPTIMIZE, or drop the feature after ALTER TABLE ... CLUSTER BY NONE",
    "rowTracking": "turn it off with ALTER TABLE ... DROP FEATURE rowTracking",
    "inCommitTimestamp": "turn it off with ALTER TABLE ... DROP FEATURE inCommitTimestamp",
    "vacuumProtocolCheck": "drop it with ALTER TABLE ... DROP FEATURE vacuumProtocolCheck",
    "typeWidening": "drop it with ALTER TABLE ... DROP FEATURE typeWidening",
}


def check_in_log(root: str, protocol: Any, configuration: Mapping[str, Any]) -> None:
    """Raise UnsupportedError for a table whose newest version its log alone does not show."""
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} & _BY_CATALOG
    names = sorted(features) or sorted(name for name in configuration if name.startswith(_COORDINATOR))
    if names:
        raise UnsupportedError(
            f'the Delta table "{root}" uses {names[0]}: its catalog takes the commits, and its log may lack the '
            "newest, so zskip would show old rows and write over new ones; work on it with Delta Lake by its name in "
            "the catalog, or drop the feature. Nothing was written"
        )


def unreadable(protocol: Any) -> str | None:
    """The feature for which zskip does not know what the files of a table say, if any."""
    if protocol.min_reader_version > _MOST_READER:
        return f"the reader version {protocol.min_reader_version}"
    unknown = _beyond(protocol.reader_features, _READ)
    return unknown[0] if unknown else None


def mapping_mode(configuration: Mapping[str, Any]) -> str:
    """How the columns of a table are found in its files: "none" for their names, "name" or "id"."""
    return str(configuration.get("delta.columnMapping.mode", "none")).lower()


def read_by_delta(protocol: Any, configuration: Mapping[str, Any]) -> str | None:
    """The feature for which the rows of a table are not those that its files show without Delta's log, if any."""
    if mapping_mode(configuration) != "none":
        return "columnMapping"
    return next((name for name in _WIDENING if name in (protocol.reader_features or ())), None)


def may_delete_rows(protocol: Any) -> bool:
    """Whether deletion vectors may delete rows of the files."""
    return "deletionVectors" in (protocol.reader_features or ())


def unwritable(protocol: Any) -> str | None:
    """The feature for which zskip cannot commit a rewrite, if any."""
    version = protocol.min_writer_version
    if version > _MOST_WRITER:
        return f"the writer version {version}"
    if version in _OLD_WRITER:
        return _OLD_WRITER[version]
    unknown = _beyond(protocol.writer_features, _REPLACED)
    return next((name for name in unknown if name in _WAY_OUT), unknown[0]) if unknown else None


def unknown_to_session(protocol: Any) -> str | None:
    """The feature for which not even Delta Lake's own transaction may add files that zskip wrote, if any."""
    if protocol.min_writer_version > _MOST_WRITER:
        return f"the writer version {protocol.min_writer_version}"
    unknown = _beyond(protocol.writer_features, _BY_SESSION)
    return unknown[0] if unknown else None


def refusal(root: str, action: str, feature: str) -> UnsupportedError:
    """The error for a table that zskip cannot read or rewrite without Delta Lake."""
    advice = _WAY_OUT.get(feature.split(" (")[0], "work on it with Delta Lake itself")
    return UnsupportedError(
        f'zskip cannot {action} the Delta table "{root}", which uses {feature}; {advice}, or open it with a '
        "Spark session that has Delta Lake loaded. Nothing was written"
    )


def _beyond(features: Sequence[str] | None, known: set[str]) -> list[str]:
    return sorted(set(features or ()) - known)
