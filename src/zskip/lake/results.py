"""What the verbs of a lake return: one line for each table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from zskip.rows import Block, Grid, Pairs, number, shows, to_text
from zskip.units import show_size

OPEN_COST = 4 << 20
"""Opening a file costs as much as reading so many bytes: Spark's `spark.sql.files.openCostInBytes`."""
INDEX = "index"
"""The action of a table of which an index would know more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableHealth:
    """A table of a lake: its state, what queries read of it, and what would be best for it.

    Bytes saved count `OPEN_COST` for each file that a query no longer opens.
    """

    table: str
    """Its path, or its name in a catalog."""
    format: str = ""
    files: int = 0
    bytes: int = 0
    rows: int | None = None
    """None where neither an index nor the format's log knows; so is `deleted_rows`."""
    small_files: int = 0
    """Files of less than half of the size that new files would have."""
    deleted_rows: int | None = 0
    indexed: float = 0.0
    """Share (0 to 1) of the files with known rows and bounds."""
    clustered_by: tuple[str, ...] = ()
    overlap: float | None = None
    """Mean share (0 to 1) of the files that hold a value of the first column in `clustered_by`; None if unknown."""
    queries_a_day: float = 0.0
    """As recorded, recent days counting more; one a day is assumed where nothing is recorded."""
    is_recorded: bool = False
    bytes_read_a_day: float = 0.0
    files_read_a_day: float = 0.0
    bytes_read_a_day_after: float = 0.0
    """After the action, predicted."""
    files_read_a_day_after: float = 0.0
    action: str = "leave"
    """`optimize by a, b`, `maintain`, `compact`, `index` or `leave`."""
    by: tuple[str, ...] = ()
    """The columns of `optimize by`."""
    reason: str = ""
    bytes_to_rewrite: int = 0
    saved_bytes_a_day: float = 0.0
    days_to_pay: float | None = None
    """Days until queries have been spared as many bytes as the action writes; None where it writes nothing."""
    error: str = ""
    """Why it cannot be read; empty where it can."""

    @property
    def gain(self) -> float:
        """Bytes saved a day for each byte rewritten."""
        return self.saved_bytes_a_day / max(self.bytes_to_rewrite, 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The tables of a lake, the one first that saves most for each byte written, those with errors last."""

    tables: tuple[TableHealth, ...]
    seconds: float

    @property
    def summary(self) -> str:
        """The lake in one sentence."""
        errors = sum(bool(table.error) for table in self.tables)
        unreadable = f"; {errors:,} of them cannot be read" if errors else ""
        size, read, saved = (
            sum(getattr(table, name) for table in self.tables)
            for name in ("bytes", "bytes_read_a_day", "saved_bytes_a_day")
        )
        rewritten = sum(table.bytes_to_rewrite for table in self.tables)
        return (
            f"{len(self.tables):,} tables, {show_size(size)}{unreadable}. Queries read {show_size(read)} a day; "
            f"rewriting {show_size(rewritten)} would save {show_size(saved)} a day, {show_size(OPEN_COST)} counted "
            "for each file not opened"
        )

    def __str__(self) -> str:
        return to_text(_survey_blocks(self))


@dataclass(frozen=True, kw_only=True, slots=True)
class TableUpkeep:
    """What a call did to one table, or would do."""

    table: str
    batches: int = 0
    """Commits."""
    bytes_written: int = 0
    files_removed: int = 0
    files_added: int = 0
    saved_bytes_a_day: float = 0.0
    """Predicted."""
    decisions: tuple[str, ...] = ()
    """One sentence for the index, and one for each batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeMaintenance:
    """What a maintain of a lake did, or would do."""

    tables: tuple[TableUpkeep, ...]
    """Those with batches or a new index."""
    batches: int
    bytes_written: int
    failed: Mapping[str, str]
    """Errors by table; what was committed before stays."""
    seconds: float
    stopped: str
    """Why it stopped: `budget`, `seconds`, or nothing left that is worth its bytes."""
    dry_run: bool

    def __str__(self) -> str:
        return to_text(_maintenance_blocks(self))


@shows(Survey)
def _survey_blocks(survey: Survey) -> list[Block]:
    return [survey.summary, Grid(COLUMNS, tuple(map(survey_row, survey.tables)))]


COLUMNS = (
    *("table", "format", "files", "size", "small", "deleted", "indexed", "clustered by", "overlap"),
    *("queries a day", "read a day", "after", "action", "rewrites", "pays after", "why"),
)
"""The names of what `survey_row` gives."""


def survey_row(table: TableHealth) -> tuple[object, ...]:
    """A table's line, as people read it."""
    if table.error:
        return (table.table, table.format or None, *[None] * 10, "leave", None, None, f"error: {table.error}")
    return (
        table.table,
        table.format,
        table.files,
        show_size(table.bytes),
        table.small_files,
        table.deleted_rows,
        f"{100 * table.indexed:.0f} %",
        ", ".join(table.clustered_by) or None,
        None if table.overlap is None else f"{100 * table.overlap:.1f} %",
        number(table.queries_a_day) if table.is_recorded else "not recorded",
        show_size(table.bytes_read_a_day),
        show_size(table.bytes_read_a_day_after),
        table.action,
        show_size(table.bytes_to_rewrite) if table.bytes_to_rewrite else None,
        show_days(table.days_to_pay),
        table.reason,
    )


def show_days(days: float | None) -> str | None:
    """Days in words.

    >>> show_days(0.31), show_days(12.0), show_days(math.inf), show_days(None)
    ('0.3 days', '12 days', 'never', None)
    """
    if days is None:
        return None
    return "never" if math.isinf(days) else f"{days:.1f} days" if days < 10 else f"{days:,.0f} days"


@shows(LakeMaintenance)
def _maintenance_blocks(done: LakeMaintenance) -> list[Block]:
    pairs: Pairs = [
        ("tables", f"{len(done.tables):,}{' (not done: a dry run)' * done.dry_run}"),
        ("batches", f"{done.batches:,}"),
        ("bytes written", show_size(done.bytes_written)),
        ("stopped", done.stopped),
        ("seconds", f"{done.seconds:.1f}"),
    ]
    parts: list[Block] = [pairs]
    if done.tables:
        rows = tuple(
            (
                one.table,
                one.batches,
                f"{one.files_removed:,} -> {one.files_added:,}",
                show_size(one.bytes_written),
                show_size(one.saved_bytes_a_day),
            )
            for one in done.tables
        )
        parts.append(Grid(("table", "batches", "files", "bytes written", "saves a day"), rows))
    if done.failed:
        parts.append(Grid(("failed", "error"), tuple(done.failed.items())))
    return parts
