"""The frozen records that pass between the rooms; each says its units."""

from zskip.records.arrays import Bools, Floats, Ints, Values
from zskip.records.audit import Cleaning, Leftover, Mismatch, Verification
from zskip.records.info import (
    ClusteringInfo,
    ColumnCuts,
    IndexedPart,
    IndexInfo,
    LayoutInfo,
    SketchInfo,
    TableInfo,
    TreeCut,
    TreeInfo,
)
from zskip.records.reading import (
    EXACT_NAMES,
    ColumnIds,
    ColumnNames,
    Deletes,
    HiddenColumn,
    Matching,
    ReadableFiles,
    Reading,
)
from zskip.records.results import CompactResult, FileSizes, Maintenance, Operation, OptimizeResult, WriteResult
from zskip.records.scans import Explanation, LeafReport, PruneResult, Regret, ScanReport, ScanStep
from zskip.records.snapshot import DataFile, Field, Partition, Sample, Snapshot
from zskip.records.statistics import ALL_NULL, ColumnStats, Known

__all__ = [
    "ALL_NULL",
    "EXACT_NAMES",
    "Bools",
    "Cleaning",
    "ClusteringInfo",
    "ColumnCuts",
    "ColumnIds",
    "ColumnNames",
    "ColumnStats",
    "CompactResult",
    "DataFile",
    "Deletes",
    "Explanation",
    "Field",
    "FileSizes",
    "Floats",
    "HiddenColumn",
    "IndexInfo",
    "IndexedPart",
    "Ints",
    "Known",
    "LayoutInfo",
    "LeafReport",
    "Leftover",
    "Maintenance",
    "Matching",
    "Mismatch",
    "Operation",
    "OptimizeResult",
    "Partition",
    "PruneResult",
    "ReadableFiles",
    "Reading",
    "Regret",
    "Sample",
    "ScanReport",
    "ScanStep",
    "SketchInfo",
    "Snapshot",
    "TableInfo",
    "TreeCut",
    "TreeInfo",
    "Values",
    "Verification",
    "WriteResult",
]
