"""Writers of one Iceberg table, each in a process of its own: what each of them has done for sure."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from format_tables import content, maker, opened, rewrite
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ValidationException
from sqlalchemy.exc import OperationalError

from zskip.errors import ConflictError
from zskip.formats.iceberg.catalog import UnknownCommitError

REFUSED = (CommitFailedException, ValidationException, CommitStateUnknownException, OperationalError)
"""What pyiceberg raises where another writer was faster, or SQLite is busy."""


def _done(log: Path) -> bool:
    """Whether a writer may end: it is asked to, and has come through at least once."""
    return log.exists() and log.with_name("done").exists()


def append(path: str, log: str, seed: int) -> None:
    """Add a few rows with new ids again and again, and log which."""
    rng, start = random.Random(seed), 10_000 * (1 + seed)
    while not _done(Path(log)):
        count = rng.randrange(1, 6)
        if _tried(partial(maker("iceberg").append, Path(path), content(count, start), partitioned=True)):
            _write(log, list(range(start, start + count)))
        start += count
        time.sleep(2 * rng.random())


def delete(path: str, log: str, seed: int) -> None:
    """Delete rows that are there again and again, and log which."""
    rng = random.Random(seed)
    while not _done(Path(log)):
        table = maker("iceberg")._load(Path(path))  # type: ignore[attr-defined]
        ids = table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        gone = rng.sample(ids, min(len(ids), 2))
        if gone and _tried(partial(table.delete, f"id in ({gone[0]}, {gone[-1]})")):
            _write(log, gone)
        time.sleep(rng.random())


def update(path: str, log: str, seed: int) -> None:
    """Put a new row in the place of one that is there again and again, and log the ids of both."""
    rng, new = random.Random(seed), 10_000 * (1 + seed)
    while not _done(Path(log)):
        table = maker("iceberg")._load(Path(path))  # type: ignore[attr-defined]
        ids = table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()
        old = rng.choice(ids or [-1])
        if ids and _tried(partial(table.overwrite, content(1, new), overwrite_filter=f"id = {old}")):
            _write(log, [[old, new]])
        new += 1
        time.sleep(rng.random())


def optimize(path: str, log: str, seed: int, rounds: int) -> None:
    """Rewrite the whole table or one partition so many times, and log how each came out."""
    rng = random.Random(seed)
    for number in range(rounds):
        only: Callable[[int], int] | None = rng.randrange if rng.random() < 0.7 else None
        try:
            rewrite(opened(Path(path)), f"s{seed}n{number}", only=only)
            _write(log, ["committed"])
        except ConflictError:
            _write(log, ["conflict"])
        except UnknownCommitError:
            _write(log, ["unknown"])
        # Else the others, who have to begin anew after each rewrite, hardly ever come through.
        time.sleep(2 * rng.random())


def _tried(work: Callable[[], object]) -> bool:
    try:
        work()
    except REFUSED:
        return False
    return True


def _write(log: str, lines: list[object]) -> None:
    with open(log, "a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def read(log: Path) -> list[object]:
    """What a writer has logged."""
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
