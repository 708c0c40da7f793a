"""Whether a rewrite keeps what files hold: their columns, types, keys and Bloom filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from zskip.errors import CorruptFileError, UnsupportedError
from zskip.formats.footers.columns import ColumnCheck
from zskip.formats.footers.footer import Footer, read_footers
from zskip.formats.footers.traits import FileTraits, common_traits
from zskip.records import Ints, Snapshot
from zskip.storage import Storage, Workers

_PROBED_FILES = 64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Inspection:
    """Facts from the footers of a snapshot's files."""

    rows: Ints
    """(files,)."""
    codec: str
    """The codec of most rows; "" if there are none."""
    traits: FileTraits
    """Those that all files with rows have."""
    lost_traits: tuple[str, ...]
    """What new files cannot have since only some of the files have it, a sentence for each."""
    hidden: Mapping[str, str]
    """As in `ColumnCheck`."""


def inspect_footers(
    storage: Storage,
    snapshot: Snapshot,
    *,
    merge: bool = False,
    inferred: str | None = None,
    case_sensitive: bool = False,
    workers: Workers | None = None,
) -> Inspection:
    """Read all footers of a snapshot before a rewrite.

    merge: whether the session unifies differing schemas (then Spark decides which match); inferred: the columns that
    Spark has inferred, in its JSON, None where the table declares them; case_sensitive: whether names differ by case;
    workers: read footers if there are many. Raises CorruptFileError for an unreadable file, and UnsupportedError for
    encrypted columns, which a rewrite would write in the clear, for nanoseconds, which it would turn into numbers, and
    if files have different columns, or more than Spark has inferred, which a rewrite would lose.
    """
    names = [field.name for field in snapshot.partition_fields]
    check = ColumnCheck(storage, names, merge=merge, inferred=inferred, case_sensitive=case_sensitive)
    rows = np.zeros(len(snapshot), np.int64)
    codecs: Counter[str] = Counter()
    traits: dict[FileTraits, None] = {}
    files = list(zip(snapshot.paths, snapshot.sizes.tolist(), strict=True))
    for i, footer in enumerate(read_footers(storage, files, workers)):
        _check_rewritable(storage, snapshot.paths[i], footer)
        rows[i] = footer.rows
        if footer.rows:
            traits[footer.traits] = None
        codecs[footer.codec] += footer.rows
        check.add(snapshot.paths[i], footer.columns, footer.struct_fields)
    del codecs[""]
    common, lost = common_traits(traits, snapshot.reading)
    codec = max(codecs, key=lambda codec: codecs[codec], default="")
    return Inspection(rows=rows, codec=codec, traits=common, lost_traits=lost, hidden=check.hidden)


def read_clear_footers(
    storage: Storage, snapshot: Snapshot, most: int, workers: Workers | None = None
) -> tuple[Snapshot, list[Footer]]:
    """Read the footers of at most so many files, evenly spaced, to which rows are appended; returns the files, too.

    Raises UnsupportedError for files that new ones would not match: with encrypted columns, or nanoseconds.
    """
    some = _take_evenly(snapshot, most)
    footers = list(read_footers(storage, list(zip(some.paths, some.sizes.tolist(), strict=True)), workers))
    for path, footer in zip(some.paths, footers, strict=True):
        _check_rewritable(storage, path, footer)
    return some, footers


def check_not_encrypted(storage: Storage, snapshot: Snapshot) -> None:
    """Raise UnsupportedError if one of some files, evenly spaced, has encrypted columns; others may be damaged."""
    some = _take_evenly(snapshot, _PROBED_FILES)
    with suppress(CorruptFileError):
        footers = read_footers(storage, list(zip(some.paths, some.sizes.tolist(), strict=True)))
        for path, footer in zip(some.paths, footers, strict=True):
            _check_clear(storage, path, footer)


def _take_evenly(snapshot: Snapshot, most: int) -> Snapshot:
    return snapshot.take(np.linspace(0, len(snapshot) - 1, min(len(snapshot), most)).astype(np.int64))


def _check_clear(storage: Storage, path: str, footer: Footer) -> None:
    if footer.encrypted:
        raise UnsupportedError(
            f'column "{footer.encrypted[0]}" is encrypted in "{storage.uri(path)}", and zskip would write it in the '
            "clear; leave rewrites, writes and sketches of this table to Spark, which has its keys"
        )


def _check_rewritable(storage: Storage, path: str, footer: Footer) -> None:
    """Raise UnsupportedError for a file whose rows Spark would write otherwise: in the clear, or with other types."""
    _check_clear(storage, path, footer)
    if footer.traits.nanos:
        raise UnsupportedError(
            f'column "{footer.traits.nanos[0]}" holds nanoseconds in "{storage.uri(path)}", which Spark reads as '
            "numbers (spark.sql.legacy.parquet.nanosAsLong), and would write as numbers for everybody; bring the files "
            "to microseconds first"
        )
