"""One version of a table in a session: what a verb works on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from zskip.formats import MetadataReader, StagedFile, TableFormat
from zskip.index import BoundIndex
from zskip.predicate import Columns
from zskip.records import Field, Snapshot
from zskip.table.handle import Handle
from zskip.table.index_binding import bind_index
from zskip.table.predicates import clustering_fields, table_columns
from zskip.table.session import is_case_sensitive, time_zone

if TYPE_CHECKING:
    from zskip.spark.collect.statistics import FilePositions
    from zskip.spark.formats import Reader


@dataclass(frozen=True, eq=False)
class TableVersion:
    """The version of a table that was current at the first question: its files, columns and index.

    Its files are listed, or its log is read, once. What commits asks the format again what is live.
    """

    handle: Handle
    metadata: MetadataReader

    @property
    def reader(self) -> Reader:
        """What reads its rows; raises InputError without a session."""
        self.handle.need_session("this")
        return cast("Reader", self.metadata)

    @property
    def format(self) -> TableFormat:
        """The table's format, whose answers are about this version."""
        return self.metadata.format

    @property
    def snapshot(self) -> Snapshot:
        """Its files."""
        return self.metadata.snapshot

    @cached_property
    def case_sensitive(self) -> bool:
        """Whether the session tells column names apart by case."""
        return is_case_sensitive(self.handle)

    @cached_property
    def timezone(self) -> str:
        """The session's time zone."""
        return time_zone(self.handle)

    @cached_property
    def columns(self) -> Columns:
        """All columns, by the names that a user writes."""
        return table_columns(self.handle, self.snapshot)

    @cached_property
    def index(self) -> BoundIndex:
        """The index, bound to all files; without a warning where it does not know some."""
        return bind_index(self.handle, self.snapshot, warn=False)

    def find_keys(self, by: Sequence[str]) -> tuple[Field, ...]:
        """Find what rows are to be clustered by; raises as `clustering_fields`."""
        return clustering_fields(by, self.snapshot, case_sensitive=self.case_sensitive, timezone=self.timezone)

    def after_commit(self, removed: Collection[str], added: Sequence[StagedFile], number: int) -> TableVersion:
        """The version that a commit upon this one made: without the removed paths, with files of this format's commit.

        Nothing is listed again, unless others have committed too.
        """

        def read() -> Snapshot | None:
            gone, paths = set(removed), self.snapshot.paths
            mask = np.fromiter((path in gone for path in paths), np.bool_, len(paths))
            return self.format.snapshot_after(self.snapshot, mask, added, number)

        return TableVersion(self.handle, self.reader.after_commit(read))


def open_version(handle: Handle) -> TableVersion:
    """The version that is current at the first question."""
    return TableVersion(handle, open_metadata(handle))


def open_reader(handle: Handle) -> Reader:
    """The table's reader, for the version that is current at its first question; needs a session."""
    from zskip.spark import formats

    spark, storage = handle.need_session("this"), handle.storage
    return formats.open_reader(spark, handle.format, storage, handle.catalog_table, handle.address)


def open_metadata(handle: Handle) -> MetadataReader | Reader:
    """The table's reader, or without a session what its metadata tells."""
    return MetadataReader(handle.format) if handle.session is None else open_reader(handle)


def read_snapshot(handle: Handle) -> Snapshot:
    """List the live files."""
    return open_metadata(handle).snapshot


def file_positions(handle: Handle, snapshot: Snapshot) -> FilePositions:
    """The numbers of a snapshot's files by the names that Spark gives them."""
    from zskip.spark.collect.statistics import FilePositions

    return FilePositions([handle.storage.uri(path) for path in snapshot.paths])
