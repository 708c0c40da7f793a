"""Files that Spark or another program lists, and of which an index of ours knows more."""

from __future__ import annotations

import json
import logging
import threading
import traceback
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zskip.errors import ZskipError, ZskipWarning
from zskip.formats.schema import fields_from_json
from zskip.index import BoundIndex, Index
from zskip.records import Bools, Field, LeafReport, Partition, PruneResult, ScanReport, Snapshot
from zskip.spark.jvm.gateway import JavaObject, Jvm
from zskip.spark.jvm.hadoop import storage_for
from zskip.spark.scan.bridge.callbacks import Asked
from zskip.spark.scan.filters.catalyst import Filters, Handed
from zskip.spark.scan.filters.constants import prune_filters
from zskip.spark.scan.listings.choice import Choice, packed, unpacked
from zskip.spark.scan.rule.file_index import OnFilters, PrunedFileIndex, Pruning
from zskip.spark.scan.rule.reports import ticket_for
from zskip.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("zskip.scan")
Watch = Callable[[Storage, Sequence[Field], bool], OnFilters | None]
"""From where a table lies, its columns, and whether case counts, to who is told of its scans."""
_watching: list[Watch] = []


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Listing:
    """What there is of the files of an index, and beside them, in a relation."""

    present: Bools
    """(files of the index,)"""
    twice: bool = False
    """Whether one of them is listed, and so read, more than once."""
    others: int = 0
    """Files of which the index knows nothing: they are read."""
    other_bytes: int = 0
    total: int | None = None
    """Files before partition filters; None where that is not known."""
    total_bytes: int | None = None

    @classmethod
    def read(cls, text: str, files: int) -> Listing:
        """Read what `Listing.java` says.

        files: of the index.
        """
        said = json.loads(text)
        return cls(
            present=unpacked(said["bits"], files) if "bits" in said else np.ones(files, np.bool_),
            twice=said["twice"],
            others=said["others"],
            other_bytes=said["other_bytes"],
            total=said["total"],
            total_bytes=said["total_bytes"],
        )


class IndexedFiles(PrunedFileIndex):
    """The files that an index describes, whichever of them a relation then lists."""

    def __init__(
        self, spark: SparkSession, stats: BoundIndex, *, case_sensitive: bool, on_filters: OnFilters | None = None
    ) -> None:
        self.spark = spark
        self.jvm = Jvm.of(spark)
        self.snapshot = stats.snapshot
        self._case_sensitive = case_sensitive
        self.pruning = Pruning(prune=self._prune, stats=stats, rows=stats.rows, on_filters=on_filters)
        self._everything = Listing(present=np.ones(len(stats.snapshot), np.bool_))
        self._asked = threading.local()
        self._name = uuid.uuid4().hex

    @property
    def listing(self) -> Listing:
        """The files of the relation that asks; all that the index knows where it has not listed them."""
        found: Listing | None = getattr(self._asked, "listing", None)
        return self._everything if found is None else found

    @property
    def pin(self) -> str | None:
        """Names what the index describes, where the relation has listed its files, each once."""
        listing: Listing | None = getattr(self._asked, "listing", None)
        return None if listing is None or listing.twice else self._name

    @property
    def present(self) -> Bools:
        """(files of the index,) mask of those that the relation lists."""
        return self.listing.present

    def answer(self, question: str, listing: str | None, *arguments: Any) -> JavaObject:
        """Answer a question of `zskip.java` about the files that a relation lists."""
        self._asked.listing = None if listing is None else Listing.read(listing, len(self.snapshot))
        try:
            return super().answer(question, None, *arguments)
        finally:
            self._asked.listing = None

    def predicate_of(self, filters: Filters) -> Any:
        """Filters of a scan as a predicate over the columns of the files."""
        return filters.predicate(self.snapshot.fields, case_sensitive=self._case_sensitive)

    def _prune(self, filters: Filters) -> PruneResult:
        assert self.pruning.stats is not None
        fields, sensitive = self.snapshot.fields, self._case_sensitive
        return prune_filters(self.pruning.stats, filters, fields, case_sensitive=sensitive)

    def _kept_by_partition(self, filters: JavaObject) -> tuple[Bools, tuple[LeafReport, ...]]:
        """What lies there: the relation's own index has applied the filters."""
        listing = self.listing
        if filters.isEmpty() or listing.total is None or not isinstance(filters, Handed):
            return listing.present, ()
        skipped = listing.total - int(listing.present.sum()) - listing.others
        reason = "" if skipped else "Spark chose the partitions before, or every partition matches"
        sql = " AND ".join(filters.filters.sql)
        return listing.present, (LeafReport(sql=sql, skipped=skipped, kind="partition", reason=reason),)

    def _remembered(self, ticket: int | None) -> Choice | None:
        """None: what the relation lists may have changed since."""
        return None

    def _reply(self, choice: Choice, planned: Choice) -> dict[str, Any]:
        return {**super()._reply(choice, planned), "kept": packed(choice.kept | ~self.listing.present)}

    def _listed(self, choice: Choice, query: int | None = None, *, for_keys: bool = False) -> JavaObject:
        return json.dumps({"ticket": ticket_for(self, choice), "kept": packed(choice.kept)})

    def _reported(self, choice: Choice) -> ScanReport:
        listing, kept = self.listing, choice.kept
        files, size = int(kept.sum()) + listing.others, int(self.snapshot.sizes[kept].sum()) + listing.other_bytes
        here = listing.present
        total = listing.total if listing.total is not None else int(here.sum()) + listing.others
        total_bytes = listing.total_bytes
        if total_bytes is None:
            total_bytes = int(self.snapshot.sizes[here].sum()) + listing.other_bytes
        said = {"files": files, "bytes": size, "total": total, "total_bytes": total_bytes, "nanos": 0}
        return self.report_of(choice, said)


