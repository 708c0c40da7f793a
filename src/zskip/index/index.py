"""The index of a table: load it, bind it to a snapshot, refresh it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zskip.errors import IndexFormatError, StorageError, ZskipWarning
from zskip.index.bound_index import BoundIndex
from zskip.index.collect.fill_gaps import Counting, fill_gaps
from zskip.index.collect.parallel_footers import Progress, collect_footers
from zskip.index.store.bound_segments import BoundSegment, WarnOnce, bind_segments, warn_damaged
from zskip.index.store.compact import choose_groups, merge_segments
from zskip.index.store.listing import Listing
from zskip.index.store.manifest import (
    DamagedIndexError,
    Manifest,
    latest_manifest,
    list_manifests,
    manifest_path,
    next_version,
    sound_manifest,
)
from zskip.index.store.segment import INDEX_DIR, Segment, SegmentReader
from zskip.index.store.sketches import BoundSketches, BuildSketches, SketchChange, apply_changes, update_sketches
from zskip.predicate import Columns
from zskip.records import Bools, Snapshot
from zskip.sketch import SketchOn
from zskip.storage import FileInfo, Storage, Workers
from zskip.storage.overlay import Overlay
from zskip.version import __version__

_LOG = logging.getLogger("zskip.index")
_KEEP_HOURS = 6
_KEEP_MANIFESTS = 16
_ATTEMPTS = 100


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Index:
    """One version of a table's index."""

    storage: Storage
    """Where it lies."""
    manifest: Manifest

    @classmethod
    def load(cls, storage: Storage, table: str | None = None) -> Index | None:
        """Load the newest version; None where there is no index.

        table: root of the table, where `storage` is not the table's own. Raises IndexFormatError where another version
        of zskip wrote the index or it is damaged, and InputError where it is that of another table.
        """
        manifest = latest_manifest(storage, table)
        return None if manifest is None else cls(storage=storage, manifest=manifest)

    @property
    def version(self) -> int:
        """Number of the version."""
        return self.manifest.version

    @property
    def bytes(self) -> int:
        """Size of the segments on disk, those of sketches included."""
        of_sketches = sum(segment.bytes for record in self.manifest.sketches for segment in record.segments)
        held = (*self.manifest.segments, *(self.manifest.row_group_segments or ()))
        return of_sketches + sum(segment.bytes for segment in held)

    def bind(self, snapshot: Snapshot, *, case_sensitive: bool = False) -> BoundIndex:
        """See the index from a snapshot.

        Damaged segments are left out with a ZskipWarning, and their files count as unknown.
        """
        manifest, warn = self.manifest, WarnOnce()
        return BoundIndex(
            snapshot,
            bind_segments(snapshot, self._readers(manifest.segments), warn),
            version=self.version,
            size=self.bytes,
            case_sensitive=case_sensitive,
            warn=warn,
            sketches=self.sketches(snapshot, case_sensitive=case_sensitive, warn=warn),
            row_groups=None if manifest.row_group_segments is None else self._readers(manifest.row_group_segments),
        )

    def listings(self) -> Iterator[Listing]:
        """What each segment lists, the last word coming last; those that are damaged are left out."""
        for reader in self._readers(self.manifest.segments):
            with contextlib.suppress(IndexFormatError):
                yield reader.listing()

    def sketches(
        self, snapshot: Snapshot, *, case_sensitive: bool = False, warn: WarnOnce | None = None
    ) -> BoundSketches:
        """See the sketches from a snapshot."""
        columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=case_sensitive)
        return BoundSketches(self.storage, snapshot, self.manifest.sketches, columns, warn=warn)

    def _readers(self, segments: Sequence[Segment]) -> list[SegmentReader]:
        return [SegmentReader(self.storage, segment) for segment in segments]


