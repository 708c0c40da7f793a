"""Rounds of two rewrites of one table and an appender, all at once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import zskip
from zskip.errors import ConflictError

ADDED = 50
"""Rows that the appender adds in a round."""


def run_rounds(table: Callable[[], zskip.Table], append: Callable[[int], None], rows: int, rounds: int) -> Counter[str]:
    """How many rewrites were committed and refused, while no round has lost or doubled an `id`.

    table: opens it anew; append: adds ADDED rows whose `id` counts from a number on; rows: are in the table, with `id`
    from 0 on.
    """
    outcomes: Counter[str] = Counter()

    def rewrite(seed: int) -> None:
        try:
            table().optimize(by=["id", "v"], files=2, seed=seed)
        except ConflictError:
            outcomes["conflict"] += 1
        else:
            outcomes["committed"] += 1

    for number in range(rounds):
        with ThreadPoolExecutor(3) as pool:
            begun = [pool.submit(rewrite, 2 * number), pool.submit(rewrite, 2 * number + 1)]
            time.sleep(random.Random(number).random())
            begun.append(pool.submit(append, rows))
            for each in begun:
                each.result()
        rows += ADDED
        found = table().df().select("id").collect()
        assert sorted(row["id"] for row in found) == list(range(rows)), number
    assert outcomes["committed"] >= rounds // 2
    return outcomes
