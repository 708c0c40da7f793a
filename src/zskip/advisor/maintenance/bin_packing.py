"""Bin packing: which small files of a partition become one."""

from __future__ import annotations

import numpy as np

from zskip.records import Ints, Snapshot


def pack(snapshot: Snapshot, target: int, smallest: int) -> list[Ints]:
    """Put the small files of each partition into bins of at most `target` bytes, in the order in which they came.

    target: bytes a new file aims at; smallest: bytes from which on a file is large enough and stays as it is. Returns
    the places of each bin's files in the snapshot; bins of one file are left out. Files that came one after another
    hold what belongs together, such as one day, so they share a bin: Delta's OPTIMIZE packs by size. A bin is closed
    as soon as the next file does not fit (next fit), so that with smallest <= target / 2 all but one new file of a
    partition are large enough to stay.

    >>> import numpy as np
    >>> from zskip.records import Partition, Snapshot
    >>> table = Snapshot(root="/t", version=0, fields=(), partition_fields=(), partitions=(Partition(directory=""),),
    ...                  paths=("a", "b", "c", "d"), sizes=np.array([30, 90, 50, 40]), mtimes_ms=np.array([1, 2, 3, 4]),
    ...                  partition_of=np.zeros(4, np.int32))
    >>> [bin.tolist() for bin in pack(table, target=100, smallest=60)]
    [[0, 2]]
    """
    small = np.flatnonzero(snapshot.sizes < smallest)
    # Paths are in order, so that the sort keeps files of one time in the order of their names.
    order = small[np.lexsort((snapshot.mtimes_ms[small], snapshot.partition_of[small]))]
    bins: list[list[int]] = []
    room, last = 0, -1
    partitions, sizes = snapshot.partition_of[order].tolist(), snapshot.sizes[order].tolist()
    for place, partition, size in zip(order.tolist(), partitions, sizes, strict=True):
        if partition != last or size > room:
            bins.append([])
            room = target
        bins[-1].append(place)
        room -= size
        last = partition
    return [np.array(places, np.int64) for places in bins if len(places) > 1]