def refresh(
    storage: Storage,
    snapshot: Snapshot,
    *,
    full: bool = False,
    progress: Progress | None = None,
    counting: Counting | None = None,
    case_sensitive: bool = False,
    check: bool = True,
    index_storage: Storage | None = None,
    row_groups: bool | None = None,
    workers: Workers | None = None,
) -> Index:
    """Bring the index up to date with a snapshot.

    Footers are read only of files without a valid entry (`full`: of all), what they do not tell is counted (`counting`;
    None: left unknown), and many small segments are merged. Of several refreshes at once each adds to what the others
    published. Data files that cannot be read get no entry and a ZskipWarning. Segments that are damaged are replaced:
    by default (`check`) all of them are read for that, else only their sizes are looked at. The index lies in the
    table, or in `index_storage`. It describes row groups, too, if `row_groups` says so (None: if it did before).
    Where there are `workers`, they read footers that are many.
    Raises IndexFormatError where another version of zskip wrote the index, StorageError where it cannot be written and
    InputError where `index_storage` holds the index of another table.
    """
    home = _Home(index_storage or storage, None if index_storage is None else storage.root)
    base, newest = _base(home)
    held_row_groups = base is not None and base.row_group_segments is not None
    of_row_groups = held_row_groups if row_groups is None else row_groups
    old = () if base is None else (*base.segments, *(base.row_group_segments or ()))
    usable = [s for s in old if not full and (of_row_groups or not s.of_row_groups)]
    sound = _sound(home.storage, usable, check=check)
    bound = bind_segments(snapshot, [r for r in sound if not r.segment.of_row_groups])
    parts = bind_segments(snapshot, [r for r in sound if r.segment.of_row_groups])
    removed = {s.name for s in old} - {s.reader.segment.name for s in (*bound, *parts)}
    covered = _covered(snapshot, bound)
    lacking = ~_covered(snapshot, parts) & ~_empty(snapshot, bound) & of_row_groups
    added = collect_footers(storage, snapshot, ~covered, lacking, progress, home.storage, workers)
    bound += _bind_new(home.storage, snapshot, [s for s in added if not s.of_row_groups])
    parts += _bind_new(home.storage, snapshot, [s for s in added if s.of_row_groups])
    if counting is not None:
        before = [s.reader.segment for s in bound]
        seen = BoundIndex(snapshot, bound, version=0, size=0, case_sensitive=case_sensitive)
        after = fill_gaps(home.storage, seen, ~covered if counting.new_only else np.ones_like(covered), counting)
        apply_changes = [new for new, was in zip(after, before, strict=True) if new != was]
        removed |= {was.name for new, was in zip(after, before, strict=True) if new != was}
        added = [*(s for s in added if s.name not in removed), *apply_changes]
        bound = _bind_new(home.storage, snapshot, after) if apply_changes else bound
    merged_names, merged = _compact(home.storage, [bound, parts])
    kept_new = [s for s in [*added, *merged] if s.name not in merged_names]
    gone = removed | merged_names
    if newest and base is not None and not gone and not kept_new and of_row_groups == held_row_groups:
        return Index(storage=home.storage, manifest=base)
    manifest = _publish(home, snapshot.version, gone, kept_new, row_groups=row_groups)
    _clean(home.storage)
    return Index(storage=home.storage, manifest=manifest)


def bind_footers(storage: Storage, snapshot: Snapshot) -> BoundIndex:
    """See what the footers of a snapshot's files say, without an index; costs a ZskipWarning for unreadable files."""
    home, everything = Overlay(storage), np.ones(len(snapshot), np.bool_)
    bound = _bind_new(home, snapshot, collect_footers(storage, snapshot, everything, ~everything, None, home))
    return BoundIndex(snapshot, bound, version=0, size=0, case_sensitive=True)


def _bind_new(storage: Storage, snapshot: Snapshot, segments: Sequence[Segment]) -> list[BoundSegment]:
    return bind_segments(snapshot, [SegmentReader(storage, segment) for segment in segments])