class Directory:
    """Opens the indexes that lie in the directories of relations; what it opened lives as long as Java holds it."""

    def __init__(self, jvm: Jvm, session: Callable[[JavaObject], SparkSession]) -> None:
        self._jvm = jvm
        self._session = session
        self._warned: set[str] = set()

    def answer(self, question: str, *arguments: Any) -> JavaObject:
        """Answer `Tables.java`; None where there is no index that can be used."""
        if question == "failed":
            place, said = arguments
            warnings.warn(
                f"zskip leaves a query as Spark has it: {place} failed ({said}); please report it",
                ZskipWarning,
                stacklevel=2,
            )
            return None
        if question == "refused":
            warnings.warn(arguments[0], ZskipWarning, stacklevel=2)
            return None
        root, data, partition, sensitive, session = arguments
        try:
            files = open_index(self._session(session), root, data, partition, case_sensitive=sensitive)
        except Exception as error:
            self._warn(root, error)
            return None
        if files is None:
            return None
        jvm, snapshot = self._jvm, files.snapshot
        twin = jvm.call("java.util.Objects", "requireNonNull")(Asked(files.answer))
        assert files.pruning.rows is not None
        rows = files.pruning.rows
        return jvm.list_of(
            twin, jvm.strings(snapshot.paths), *map(jvm.longs, (snapshot.sizes, snapshot.mtimes_ms, rows))
        )

    def _warn(self, root: str, error: Exception) -> None:
        if root not in self._warned:
            self._warned.add(root)
            _log.warning("the index is not used\n%s", traceback.format_exc())
            said = str(error) if isinstance(error, ZskipError) else f"{type(error).__name__}: {error}"
            warnings.warn(f'the index of "{root}" is not used: {said}', ZskipWarning, stacklevel=2)


def tell(watch: Watch) -> None:
    """Have somebody told of the scans of tables that are opened from now on, once."""
    if watch not in _watching:
        _watching.append(watch)


def open_index(
    spark: SparkSession, root: str, data_json: str, partition_json: str, *, case_sensitive: bool
) -> IndexedFiles | None:
    """The index in a directory, seen from relations of one schema; None where there is none.

    Nothing is listed: what the index knows of a file counts where a relation lists it with that size and time.
    Raises IndexFormatError where it is damaged, StorageError where it cannot be read.
    """
    storage = storage_for(spark, root)
    index = Index.load(storage)
    if index is None:
        return None
    fields = _fields(data_json, {field.name.lower() for field in fields_from_json(partition_json)})
    return IndexedFiles(
        spark,
        index.bind(_described(index, storage.root, fields), case_sensitive=case_sensitive),
        case_sensitive=case_sensitive,
        on_filters=next((found for watch in _watching if (found := watch(storage, fields, case_sensitive))), None),
    )


def _fields(data_json: str, partitions: set[str]) -> tuple[Field, ...]:
    """The columns of files that their statistics can tell of."""
    found = []
    described = json.loads(data_json)["fields"]
    for field, said in zip(fields_from_json(data_json), described, strict=True):
        metadata = said.get("metadata", {})
        # Files that lack a column with a default do not hold nulls; columns of partitions are not read from files.
        if field.name.lower() in partitions or any("DEFAULT" in key for key in metadata):
            continue
        found.append(field)
    return tuple(found)


def _described(index: Index, root: str, fields: tuple[Field, ...]) -> Snapshot:
    """The files that an index describes, each as it was last seen, as if they were the table."""
    latest: dict[str, tuple[int, int]] = {}
    for listing in index.listings():
        seen = zip(listing.sizes.tolist(), listing.mtimes_ms.tolist(), strict=True)
        latest.update(zip(listing.paths.to_pylist(), seen, strict=True))
    paths = sorted(latest)
    held = np.array([latest[path] for path in paths], np.int64).reshape(-1, 2)
    return Snapshot(
        root=root,
        version=index.version,
        fields=fields,
        partition_fields=(),
        partitions=(Partition(directory=""),),
        paths=tuple(paths),
        sizes=held[:, 0].copy(),
        mtimes_ms=held[:, 1].copy(),
        partition_of=np.zeros(len(paths), np.int32),
    )
