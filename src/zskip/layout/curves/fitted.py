"""A tree of cuts fitted to a workload, in place of cuts of the key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zskip.layout.cells import Keys
from zskip.layout.curves.base import Bounds, CountCuts, Curve, Grown, Guide, Partition
from zskip.layout.curves.zorder import ZOrder
from zskip.layout.patterns import zorder_pattern
from zskip.layout.tree.tree import Tree
from zskip.layout.workload import Workload
from zskip.records import Ints, Sample


@dataclass(frozen=True, eq=False)
class Fitted(Curve):
    """Rows belong to the leaf of a tree; their keys, in Z-order, order those of a file."""

    name = "fitted"
    is_separable = False
    needs_workload = True
    margin = 0.95
    format = 2
    pattern = staticmethod(zorder_pattern)

    tree: Tree

    def segments(self, ranks: Sequence[Ints], keys: Keys, partition: Partition, count_cuts: CountCuts) -> Ints:
        return self.tree.leaves(ranks, partition)

    @classmethod
    def grow(cls, sample: Sample, files: Ints, workload: Workload | None, bounds: Bounds, guide: Guide) -> Grown:
        # Executors that place rows have no use for it.
        from zskip.layout.tree.forest import grow_trees

        older = (guide[0].tree, guide[1]) if guide and guide[0].tree else None
        assert workload is not None
        tree, bounds, spread = grow_trees(sample, files, workload, bounds, older)
        return cls(tree), bounds, spread

    def to_document(self) -> dict[str, Any]:
        return {"tree": self.tree.to_document()}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Curve:
        # An older version fitted the pattern, which stands in the layout.
        return cls(Tree.from_document(document["tree"])) if "tree" in document else ZOrder()
