"""Bin packing: choose the small files of a partition that become one."""

from __future__ import annotations

import numpy as np

from zskip.records import Ints, Snapshot


def pack(snapshot: Snapshot, target: int, smallest: int) -> list[Ints]:
    """Put the small files of each partition into bins of at most `target` bytes, oldest first.

    target: the desired bytes of a new file; smallest: a file of at least this many bytes stays as it is. Returns the
    positions of each bin's files in the snapshot; bins of one file are left out. Consecutive files often belong
    together, like those of one day, so they share a bin; Delta's OPTIMIZE packs by size. A bin is closed as soon as the
    next file does not fit (next fit). With smallest <= target / 2, all new files of a partition but one are large
    enough to stay.

    >>> import numpy as np
    >>> from zskip.records import Partition, Snapshot
    >>> table = Snapshot(root="/t", version=0, fields=(), partition_fields=(), partitions=(Partition(directory=""),),
    ...                  paths=("a", "b", "c", "d"), sizes=np.array([30, 90, 50, 40]), mtimes_ms=np.array([1, 2, 3, 4]),
    ...                  partition_of=np.zeros(4, np.int32))
    >>> [bin.tolist() for bin in pack(table, target=100, smallest=60)]
    [[0, 2]]
    """
    small = np.flatnonzero(snapshot.sizes < smallest)
    # Paths are sorted, so files of the same time stay in the order of their names.
    order = small[np.lexsort((snapshot.mtimes_ms[small], snapshot.partition_of[small]))]
    bins: list[list[int]] = []
    free_bytes, last_partition = 0, -1
    partitions, sizes = snapshot.partition_of[order].tolist(), snapshot.sizes[order].tolist()
    for position, partition, size in zip(order.tolist(), partitions, sizes, strict=True):
        if partition != last_partition or size > free_bytes:
            bins.append([])
            free_bytes = target
        bins[-1].append(position)
        free_bytes -= size
        last_partition = partition
    return [np.array(positions, np.int64) for positions in bins if len(positions) > 1]
