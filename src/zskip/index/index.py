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
from zskip.index.store.segment import ENDING, INDEX_DIR, Segment, SegmentReader
from zskip.index.store.sketches import (
    BoundSketches,
    BuildSketches,
    SketchChange,
    Versions,
    apply_changes,
    update_sketches,
)
from zskip.predicate import Columns
from zskip.records import Bools, Snapshot
from zskip.sketch import SketchOn
from zskip.storage import FileInfo, Storage, Workers
from zskip.storage.overlay import Overlay
from zskip.version import __version__

_LOG = logging.getLogger("zskip.index")
_KEEP_HOURS = 6
_KEEP_MANIFESTS = 64
_ATTEMPTS = 100
_FORMER_ENDING = ".parquet"
"""The ending of segments in format 1."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Index:
    """One version of a table's index."""

    storage: Storage
    """The storage that holds the index."""
    manifest: Manifest

    @classmethod
    def load(cls, storage: Storage, table: str | None = None) -> Index | None:
        """Load the newest version; None if there is no index.

        table: root of the table, if `storage` is not the table's own. Raises IndexFormatError if another version of
        zskip wrote the index or it is damaged, and InputError if it belongs to another table.
        """
        manifest = latest_manifest(storage, table)
        return None if manifest is None else cls(storage=storage, manifest=manifest)

    @property
    def version(self) -> int:
        """The number of the version."""
        return self.manifest.version

    @property
    def bytes(self) -> int:
        """The size of the segments on disk, including those of sketches."""
        sketch_bytes = sum(segment.bytes for record in self.manifest.sketches for segment in record.segments)
        segments = (*self.manifest.segments, *(self.manifest.row_group_segments or ()))
        return sketch_bytes + sum(segment.bytes for segment in segments)

    def bind(self, snapshot: Snapshot, *, case_sensitive: bool = False, versions: Versions | None = None) -> BoundIndex:
        """Bind the index to a snapshot.

        versions: of the session that asks; without one the states of sketches by all versions count. Damaged segments
        are left out with a ZskipWarning, and their files count as unknown.
        """
        manifest, warn = self.manifest, WarnOnce()
        return BoundIndex(
            snapshot,
            bind_segments(snapshot, self._readers(manifest.segments), warn),
            version=self.version,
            size=self.bytes,
            case_sensitive=case_sensitive,
            warn=warn,
            sketches=self.sketches(snapshot, case_sensitive=case_sensitive, versions=versions, warn=warn),
            row_groups=None if manifest.row_group_segments is None else self._readers(manifest.row_group_segments),
        )

    def listings(self) -> Iterator[Listing]:
        """The listing of each segment, in order of precedence, the last one winning; damaged ones are left out."""
        for reader in self._readers(self.manifest.segments):
            with contextlib.suppress(IndexFormatError):
                yield reader.listing()

    def sketches(
        self,
        snapshot: Snapshot,
        *,
        case_sensitive: bool = False,
        versions: Versions | None = None,
        warn: WarnOnce | None = None,
    ) -> BoundSketches:
        """Bind the sketches to a snapshot; versions: see `bind`."""
        columns = Columns((*snapshot.fields, *snapshot.partition_fields), case_sensitive=case_sensitive)
        return BoundSketches(self.storage, snapshot, self.manifest.sketches, columns, versions=versions, warn=warn)

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

    Reads only the footers of files without a valid entry (`full`: of all), counts what they lack (`counting`; None:
    leaves it unknown), and merges many small segments. Concurrent refreshes add to each other's results. Unreadable
    data files get no entry and a ZskipWarning. Damaged segments are replaced: by default (`check`) all segments are
    read to find them, otherwise only their sizes are checked. The index lies in the table, or in `index_storage`. It
    describes row groups, too, if `row_groups` is true (None: if it did before). If there are `workers`, they read
    footers that are many. Raises IndexFormatError if another version of zskip wrote the index, StorageError if it
    cannot be written, and InputError if `index_storage` holds the index of another table.
    """
    location = _IndexLocation(index_storage or storage, None if index_storage is None else storage.root)
    base, newest = _load_base(location)
    had_row_groups = base is not None and base.row_group_segments is not None
    wants_row_groups = had_row_groups if row_groups is None else row_groups
    old = () if base is None else (*base.segments, *(base.row_group_segments or ()))
    by_id = snapshot.reading.names.ids is not None
    usable = [s for s in old if not full and (wants_row_groups or not s.of_row_groups) and (s.has_ids or not by_id)]
    sound = _open_sound(location.storage, usable, check=check)
    bound = bind_segments(snapshot, [r for r in sound if not r.segment.of_row_groups])
    parts = bind_segments(snapshot, [r for r in sound if r.segment.of_row_groups])
    removed = {s.name for s in old} - {s.reader.segment.name for s in (*bound, *parts)}
    covered = _covered(snapshot, bound)
    without_row_groups = ~_covered(snapshot, parts) & ~_empty(snapshot, bound) & wants_row_groups
    added = collect_footers(storage, snapshot, ~covered, without_row_groups, progress, location.storage, workers)
    written = {s.name for s in added}
    bound += _bind_new(location.storage, snapshot, [s for s in added if not s.of_row_groups])
    parts += _bind_new(location.storage, snapshot, [s for s in added if s.of_row_groups])
    if counting is not None:
        before = [s.reader.segment for s in bound]
        index_of_files = BoundIndex(snapshot, bound, version=0, size=0, case_sensitive=case_sensitive)
        countable = ~covered if counting.new_only else np.ones_like(covered)
        after = fill_gaps(location.storage, index_of_files, countable, counting)
        changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
        removed |= {one.name for one, _ in changed}
        added = [*(s for s in added if s.name not in removed), *(other for _, other in changed)]
        bound = _bind_new(location.storage, snapshot, after) if changed else bound
    merged_names, merged = _compact(location.storage, [bound, parts])
    new_segments = [s for s in [*added, *merged] if s.name not in merged_names]
    dropped = removed | merged_names
    if newest and base is not None and not dropped and not new_segments and wants_row_groups == had_row_groups:
        return Index(storage=location.storage, manifest=base)
    manifest = _publish(location, snapshot.version, dropped, new_segments, row_groups=row_groups)
    _clean(location.storage, (written | {s.name for s in added}) - {s.name for s in new_segments})
    return Index(storage=location.storage, manifest=manifest)


def bind_footers(storage: Storage, snapshot: Snapshot) -> BoundIndex:
    """Bind the footers of a snapshot's files without an index; warns with a ZskipWarning about unreadable files."""
    overlay, everything = Overlay(storage), np.ones(len(snapshot), np.bool_)
    bound = _bind_new(overlay, snapshot, collect_footers(storage, snapshot, everything, ~everything, None, overlay))
    return BoundIndex(snapshot, bound, version=0, size=0, case_sensitive=True)


