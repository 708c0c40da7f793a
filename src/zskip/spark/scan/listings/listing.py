"""A relation's listing, seen from an index: the listed files that the index describes, and the number of others."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from zskip.records import Bools
from zskip.spark.scan.listings.masks import unpack_mask


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Listing:
    """The files of a relation, after Spark's partition filters."""

    present: Bools
    """(files of the index,) which of them are listed."""
    is_known: bool = True
    """False where nothing is listed yet: then every file that the index describes may be there."""
    deleted: Bools | None = None
    """(files of the index,) listed files of which rows are deleted; None for none."""
    twice: bool = False
    """Whether a file is listed, and so read, more than once."""
    others: int = 0
    """Files that the index does not describe as they are; they are read."""
    other_bytes: int = 0
    total: int | None = None
    """Files before partition filters; None where that is not known."""
    total_bytes: int | None = None
    total_rows: int | None = None

    @classmethod
    def read(cls, text: str | None, files: int) -> Listing:
        """Read what `Listing.java` says.

        text: None where nothing is listed yet; files: that the index describes.
        """
        if text is None:
            return cls(present=np.ones(files, np.bool_), is_known=False)
        described = json.loads(text)
        bits, deleted = described.pop("bits", None), described.pop("deleted", None)
        return cls(
            present=np.ones(files, np.bool_) if bits is None else unpack_mask(bits, files),
            deleted=None if deleted is None else unpack_mask(deleted, files),
            **described,
        )

    @property
    def whole(self) -> Bools:
        """(files of the index,) the listed files that have all of their rows."""
        return self.present if self.deleted is None else self.present & ~self.deleted
