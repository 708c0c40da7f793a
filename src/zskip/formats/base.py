"""What tables of all formats have in common: zskip's places in them, new files, batches and rules for new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HOME = "_zskip"
"""The directory for zskip's own files in a table, except in formats that have a place of their own for metadata."""
OPERATIONS = f"{HOME}/operations"
"""Records of zskip's operations on a table."""
REPLACE, APPEND, OVERWRITE = "replace", "append", "overwrite"
"""The kinds of commits: the same rows in other files, new rows, or new rows in place of all."""
STAGED = ".staged"
"""The ending of a data file until its commit: programs that read every `*.parquet` below a directory pass it over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StagedFile:
    """A file written for a rewrite but not yet committed."""

    path: str
    """Relative to the table."""
    directory: str
    """The directory of its Hive partition, relative to the table."""
    size: int
    """Bytes."""

    @property
    def name(self) -> str:
        """The name of the file once it is committed."""
        return self.path.rpartition("/")[2].removesuffix(STAGED)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchId:
    """A writer's own number of a batch of rows, as in the transaction ids of Delta's log."""

    application: str
    """The name of the writer, such as a streaming query."""
    version: int
    """Grows from batch to batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowRules:
    """What a table asks of new rows, and how files name its columns."""

    required: Sequence[str] = ()
    """The columns that must not be null."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Columns that rows must have, since only the format's own writer would compute them: what they are, by name."""
    checks: Mapping[str, str] = field(default_factory=dict)
    """Conditions in Spark's SQL that must be true of each row, by their names in messages."""
    partitions: Mapping[str, str] = field(default_factory=dict)
    """Partition values that are no columns, as expressions in Spark's SQL, by their names in `StagedFile.directory`."""
    stored: str | None = None
    """The columns of files, in Spark's JSON, with their names and ids there; None for the table's own names."""
