"""What a read becomes that needs fewer files: the files themselves, or a condition for the format's own reader."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from zskip.errors import UnsupportedError
from zskip.spark.connect.expressions import Message, nested

FRAME = "zskip.frame"
"""The option by which a read names the DataFrame of `Table.df()` that it belongs to."""
FORMATS = ("parquet", "delta", "iceberg")
_WILD = re.compile(r"[{}\[\]*?\\]")
"""Characters that make Spark read a name as a pattern."""
_PATTERN = re.compile(r"[{}\[\]*?\\,^]")
"""Characters that Spark may read as a pattern, or that end a name in a list of names."""
_FEW = 32
"""As many paths the driver lists itself; more take a job."""


def check_no_pattern(names: Iterable[str]) -> None:
    """Raise UnsupportedError for a name that Spark would read as a pattern: it might read other files for it."""
    pattern = next((name for name in names if _WILD.search(name)), None)
    if pattern is not None:
        raise UnsupportedError(
            f'"{pattern}" is a pattern to Spark Connect, which might read other files for it; rename it, or use a '
            "classic session. files() and explain() work"
        )


def source_of(read: Message) -> tuple[str, str] | None:
    """The format and the path of a read that is nothing but these, `FRAME` and the name of a DataFrame, or None."""
    source = read.data_source
    if FRAME in source.options:
        return FRAME, source.options[FRAME]
    name = source.format.lower()
    is_plain = name in FORMATS and len(source.paths) == 1 and not source.options and not source.schema
    if not is_plain or source.predicates or not ("://" in source.paths[0] or source.paths[0].startswith("/")):
        return None
    return name, source.paths[0]


def path_of(names: Sequence[str]) -> tuple[str, str] | None:
    """The format and the path by which a text names a table; None for other names."""
    is_path = len(names) == 2 and names[0].lower() in ("parquet", "delta") and "/" in names[1]
    return (names[0].lower(), names[1]) if is_path else None


def paths_of(message: Message) -> Iterator[tuple[str, ...]]:
    """The paths of each read by paths in a plan, and each text."""
    if message.DESCRIPTOR.name == "SQL":
        yield (message.query,)
    if message.DESCRIPTOR.name == "Read" and message.HasField("data_source"):
        yield tuple(message.data_source.paths)
    for child in nested(message):
        yield from paths_of(child)


def give_files(read: Message, root: str, files: Sequence[str], schema: str) -> bool:
    """Let a read of a directory read only some of its files; whether it does.

    files: paths below the root; schema: all columns, in Spark's JSON.
    """
    source = read.data_source
    if _PATTERN.search(root) or any(map(_PATTERN.search, files)):
        return False
    if len(files) > _FEW and not source.options:
        source.options["pathGlobFilter"] = "{" + ",".join(sorted({file.rpartition("/")[2] for file in files})) + "}"
    else:
        del source.paths[:]
        source.paths.extend(f"{root}/{file}" for file in files)
        source.options["basePath"] = root
    source.schema = schema
    return True


def give_condition(relation: Message, version: str, condition: str) -> None:
    """Put a condition above a read by a path, and have it read the version for which it holds."""
    inner = type(relation)()
    inner.CopyFrom(relation)
    inner.read.data_source.options["versionAsOf"] = version
    relation.Clear()
    relation.filter.input.CopyFrom(inner)
    relation.filter.condition.expression_string.expression = condition
