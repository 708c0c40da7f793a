"""What a table's metadata says of its rows, without a session: the base of the readers in `spark/formats/`."""

from __future__ import annotations

from functools import cached_property

from zskip.errors import UnsupportedError
from zskip.formats.table_format import TableFormat
from zskip.records import Ints, Snapshot


class MetadataReader:
    """Answers for one version of a table, the one that is current at the first question.

    Readers that a session has (`spark/formats/`) also read its rows.
    """

    def __init__(self, table: TableFormat) -> None:
        self._table = table.pinned()

    @cached_property
    def snapshot(self) -> Snapshot:
        """The live files, with columns, partitions and statistics."""
        return self._table.snapshot()

    @property
    def format(self) -> TableFormat:
        """The table's format, whose answers are about this version."""
        return self._table

    def check(self) -> None:
        """Raise UnsupportedError where other files change rows, and nobody here applies the changes."""
        snapshot = self.snapshot
        if snapshot.reading.changed is not None:
            raise UnsupportedError(
                f'{int(snapshot.reading.changed.sum()):,} of the {len(snapshot):,} files of "{snapshot.root}" have '
                "changes in log files beside them, which only Hudi's own reader applies; open the table in a session "
                "that has loaded Hudi's bundle, or compact it (CALL run_compaction); explain() works"
            )

    def check_files(self, *, deletes: bool) -> None:
        """Raise UnsupportedError where the files are not the rows; deletes: whether the caller applies the deletes."""
        snapshot, reading = self.snapshot, self.snapshot.reading
        if reading.opaque or (not deletes and reading.feature is not None and reading.names.ids is not None):
            raise UnsupportedError(
                f'the files of "{snapshot.root}" are not its rows, since it uses {reading.feature}; read it with df()'
            )
        if not deletes and reading.inexact is not None and reading.inexact.any():
            raise UnsupportedError(
                f'the files of "{snapshot.root}" are not its rows: {int(reading.inexact.sum()):,} of {len(snapshot):,} '
                f"have rows that are deleted{'' if reading.changed is None else ' or changed'}; read it with df(), or "
                "use files(deletes=True) and apply the deletes of each file yourself"
            )

    def check_indexable(self) -> None:
        """Raise UnsupportedError where an index could tell nothing of the files."""
        snapshot, reading = self.snapshot, self.snapshot.reading
        if reading.opaque:
            raise UnsupportedError(
                f'there is nothing to index in "{snapshot.root}", which uses {reading.feature}: its format reads it, '
                "and skips files by its own statistics"
            )

    @property
    def indexes_files(self) -> bool:
        """Whether the index has the bounds of files, or else the format; raises UnsupportedError where neither has."""
        snapshot, reading = self.snapshot, self.snapshot.reading
        if reading.feature is None or (reading.names.ids is None and not reading.opaque):
            return True
        raise UnsupportedError(
            f'maintain() needs the bounds of files, and "{snapshot.root}" uses {reading.feature}, so its files are not '
            "its rows; use optimize() or compact()"
        )

    @property
    def footers_count(self) -> bool:
        """Whether footers tell of the rows in files that no other file changes."""
        return self.snapshot.reading.feature is None

    def count_deleted_rows(self, snapshot: Snapshot) -> Ints | None:
        """(files,) the deleted rows of each file, estimated where the format does not say; None where nobody can."""
        return None

    def release(self) -> None:
        """Do nothing: metadata holds nothing open."""

    @property
    def feature(self) -> str | None:
        """What the table uses for which the format's own code reads it; None where zskip does."""
        return self.snapshot.reading.feature
