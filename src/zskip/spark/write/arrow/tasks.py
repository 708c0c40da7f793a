"""How the work is divided: files into tasks that place their rows, new files into groups that one task writes."""

from __future__ import annotations

from zskip.records import DataFile, ReadableFiles, Snapshot
from zskip.spark.write.arrow.reading import Source, describe_deletes

_TASK_BYTES = 128 << 20
_LEAST_TASK_BYTES = 4 << 20
TASKS_A_CORE = 4
_MOST_WRITTEN_BYTES = 64 << 20
"""Current bytes of the files that one task writes, unless it is a single file, or there are more groups than pay."""
_DIVIDED_BYTES = 24 << 20
"""About the bytes in Parquet of the rows that a task divides at once."""
_BATCH_BYTES = 256 << 10
"""The least bytes of a batch in the shuffle, about."""


def group_files(files: int, current_bytes: int, cores: int) -> int:
    """Choose how many files, one after another, are one group of the shuffle, which one task writes.

    A batch takes a millisecond whatever is in it, so that a task that places rows ships to few groups; where there are
    more files than groups, the task that writes them divides. current_bytes: of the rows to write, in Parquet.

    >>> [group_files(files, files << 27, 4) for files in (64, 512, 8_000, 32_000)]
    [1, 6, 84, 334]
    """
    size = max(current_bytes, 1) / files
    even = files // (TASKS_A_CORE * cores)
    groups = min(max(even, int(_LEAST_TASK_BYTES / size), 1), max(int(_MOST_WRITTEN_BYTES / size), 1), files)
    most_groups = max(min(_DIVIDED_BYTES, _task_bytes(current_bytes, TASKS_A_CORE * cores)) // _BATCH_BYTES, cores)
    return max(groups, -(-files // most_groups))


def _task_bytes(current_bytes: int, least: int) -> int:
    """The bytes of a task that places rows; least: the number of tasks, if there are enough bytes."""
    return min(_TASK_BYTES, max(_LEAST_TASK_BYTES, -(-current_bytes // least)))


def source_of(file: DataFile, readable: ReadableFiles) -> Source:
    """A data file with all that tells which of its rows are live."""
    return Source(
        file.path,
        file.size,
        file.partition,
        location=readable.locations.get(file.path, ""),
        deletes=describe_deletes(readable.deletes.get(file.path, ())),
        hidden=readable.hidden.get(file.path, ()),
    )


def split_into_tasks(snapshot: Snapshot, readable: ReadableFiles, least: int) -> list[list[Source]]:
    """Split the files of a snapshot into tasks of about equal bytes, large files in parts.

    readable: of the same files; least: the number of tasks, if the files are large enough.
    """
    size = _task_bytes(snapshot.bytes, least)
    tasks: list[list[Source]] = [[]]
    task_bytes = 0
    for file in snapshot:
        parts = max(1, round(file.size / size))
        for part in range(parts):
            if tasks[-1] and task_bytes + file.size // parts > 1.25 * size:
                tasks.append([])
                task_bytes = 0
            tasks[-1].append(source_of(file, readable)._replace(part=part, parts=parts))
            task_bytes += file.size // parts
    return tasks
