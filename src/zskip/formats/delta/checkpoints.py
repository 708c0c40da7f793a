"""Checkpoints of a Delta log after commits by `deltalake`: without them each reader reads all commits again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zskip.formats.delta.opening import open_table
from zskip.formats.schema import first_line
from zskip.storage import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable

_INTERVAL = 10
"""Commits between two checkpoints, as in Delta Lake."""
_PLAIN = {"appendOnly", "changeDataFeed", "checkConstraints", "generatedColumns", "invariants", "timestampNtz"}
"""Features that add nothing to the log which a checkpoint by deltalake might leave out."""
_LOG = logging.getLogger("zskip.delta")


def is_due(table: DeltaTable, version: int) -> bool:
    """Whether a commit of this version should be followed by a checkpoint; of other tables Delta Lake itself cares."""
    protocol = table.protocol()
    if set(protocol.writer_features or ()) - _PLAIN or protocol.min_writer_version == 6:
        return False
    text = str(table.metadata().configuration.get("delta.checkpointInterval", _INTERVAL))
    interval = int(text) if text.isdigit() else 0
    return interval > 0 and version % interval == 0


def write_checkpoint(storage: Storage, version: int) -> None:
    """Write the checkpoint of a table's version; a failure is logged only, since the commit is done."""
    try:
        open_table(storage, version=version).create_checkpoint()
    except Exception as error:
        _LOG.warning('no checkpoint of version %d of "%s": %s', version, storage.root, first_line(error))
