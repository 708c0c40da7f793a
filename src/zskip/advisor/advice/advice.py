"""Advice: layouts side by side and further suggestions, as records and as plain sentences."""

from __future__ import annotations

from dataclasses import dataclass

from zskip.advisor.workload.workload import Problem
from zskip.rows import Block, Grid, Share, shows, to_text
from zskip.units import show_size

WORTH = 0.9
"""A rewrite is advised if it reads less than this share of what is read today."""
_LISTED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Slower:
    """A query that reads more under another layout than it does today."""

    where: str
    before: float
    """Share of the rows (0 to 1) in the files that it reads today."""
    after: float

    @property
    def factor(self) -> float:
        """The ratio of `after` to `before`."""
        return self.after / max(self.before, 1e-9)

    def __str__(self) -> str:
        where = self.where if len(self.where) <= 90 else self.where[:86] + " ..."
        return f"{where}: {100 * self.before:.2g} % -> {100 * self.after:.2g} %, {self.factor:.1f} times"


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A layout, and the reads of the workload under it."""

    by: tuple[str, ...]
    """Empty for the current layout of a table that zskip has not clustered."""
    curve: str
    """As `optimize` takes it; `as it is` for the current table."""
    files: int
    kept: float
    """Mean share of the rows (0 to 1) that lie in files which a query reads; low and high: a 90 % interval."""
    kept_low: float
    kept_high: float
    decoded: float
    """Mean share of the rows in the pages that Spark's scan decodes."""
    decoded_low: float
    decoded_high: float
    bytes_to_write: int
    slower: tuple[Slower, ...] = ()
    """The worst first."""

    @property
    def name(self) -> str:
        """The name in tables and sentences."""
        return f"{', '.join(self.by) or 'no columns'} ({self.curve})"

    def __str__(self) -> str:
        lines = [
            f"{self.name}, {self.files:,} files: a query reads files with {_percent(self.kept)} of the rows "
            f"({_percent(self.kept_low)} to {_percent(self.kept_high)}) and decodes {_percent(self.decoded)} "
            f"({_percent(self.decoded_low)} to {_percent(self.decoded_high)}); writes {show_size(self.bytes_to_write)}"
        ]
        if self.slower:
            lines.append(f"{len(self.slower):,} queries would read more than today:")
            lines += [f"  {query}" for query in self.slower[:_LISTED]]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """Layouts for a table, compared on its workload."""

    path: str
    workload: str
    """A description of the workload."""
    current: Candidate
    candidates: tuple[Candidate, ...]
    """The best first."""
    by_number_of_columns: tuple[Candidate, ...] = ()
    """The best layout by one column, by two, and so on."""
    suggestions: tuple[str, ...] = ()
    """Further improvements."""
    problems: tuple[Problem, ...] = ()
    """Queries of the workload that could not be used."""

    @property
    def best(self) -> Candidate | None:
        """The candidate to take; None if the table should stay as it is."""
        first = self.candidates[0] if self.candidates else None
        return first if first is not None and first.kept < WORTH * self.current.kept else None

    @property
    def sentence(self) -> str:
        """The recommendation, with its effect."""
        return _recommend(self)

    @property
    def column_counts(self) -> str:
        """Whether more columns are better, in a sentence."""
        counts = self.by_number_of_columns
        best = min(range(len(counts)), key=lambda i: counts[i].kept)
        steps = ", ".join(f"{i}: {_percent(c.kept)}" for i, c in enumerate(counts, 1))
        if best == len(counts) - 1:
            more = "Each column more has helped so far."
        elif _percent(counts[best].kept) == _percent(counts[-1].kept):
            more = f"More columns than {best + 1} change nothing."
        else:
            more = f"More columns than {best + 1} read more."
        return f"Rows in the files that are read, by the number of columns: {steps}. {more}"

    def __str__(self) -> str:
        return to_text(_blocks(self))


def _list_details(advice: Advice) -> list[str]:
    """List the lines below the layouts."""
    lines = []
    if len(advice.by_number_of_columns) > 1:
        lines.append(advice.column_counts)
    slower = advice.best.slower if advice.best is not None else ()
    if slower:
        lines.append(f"{len(slower):,} queries would read more than today, the worst of them:")
        lines += [f"  {query}" for query in slower[:_LISTED]]
    lines += [f"- {text}" for text in advice.suggestions]
    lines += [f"- not used: {problem}" for problem in advice.problems[:_LISTED]]
    if len(advice.problems) > _LISTED:
        lines.append(f"- and {len(advice.problems) - _LISTED:,} other queries that could not be used")
    return lines


def _recommend(advice: Advice) -> str:
    best, current = advice.best, advice.current
    if best is None:
        return (
            f"Leave it as it is: a query reads files with {_percent(current.kept)} of the rows, and no layout that was "
            f"tried reads less than {WORTH:.0%} of that."
        )
    return (
        f"Cluster by {', '.join(best.by)} (curve={best.curve!r}): a query reads files with {_percent(best.kept)} of "
        f"the rows instead of {_percent(current.kept)}. That writes {show_size(best.bytes_to_write)}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


@shows(Candidate)
def _(candidate: Candidate) -> list[Block]:
    return str(candidate).splitlines()  # type: ignore[return-value]


@shows(Advice)
def _blocks(advice: Advice) -> list[Block]:
    rows = tuple(
        (
            name,
            c.files,
            _share(c.kept, c.kept_low, c.kept_high),
            _share(c.decoded, c.decoded_low, c.decoded_high),
            len(c.slower),
        )
        for name, c in [("as it is", advice.current), *((c.name, c) for c in advice.candidates)]
    )
    blocks: list[Block] = [f"{advice.path}, on {advice.workload}", advice.sentence]
    blocks.append(Grid(("layout", "files", "rows in files read", "rows decoded", "queries slower"), rows))
    return [*blocks, *_list_details(advice)]


def _share(mean: float, low: float, high: float) -> Share:
    return Share(mean, f"{_percent(mean)} ({_percent(low)}-{_percent(high)})")
