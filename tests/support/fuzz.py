"""Random tables and predicates against the oracle, for as long as one lets it: `python3 dev.py fuzz`.

A *pair* is a table and a predicate. For each row of each file, the truth value that the oracle finds must be one that
the statistics said to be possible. Each seed stands for one table and `PER_TABLE` predicates, so that a failure is
repeated by `python3 dev.py fuzz --seed SEED --tables 1`. With `--queries`, whole queries instead (`query_fuzz.py`).
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator

import random_tables
from oracle import NoValue, Row, truth

from zskip.predicate import And, Columns, Not, Or, Predicate, Unknown, nodes, parse, smaller, to_sql
from zskip.prune import outcomes
from zskip.records import Field

PER_TABLE = 10
READ_BACK = 8
"""One predicate of so many is written as SQL and read again, which takes as long as ten prunings."""
MOST_UNKNOWN = 4
"""Parts of a predicate that are unknown by themselves."""
ZONE_OF_TEXT = "UTC"
"""In which timestamps are written."""


def run(seed: int) -> Counter[str]:
    """Check one table: how many pairs, and files seen and skipped. Raises AssertionError where a row is lost."""
    rng = random.Random(seed)
    table = random_tables.table(rng)
    done: Counter[str] = Counter()
    for i in range(PER_TABLE):
        predicate = random_tables.predicate(rng, table)
        lost = find_lost(predicate, table)
        if lost:
            smallest = shrunk(predicate, table)
            raise AssertionError(f"seed {seed}, predicate {i}: {find_lost(smallest, table)}: {to_sql(smallest)}")
        kept = outcomes(predicate, table, table.sketches).may_true
        done.update(pairs=1, files=len(kept), skipped=int((~kept).sum()))
        if i % READ_BACK == 0 and table.zone == ZONE_OF_TEXT:
            check_text(seed, predicate, table)
            done["read back"] += 1
    return done


def find_lost(predicate: Predicate, table: random_tables.Table) -> str | None:
    """The first row whose truth value its file was said not to have."""
    found = outcomes(predicate, table, table.sketches)
    masks = {True: found.may_true, False: found.may_false, None: found.may_null}
    for i, file in enumerate(table.files):
        for row in file:
            for value in possible(predicate, row):
                if not masks[value][i]:
                    return f"{value} for {dict(row)} of file {i}"
    return None


def possible(predicate: Predicate, row: Row) -> set[bool | None]:
    """The truth values of a row: more than one where parts are unknown, none where a function has no value."""
    unknown = sum(isinstance(node, Unknown) for node in nodes(predicate))
    values = itertools.product((True, False, None), repeat=min(unknown, MOST_UNKNOWN))
    try:
        return {truth(with_unknowns(predicate, itertools.cycle(chosen)), row) for chosen in values}
    except NoValue:
        return set()


def with_unknowns(predicate: Predicate, values: Iterator[bool | None]) -> Predicate:
    """The predicate with truth values for its unknown parts, one after the other."""
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(with_unknowns(child, values) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(with_unknowns(predicate.child, values))
    return random_tables.Constant(next(values)) if isinstance(predicate, Unknown) else predicate


TESTS: dict[str, Callable[[bool | None], bool | None]] = {
    "{}": lambda value: value,
    "({}) IS NULL": lambda value: value is None,
    "({}) IS NOT TRUE": lambda value: value is not True,
    "({}) <=> FALSE": lambda value: value is False,
}
"""What is written around a predicate, and what becomes of its truth value."""


def check_text(seed: int, predicate: Predicate, table: random_tables.Table) -> None:
    """What is read from the SQL of a predicate must mean the same, and what is tested of it, too."""
    columns = Columns([Field(name=column.path[0], type=column.type) for column in table.columns])
    for form, of_value in TESTS.items():
        sql = form.format(to_sql(predicate))
        found = outcomes(parse(sql, columns, lenient=True), table, table.sketches)
        masks = {True: found.may_true, False: found.may_false, None: found.may_null}
        for i, file in enumerate(table.files):
            for row in file:
                assert all(masks[of_value(v)][i] for v in possible(predicate, row)), f"seed {seed}: {sql} is misread"


def shrunk(predicate: Predicate, table: random_tables.Table) -> Predicate:
    """The smallest part of a failing predicate that fails by itself."""
    for part in smaller(predicate):
        if find_lost(part, table):
            return shrunk(part, table)
    return predicate


def main() -> int:
    """Run until the time or the number of tables is used up, or until a row is lost."""
    if "--queries" in sys.argv[1:]:
        import query_fuzz

        return query_fuzz.main([argument for argument in sys.argv[1:] if argument != "--queries"])
    parser = argparse.ArgumentParser(prog="dev.py fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; each table takes the next")
    parser.add_argument("--tables", type=int, default=100_000, help="how many; 10 pairs each")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    started, total = time.monotonic(), Counter[str]()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.tables)
        for i, done in enumerate(pool.imap_unordered(run, seeds, chunksize=50)):
            total.update(done)
            if i % 5_000 == 4_999:
                print(summary(total, time.monotonic() - started), file=sys.stderr, flush=True)
            if time.monotonic() - started > options.seconds:
                break
        pool.terminate()
    print(summary(total, time.monotonic() - started))
    return 0


def summary(total: Counter[str], seconds: float) -> str:
    """One line on what was checked."""
    share = 100 * total["skipped"] / max(total["files"], 1)
    return f"{total['pairs']:,} pairs, {share:.0f} % of files skipped, nothing lost, {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