def _bind_new(storage: Storage, snapshot: Snapshot, segments: Sequence[Segment]) -> list[BoundSegment]:
    return bind_segments(snapshot, [SegmentReader(storage, segment) for segment in segments])


def _covered(snapshot: Snapshot, bound: Sequence[BoundSegment]) -> Bools:
    """(files of the snapshot,) mask of the files that the segments describe."""
    covered = np.zeros(len(snapshot), np.bool_)
    for segment in bound:
        covered[segment.live[segment.live >= 0]] = True
    return covered


def _empty(snapshot: Snapshot, bound: Sequence[BoundSegment]) -> Bools:
    """(files of the snapshot,) mask of the files that are known to have no rows, and so may have no row groups."""
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
    versions: Versions | None = None,
    total_budget: int | None = None,
    chosen_ms: int | None = None,
) -> Index:
    """Bring the sketches of an index up to date with a snapshot: build the missing states.

    files: (files of the snapshot,) mask of the files that may be read; add: new sketches, in the session's `timezone`;
    versions: of the session;
    drop: specs as in `SketchInfo`; those also in `add` are rebuilt; total_budget: bytes of all states of live files,
    above which the largest of the new states are left out; chosen_ms: when the new sketches were chosen, None where
    the user named them. Concurrent refreshes add to each other's results.
    """
    manifest, location = index.manifest, _IndexLocation(index.storage, index.manifest.table)
    known = {record.spec: record for record in manifest.sketches}
    # A sketch that was chosen becomes the user's own once it is named.
    done = {spec for spec, record in known.items() if record.chosen_ms is None or chosen_ms is not None} - {*drop}
    kept = {spec: record for spec, record in known.items() if spec not in drop}
    new = [
        SketchChange(
            spec=spec,
            timezone=kept[spec].timezone if spec in kept else timezone,
            chosen_ms=chosen_ms,
            condition=kept[spec].condition if spec in kept else on.described,
        )
        for spec, on in ((str(on), on) for on in add)
        if spec not in done
    ]
    desired = dataclasses.replace(
        index, manifest=dataclasses.replace(manifest, sketches=apply_changes(manifest.sketches, new, drop))
    )
    bound = desired.sketches(snapshot, case_sensitive=case_sensitive, versions=versions)
    changes = update_sketches(bound, build, files, total_budget)
    if not new and not changes and not known.keys() & set(drop):
        return index
    published = _publish(location, snapshot.version, changes=[*new, *changes], dropped_sketches=drop)
    _clean(location.storage)
    return Index(storage=location.storage, manifest=published)


