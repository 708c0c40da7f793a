"""The score of zskip in the peers' own test cases: `python tests/conformance/score.py --write` puts it in the docs."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import vectors_delta
import vectors_generated
import vectors_hudi
import vectors_iceberg
from differences import DIFFERENCES
from question import Answer, Question, ask

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
_SOURCES = (vectors_delta, vectors_generated, vectors_hudi, vectors_iceberg)

_HEAD = """# The test cases of Delta, Hudi and Iceberg

zskip answers the data-skipping cases of these projects' own test suites, and they run with its tests. Each case gives
zskip the statistics that the peer has, one predicate, and the peer's answer. This page is written by
`python tests/conformance/score.py --write`.

- **rows lost**: zskip skips a file that holds, or under its statistics may hold, a matching row. This must be 0
  everywhere. What a file may hold does not come from zskip's pruning: it follows from the rows of a case, or from rows
  that the statistics allow, tried out one by one.
- **skips more / less**: zskip skips a file that the peer keeps, or the other way round. Where the peer is wrong to
  skip, zskip is not behind.
- **peer would lose rows**: the peer skips what may hold a row that Spark's SQL would return. Those of Iceberg are not
  bugs: its own predicates take nulls and NaN otherwise than Spark does. Those of the adversarial suite were.

In the strict suite the question is whether all rows of a file match: there, *skipped* stands for files of which that
is certain.
"""

_GENERATED = """
The suite of generated columns asks how Delta turns a filter on a column into filters on the partitions that are
generated from it. zskip has no generated columns: it skips by the range that each file of a partition has in the column
itself. The table made for each case has one file for each partition, with values around those of the predicate.
"""

_COLUMNS = (
    "suite",
    "questions",
    "rows lost",
    "files the peer skips",
    "files zskip skips",
    "skips more",
    "same",
    "skips less",
    "peer would lose rows",
)


@lru_cache(maxsize=1)
def questions() -> tuple[Question, ...]:
    """All questions of all suites."""
    return tuple(question for source in _SOURCES for question in source.questions())


@lru_cache(maxsize=1)
def answers() -> tuple[Answer, ...]:
    """What became of each question."""
    return tuple(map(ask, questions()))


def page() -> str:
    """The page of the docs."""
    return _HEAD + "\n" + "\n".join(_score()) + "\n" + _GENERATED + "\n" + "\n".join(_listed()) + "\n"


def _score() -> Iterator[str]:
    suites = defaultdict(list)
    for question, answer in zip(questions(), answers(), strict=True):
        suites[question.suite].append(answer)
        suites["all"].append(answer)
    suites["all"] = suites.pop("all")
    yield f"| {' | '.join(_COLUMNS)} |"
    yield "|---|" + "--:|" * (len(_COLUMNS) - 1)
    for suite, found in suites.items():
        known = [answer for answer in found if answer.peer_skipped is not None]
        ahead, behind = sum(a.ahead for a in found), sum(a.behind for a in found)
        same = sum(not a.ahead and not a.behind for a in found)
        counts = (
            len(found),
            sum(a.lost for a in found),
            sum(a.peer_skipped or 0 for a in known),
            sum(a.skipped for a in known),
            ahead,
            same,
            behind,
            sum(a.peer_loses for a in found),
        )
        yield f"| {suite} | " + " | ".join(f"{count:,}" for count in counts) + " |"


def _listed() -> Iterator[str]:
    yield "Where zskip skips less, and why:"
    yield ""
    yield "| reason | questions | cases |"
    yield "|---|--:|---|"
    for reason, names in DIFFERENCES.items():
        cases = list(dict.fromkeys(name.split(":")[0].split(" ")[0] for name in names))
        yield f"| {reason} | {len(names)} | {', '.join(cases)} |"


def main() -> int:
    """Print the page, or write it."""
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