def _covered(snapshot: Snapshot, bound: Sequence[BoundSegment]) -> Bools:
    """(files of the snapshot,) those that some segments describe."""
    covered = np.zeros(len(snapshot), np.bool_)
    for segment in bound:
        covered[segment.live[segment.live >= 0]] = True
    return covered


def _empty(snapshot: Snapshot, bound: Sequence[BoundSegment]) -> Bools:
    """(files of the snapshot,) those that are known to have no rows, and so may have no row groups."""
    return _covered(snapshot, [segment.at(np.where(segment.rows == 0, segment.live, -1)) for segment in bound])


def refresh_sketches(
    index: Index,
    snapshot: Snapshot,
    build: BuildSketches,
    files: Bools,
    *,
    add: Sequence[SketchOn] = (),
    drop: Collection[str] = (),
    timezone: str = "UTC",
    case_sensitive: bool = False,
    total_budget: int | None = None,
) -> Index:
    """Bring the sketches of an index up to date with a snapshot: build the states that files lack.

    files: (files of the snapshot,) those that may be read; add: new sketches, in the session's `timezone`; drop: specs
    as `SketchInfo` gives them, of which those in `add` are built anew; total_budget: bytes of all states of live files,
    beyond which the largest of those that are built now are left out. Of several refreshes at once each adds to what
    the others published.
    """
    manifest, home = index.manifest, _Home(index.storage, index.manifest.table)
    known = {record.spec for record in manifest.sketches}
    new = [SketchChange(spec=str(on), timezone=timezone) for on in add if str(on) not in known - {*drop}]
    wanted = dataclasses.replace(
        index, manifest=dataclasses.replace(manifest, sketches=apply_changes(manifest.sketches, new, drop))
    )
    changes = update_sketches(wanted.sketches(snapshot, case_sensitive=case_sensitive), build, files, total_budget)
    if not new and not changes and not known & set(drop):
        return index
    published = _publish(home, snapshot.version, changes=[*new, *changes], dropped=drop)
    _clean(home.storage)
    return Index(storage=home.storage, manifest=published)


class _Home(NamedTuple):
    """Where an index lies, and of which table it is, if it lies elsewhere."""

    storage: Storage
    table: str | None


def _base(home: _Home) -> tuple[Manifest | None, bool]:
    """The version to go on from, and whether it is the newest one: that may be damaged."""
    try:
        return latest_manifest(*home), True
    except DamagedIndexError as error:
        base = sound_manifest(*home)
        mended = "building it anew" if base is None else f"going on from version {base.version}"
        warnings.warn(f"{error}; {mended}", ZskipWarning, stacklevel=3)
        return base, False


def _sound(storage: Storage, segments: Sequence[Segment], *, check: bool) -> list[SegmentReader]:
    """Readers of the segments that are not damaged."""
    listing = storage.list_dir(INDEX_DIR)
    readers = [SegmentReader(storage, s) for s in segments if _is_whole(s, listing)]
    return [reader for reader in readers if not check or _is_right(reader)]


def _is_right(reader: SegmentReader) -> bool:
    try:
        reader.check()
    except IndexFormatError as error:
        _LOG.warning("%s: it is replaced", error)
        return False
    return True


def _is_whole(segment: Segment, listing: Sequence[FileInfo]) -> bool:
    """Whether both files of a segment are there in full length."""
    sizes = {info.path.rpartition("/")[2]: info.size for info in listing}
    wanted = {
        segment.files_path: segment.listing.length,
        segment.entries_path: segment.footer.offset + segment.footer.length,
    }
    return all(sizes.get(path.rpartition("/")[2]) == size for path, size in wanted.items())


def _compact(storage: Storage, kinds: Sequence[Sequence[BoundSegment]]) -> tuple[set[str], list[Segment]]:
    """Merge what should be merged of each kind; the names of the segments that fall away, and the new ones."""
    gone: set[str] = set()
    merged: list[Segment] = []
    for group in (group for segments in kinds for group in choose_groups(segments)):
        try:
            new = merge_segments(storage, group)
        except IndexFormatError as error:
            warn_damaged(error)
            continue
        gone |= {s.reader.segment.name for s in group}
        merged += [new] if new is not None else []
    return gone, merged


