"""How the files of a snapshot hold the table's rows: what readers go by, and what binds statistics to files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zskip.records.arrays import Bools, Ints

ColumnPath = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnIds:
    """The ids by which files name the columns of a table, whatever the columns are called now."""

    ids: Mapping[ColumnPath, int]
    """By path, of columns and of fields in structs."""
    filled: frozenset[int] = frozenset()
    """Ids of columns that need not be null in files without them: they have a default, or one value in a partition."""
    names: Mapping[ColumnPath, int] = field(default_factory=dict)
    """The ids of columns, by their paths in files whose fields have no ids."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnNames:
    """How files name the columns and fields of a table: as the table does, by other paths, or by ids."""

    paths: Mapping[ColumnPath, ColumnPath | None] | None = None
    """Paths in the files, by those in the table; None for one that the files may call otherwise."""
    ids: ColumnIds | None = None

    def path_in_files(self, path: ColumnPath) -> ColumnPath | None:
        """The path of a column in the files; None where that is not known."""
        return path if self.paths is None else self.paths.get(path)


SAME_NAMES = ColumnNames()
"""Of files that name the columns as the table does."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Deletes:
    """What deletes rows of a data file: a deletion vector, a delete file, or a log file, which may also change rows."""

    kind: str
    """"deletion vector", "position deletes", "equality deletes" or "log file"."""
    path: str | None = None
    """The absolute path or URI of the file that holds it; None where `rows` or `inline` says everything."""
    offset: int | None = None
    """Where it begins in that file, in bytes; None for the whole file."""
    size: int | None = None
    """In bytes."""
    columns: tuple[str, ...] = ()
    """The columns of equality deletes, by their names in the table."""
    rows: Ints | None = None
    """The numbers of the deleted rows, ascending, from 0 for the data file's first row; None: only `path` tells."""
    inline: bytes | None = None
    """The deletion vector itself, where the log has it in place of a file."""
    location: str = ""
    """What position deletes call the data file."""


class Matching(NamedTuple):
    """How files name their columns."""

    by_id: bool = False
    """Whether they have ids in all files; else their names are those of new files."""
    may_lack: frozenset[str] = frozenset()
    """Columns that are null in files that lack them, by their names in new files."""


EXACT_NAMES = Matching()


class HiddenColumn(NamedTuple):
    """A column that follows a row through rewrites, and may be missing from a file."""

    name: str
    first: int | None
    """What it is in rows where the file does not say; None for null."""
    counts: bool
    """Whether that is of the file's first row only, and each further row has the next number."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReadableFiles:
    """How others than the format's own code read the live rows of data files; mappings are by the files' paths."""

    columns: str
    """The columns of new files in Spark's JSON, with their names and ids there: the table's, and then hidden ones."""
    matching: Matching = EXACT_NAMES
    locations: Mapping[str, str] = field(default_factory=dict)
    """What delete files call the data files."""
    deletes: Mapping[str, Sequence[Deletes]] = field(default_factory=dict)
    """With paths relative to the table."""
    hidden: Mapping[str, Sequence[HiddenColumn]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reading:
    """How the files of a snapshot hold the table's rows, as its format tells; plain files hold them as they are."""

    feature: str | None = None
    """What the table uses for which only the format's own code may read the files."""
    opaque: bool = False
    """Whether zskip does not know `feature`, so that only partition values tell of the files."""
    changed: Bools | None = None
    """(files,) whose rows other files add to or change, so that no statistics describe them."""
    deleted: Bools | None = None
    """(files,) of which deletion vectors or delete files delete rows."""
    read_deletes: Callable[[], Mapping[str, tuple[Deletes, ...]]] | None = None
    """Reads what deletes or changes rows of the files, by their paths."""
    declared: tuple[str, str] | None = None
    """Schemas of the files and of the partition columns in Spark's JSON; None where only the files declare them."""
    names: ColumnNames = SAME_NAMES
    bloom_filters: tuple[str, ...] = ()
    """The columns whose new files get Bloom filters, as the table's settings say."""
    version_as_of: str | None = None
    """What Spark's option `versionAsOf` calls this version; empty where it has no name, None in formats without."""
    ignored_settings: tuple[str, ...] = ()
    """Settings of the table that its new files do not follow."""

    def take(self, indices: Ints) -> Reading:
        """The same for the files at some indices."""
        if self.changed is None and self.deleted is None:
            return self
        return dataclasses.replace(
            self,
            changed=None if self.changed is None else self.changed[indices],
            deleted=None if self.deleted is None else self.deleted[indices],
        )

    def add_changed(self, files: Bools) -> Bools:
        """Add the files that no statistics describe to some that were chosen by statistics."""
        return files if self.changed is None else files | self.changed

    def drop_changed(self, files: Bools) -> Bools:
        """Drop the files that no statistics describe from some."""
        return files if self.changed is None else files & ~self.changed

    def drop_inexact(self, files: Bools) -> Bools:
        """Drop the files whose live rows are not just the rows that statistics count."""
        exact = self.drop_changed(files)
        return exact if self.deleted is None else exact & ~self.deleted

    @property
    def inexact(self) -> Bools | None:
        """(files,) whose live rows are not the rows that they hold; None where the format knows of no such files."""
        return self.deleted if self.changed is None else self.changed


PLAIN = Reading()
"""Of files whose rows are the table's."""
