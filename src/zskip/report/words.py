"""The sentences of a report: the verdict, and the meaning of each part."""

from __future__ import annotations

from zskip.records import Maintenance
from zskip.report.facts import Facts, Queries
from zskip.report.spread import Spread
from zskip.report.values import clean, percent
from zskip.rows import moment
from zskip.units import show_size

_BETTER = 0.95
"""An improvement is mentioned if it leaves less than this share."""


def verdict(facts: Facts) -> str:
    """Say in a line or two how well the table suits its queries, and what to do."""
    info = facts.info
    if not info.files:
        return "The table has no files yet: there is nothing to skip."
    if info.index is None and not facts.spreads:
        return (
            f"There is no index, so every query reads all {info.files:,} files. Make one with table.index() or "
            "`zskip index PATH`, then report again."
        )
    return f"{_reads(facts)} {_advice(facts)}".strip()


def _reads(facts: Facts) -> str:
    if facts.queries is not None and facts.queries.entries:
        worst = _worst_group(facts.queries, facts.info.bytes)
        share = percent(facts.queries.share(facts.info.bytes))
        most = f", those on {clean(worst[0])} read {percent(worst[1])}" if worst else ""
        return f"Queries read {share} of the table on average{most}."
    if not facts.spreads:
        return "No column of this table has bounds by which files could be skipped."
    first, *others = facts.spreads[:3]
    more = "".join(f", of {clean(spread.name)} {percent(spread.share)}" for spread in others)
    return f"A query for one value of {clean(first.name)} reads {percent(first.share)} of the table's bytes{more}."


def _worst_group(queries: Queries, total_bytes: int) -> tuple[str, float] | None:
    """Find the columns on which queries read the most, and the share; None if all queries filter by the same."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for query in queries.entries:
        sums = groups.setdefault(query.columns, [0.0, 0.0])
        sums[0] += query.weight * query.bytes
        sums[1] += query.weight
    groups.pop((), None)  # Conditions that zskip does not understand have no columns.
    if len(groups) < 2:
        return None
    columns, (read, weight) = max(groups.items(), key=lambda item: item[1][0] / item[1][1])
    return ", ".join(columns), read / (weight * max(total_bytes, 1))


def _advice(facts: Facts) -> str:
    if facts.advice is not None and facts.advice.best is not None:
        best = facts.advice.best
        return (
            f"Clustering by {clean(', '.join(best.by))} ({best.curve}) would make that about {percent(best.kept)}: "
            f"it writes {show_size(best.bytes_to_write)}."
        )
    layout = facts.info.layout
    if layout is None:
        names = [repr(clean(spread.name)) for spread in facts.spreads[:2]]
        by = f"by=[{', '.join(names)}]" if len(names) > 1 else f'by={"".join(names)}, curve="linear"'
        call = f"table.optimize({by})" if names else "table.optimize"
        return f"It was never clustered; {call} would bring rows that are close into the same file."
    by = clean(", ".join(layout.by)) + (f" ({clean(str(layout.tree), 200)})" if layout.tree else "")
    if facts.upkeep is not None and facts.upkeep.batches:
        return _upkeep(facts, facts.upkeep)
    if facts.upkeep is not None:
        return f"It is clustered by {by}, and nothing is left that would be worth a rewrite."
    return f"It is clustered by {by}."


def _upkeep(facts: Facts, upkeep: Maintenance) -> str:
    layout, total = facts.info.layout, max(facts.info.bytes, 1)
    new = layout.bytes_since / total if layout is not None and layout.bytes_since else 0.0
    what = f"Clustering the {percent(new)} that came since {moment_of(facts)}" if new else "Rewriting its widest files"
    if upkeep.kept_after < _BETTER * upkeep.kept_before:
        effect = f"would make the predicted {percent(upkeep.kept_before)} of its rows {percent(upkeep.kept_after)}"
    else:
        effect = f"would merge {upkeep.files_removed:,} files into {upkeep.files_added:,}"
    return f"{what} {effect}: table.maintain() writes {show_size(upkeep.bytes_written)}."


def moment_of(facts: Facts) -> str:
    """Return the day on which the table was last clustered."""
    return "it was clustered" if facts.clustered is None else moment(facts.clustered.time_ms)[:10]


def depth_of(spread: Spread) -> str:
    """Explain the depth of a column."""
    clustering = spread.clustering
    if not clustering.files:
        return f"No file has bounds in {clean(spread.name)}, so that a condition on it skips nothing."
    unknown = f" {spread.unknown:,} files without bounds are read by every query." * bool(spread.unknown)
    if clustering.average_depth <= 2:
        return f"Hardly any files overlap in {clean(spread.name)}: a query for one value reads very few.{unknown}"
    part = clustering.average_depth / clustering.files
    if part > 0.5:
        return (
            f"Most files overlap in {clean(spread.name)}: where a file's range is deepest, "
            f"{clustering.average_depth:,.0f} of {clustering.files:,} files share a value, on average. A condition "
            f"on it skips little until the table is clustered by it.{unknown}"
        )
    return (
        f"Where a file's range is deepest, {clustering.average_depth:,.1f} of {clustering.files:,} files share a value "
        f"of {clean(spread.name)}, on average: fewer is better, and 1 is the best possible.{unknown}"
    )


def sizes_of(facts: Facts) -> str:
    """Explain the sizes of the files."""
    info, sizes = facts.info, facts.snapshot.sizes
    mean = info.bytes / max(info.files, 1)
    small = int((sizes < 16_000_000).sum())
    summary = (
        f"A file has {show_size(mean)} on average, from {show_size(int(sizes.min()))} to {show_size(int(sizes.max()))}."
    )
    if info.files > 1 and small > info.files / 2 and info.bytes > 64_000_000:
        return f"{summary} {small:,} are smaller than 16 MB, and each costs time to open: table.compact() merges them."
    if mean > 1_000_000_000:
        return (
            f"{summary} Files this large leave little to skip: table.optimize(target_file_size=...) makes smaller ones."
        )
    return summary