def _publish(
    home: _Home,
    table_version: int,
    gone: Collection[str] = (),
    added: Sequence[Segment] = (),
    *,
    changes: Sequence[SketchChange] = (),
    dropped: Collection[str] = (),
    row_groups: bool | None = None,
) -> Manifest:
    """Publish a version on top of the newest one; a refresh that comes second starts from the winner's.

    row_groups: whether it describes row groups; None for what the newest one does.
    """
    for _ in range(_ATTEMPTS):
        try:
            base = latest_manifest(*home)
        except DamagedIndexError:
            base = sound_manifest(*home)
        version = next_version(home.storage.list_dir(INDEX_DIR))
        old = base.segments if base is not None else ()
        old_parts = base.row_group_segments if base is not None else None
        of_row_groups = old_parts is not None if row_groups is None else row_groups
        parts = (*(old_parts or ()), *(s for s in added if s.of_row_groups))
        manifest = Manifest(
            version=version if base is None else max(version, base.version + 1),
            table=home.table,
            table_version=table_version,
            zskip=__version__,
            segments=(*(s for s in old if s.name not in gone), *(s for s in added if not s.of_row_groups)),
            row_group_segments=tuple(s for s in parts if s.name not in gone) if of_row_groups else None,
            sketches=apply_changes(() if base is None else base.sketches, changes, dropped),
        )
        try:
            home.storage.write(manifest_path(manifest.version), manifest.to_bytes())
        except FileExistsError:
            continue
        _LOG.info("index version %d: %d segments", manifest.version, len(manifest.segments))
        return manifest
    raise StorageError(f"{_ATTEMPTS} others published an index first; try again")


def _clean(storage: Storage) -> None:
    """Remove what no reader needs; what cannot be removed stays for the next refresh."""
    try:
        for path, _ in find_garbage(storage):
            storage.delete(path)
    except (StorageError, OSError) as error:
        _LOG.warning("could not clean %s: %s", INDEX_DIR, error)


def find_garbage(storage: Storage) -> list[tuple[str, str]]:
    """What no reader needs, and why: versions replaced hours ago, segments that only they name, unfinished files.

    The newest version must be one that this zskip can read, and sound.
    """
    horizon = time.time() * 1000 - _KEEP_HOURS * 3_600_000
    listing = storage.list_dir(INDEX_DIR)
    manifests = list(list_manifests(listing).items())
    live: set[str] = set()
    successor_ms = float("inf")
    found: list[tuple[str, str]] = []
    for i, (_, info) in enumerate(manifests):
        if successor_ms > horizon and i < _KEEP_MANIFESTS:
            live |= _names(storage, info)
        else:
            found.append((f"{INDEX_DIR}/{info.path.rpartition('/')[2]}", "an old version of the index"))
        successor_ms = info.mtime_ms
    for info in listing:
        name = info.path.rpartition("/")[2]
        orphan = (name.startswith("segment-") and name.rsplit("-", 1)[0] not in live) or (
            name.startswith("sketch-") and name.removesuffix(".parquet") not in live
        )
        if info.mtime_ms < horizon and (orphan or name.startswith(".")):
            reason = "named by no version of the index" if orphan else "half written"
            found.append((f"{INDEX_DIR}/{name}", reason))
    return found


def _names(storage: Storage, info: FileInfo) -> set[str]:
    """Name the segments of a version; none where it is damaged."""
    path = f"{INDEX_DIR}/{info.path.rpartition('/')[2]}"
    try:
        manifest = Manifest.from_bytes(storage.read(path), path)
        of_sketches = {segment.name for record in manifest.sketches for segment in record.segments}
        return of_sketches | {s.name for s in (*manifest.segments, *(manifest.row_group_segments or ()))}
    except (IndexFormatError, FileNotFoundError):
        return set()