class _IndexLocation(NamedTuple):
    """The storage of an index, and its table's root if the index lies elsewhere."""

    storage: Storage
    table: str | None


def _load_base(location: _IndexLocation) -> tuple[Manifest | None, bool]:
    """The version to build on, and whether it is the newest one, which may be damaged."""
    try:
        return latest_manifest(*location), True
    except DamagedIndexError as error:
        base = sound_manifest(*location)
        remedy = "building it anew" if base is None else f"going on from version {base.version}"
        warnings.warn(f"{error}; {remedy}", ZskipWarning, stacklevel=3)
        return base, False


def _open_sound(storage: Storage, segments: Sequence[Segment], *, check: bool) -> list[SegmentReader]:
    """Readers of the segments that are not damaged."""
    listing = storage.list_dir(INDEX_DIR)
    readers = [SegmentReader(storage, s) for s in segments if _is_complete(s, listing)]
    return [reader for reader in readers if not check or _is_sound(reader)]


def _is_sound(reader: SegmentReader) -> bool:
    try:
        reader.check()
    except IndexFormatError as error:
        _LOG.warning("%s: it is replaced", error)
        return False
    return True


def _is_complete(segment: Segment, listing: Sequence[FileInfo]) -> bool:
    """Whether both files of a segment exist in full length."""
    sizes = {info.path.rpartition("/")[2]: info.size for info in listing}
    expected = {
        segment.files_path: segment.listing.length,
        segment.entries_path: segment.footer.offset + segment.footer.length,
    }
    return all(sizes.get(path.rpartition("/")[2]) == size for path, size in expected.items())


def _compact(storage: Storage, segment_lists: Sequence[Sequence[BoundSegment]]) -> tuple[set[str], list[Segment]]:
    """Merge segments of each kind; returns the names of the merged segments, and the new ones."""
    dropped: set[str] = set()
    merged: list[Segment] = []
    for group in (group for segments in segment_lists for group in choose_groups(segments)):
        try:
            new = merge_segments(storage, group)
        except IndexFormatError as error:
            warn_damaged(error)
            continue
        dropped |= {s.reader.segment.name for s in group}
        merged += [new] if new is not None else []
    return dropped, merged


