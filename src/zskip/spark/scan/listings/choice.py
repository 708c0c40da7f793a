"""The files that a scan reads, and why: what each kind of pruning takes and gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from zskip.predicate import Predicate
from zskip.records import Bools, LeafReport
from zskip.spark.scan.bridge.filters import Filters
from zskip.spark.scan.listings.listing import Listing

_OBJECT_BYTES = 1_000
_LEAF_BYTES = 300
_KEY_BYTES = 10_000


def texts_size(leaves: Iterable[LeafReport]) -> int:
    """About how many bytes of memory reports of leaves take."""
    return sum(_LEAF_BYTES + len(leaf.sql) + len(leaf.reason) for leaf in leaves)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Choice:
    """The files that a scan reads, and why."""

    listing: Listing
    pin: str | None
    """Names the index that describes the files; None where a file may be read twice or not at all."""
    kept: Bools
    """(files,)"""
    full: Bools
    """(files,) files all of whose rows pass the filters that Spark handed over; it keeps some to itself."""
    partition_filters: Filters
    data_filters: Filters
    filter_leaves: tuple[LeafReport, ...]
    """What the filters skipped."""
    steps: tuple[tuple[LeafReport, Bools], ...] = ()
    """What joins, limits and counts skipped after that, and the files that each of them left."""
    keys: tuple[Predicate, ...] = ()
    """Some keys of each join, as a condition on the relation."""
    seconds: float
    is_repeatable: bool = True
    """Whether equal questions have the same answer: nothing failed."""

    @property
    def leaves(self) -> tuple[LeafReport, ...]:
        """What each part of the query skipped."""
        return (*self.filter_leaves, *(leaf for leaf, _ in self.steps))

    @property
    def nbytes(self) -> int:
        """About how many bytes of memory it takes."""
        deleted = () if self.listing.deleted is None else (self.listing.deleted,)
        masks: dict[int, int] = {
            id(mask): mask.nbytes for mask in (self.listing.present, *deleted, self.kept, self.full)
        }
        masks |= {id(kept): kept.nbytes for _, kept in self.steps}
        texts = [filters.described for filters in (self.partition_filters, self.data_filters)]
        size = sum(masks.values()) + sum(map(len, texts)) + texts_size(self.leaves)
        return _OBJECT_BYTES + size + _KEY_BYTES * len(self.keys)

    def narrow(self, kept: Bools, leaf: LeafReport) -> Choice:
        """Keep only some of the files.

        kept: (files,) those that stay, of this choice and maybe others.
        """
        kept = self.kept & kept
        return replace(self, kept=kept, full=self.full & kept, steps=(*self.steps, (leaf, kept)))