def _publish(
    location: _IndexLocation,
    table_version: int,
    dropped_segments: Collection[str] = (),
    added: Sequence[Segment] = (),
    *,
    changes: Sequence[SketchChange] = (),
    dropped_sketches: Collection[str] = (),
    row_groups: bool | None = None,
) -> Manifest:
    """Publish a version on top of the newest one; a concurrent refresh that comes second builds on the winner's.

    row_groups: whether it describes row groups; None to keep the newest version's choice.
    """
    for _ in range(_ATTEMPTS):
        try:
            base = latest_manifest(*location)
        except DamagedIndexError:
            base = sound_manifest(*location)
        version = next_version(location.storage.list_dir(INDEX_DIR))
        old = base.segments if base is not None else ()
        old_row_groups = base.row_group_segments if base is not None else None
        wants_row_groups = old_row_groups is not None if row_groups is None else row_groups
        row_group_segments = (*(old_row_groups or ()), *(s for s in added if s.of_row_groups))
        manifest = Manifest(
            version=version if base is None else max(version, base.version + 1),
            table=location.table,
            table_version=table_version,
            zskip=__version__,
            segments=(*(s for s in old if s.name not in dropped_segments), *(s for s in added if not s.of_row_groups)),
            row_group_segments=tuple(s for s in row_group_segments if s.name not in dropped_segments)
            if wants_row_groups
            else None,
            sketches=apply_changes(() if base is None else base.sketches, changes, dropped_sketches),
        )
        try:
            location.storage.write(manifest_path(manifest.version), manifest.to_bytes())
        except FileExistsError:
            continue
        _LOG.info("index version %d: %d segments", manifest.version, len(manifest.segments))
        return manifest
    raise StorageError(f"{_ATTEMPTS} others published an index first; try again")


def _clean(storage: Storage, unpublished: Collection[str] = ()) -> None:
    """Remove files that no reader needs; what cannot be removed stays for the next refresh.

    unpublished: segments of this process that no version names.
    """
    try:
        for path, _ in find_garbage(storage, unpublished):
            storage.delete(path)
    except (StorageError, OSError) as error:
        _LOG.warning("could not clean %s: %s", INDEX_DIR, error)


def find_garbage(storage: Storage, unpublished: Collection[str] = ()) -> list[tuple[str, str]]:
    """Files that no reader needs, with reasons: old versions, segments that only they name, unfinished files.

    unpublished: segments that no version names or will name; others may still get one.
    The newest version must be sound and readable for this zskip.
    """
    newest_ms = time.time() * 1000 - _KEEP_HOURS * 3_600_000
    listing = storage.list_dir(INDEX_DIR)
    manifests = list(list_manifests(listing).items())
    kept, old = [info for _, info in manifests], []
    while len(kept) > 1 and (len(kept) > _KEEP_MANIFESTS or kept[-2].mtime_ms <= newest_ms):
        old.append(kept.pop())
    result = [(f"{INDEX_DIR}/{info.path.rpartition('/')[2]}", "an old version of the index") for info in old]
    # What the oldest version does not name and others do is too young to go, unless an older one named it.
    live = {name for info in (*kept[:1], *kept[-1:]) for name in _segment_names(storage, info)}
    outdated = {*unpublished, *(name for info in old for name in _segment_names(storage, info))} - live
    for info in listing:
        name = info.path.rpartition("/")[2]
        segment = _segment_of(name)
        if segment is not None and name.endswith(_FORMER_ENDING):
            result.append((f"{INDEX_DIR}/{name}", "of an older format of the index"))
        elif segment in outdated or (
            info.mtime_ms < newest_ms and (name.startswith(".") or segment not in {None, *live})
        ):
            reason = "half written" if segment is None else "named by no version of the index"
            result.append((f"{INDEX_DIR}/{name}", reason))
    return result


def _segment_of(name: str) -> str | None:
    """The name of the segment that a file is of."""
    if name.startswith("segment-"):
        return name.rsplit("-", 1)[0]
    return name.removesuffix(ENDING) if name.startswith("sketch-") else None


def _segment_names(storage: Storage, info: FileInfo) -> set[str]:
    """The names of a version's segments; none if it is damaged."""
    path = f"{INDEX_DIR}/{info.path.rpartition('/')[2]}"
    try:
        manifest = Manifest.from_bytes(storage.read(path), path)
        sketch_segments = {segment.name for record in manifest.sketches for segment in record.segments}
        return sketch_segments | {s.name for s in (*manifest.segments, *(manifest.row_group_segments or ()))}
    except (IndexFormatError, FileNotFoundError):
        return set()
