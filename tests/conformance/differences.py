"""Where zskip skips less than the peer, by name, and why; a case that no longer differs must be taken off the list."""

from __future__ import annotations

SCHEMALESS = "arrays, maps, variants and structs as a whole are never pruned on, nulls included"
NOT_MONOTONE = (
    "the function is not monotone: a range says nothing of it, and what the peer does may lose rows elsewhere"
)
DATE_FORMAT = (
    "`date_format` with the month first is not monotone; Hudi takes it to be and loses rows at a new year (adv-06)"
)

DIFFERENCES: dict[str, tuple[str, ...]] = {
    SCHEMALESS: (
        "skip-067: NOT (arr_col IS NOT NULL)",
        "skip-067: NOT (map_col IS NOT NULL)",
        "skip-067: arr_col IS NULL",
        "skip-067: map_col IS NULL",
        "skip-068: arr_col IS NOT NULL",
        "skip-068: map_col IS NOT NULL",
        "skip-075: v IS NULL",
        "skip-075: v_struct.v IS NULL",
        "skip-075: null_v IS NOT NULL",
        "skip-075: null_v_struct.v IS NOT NULL",
        "ice-150: required_address IS NULL",
    ),
    NOT_MONOTONE: (
        "gen-07 SubstringPartitionExpr(substr, 2, 3): value = 'foo'",
        "adv-08: lower(B) = 'c'",
    ),
    DATE_FORMAT: (
        "hudi-37: date_format(C, 'MM/dd/yyyy') = '03/07/2022'",
        "hudi-38: '03/07/2022' = date_format(C, 'MM/dd/yyyy')",
        "hudi-39: '03/07/2022' != date_format(C, 'MM/dd/yyyy')",
        "hudi-41: date_format(C, 'MM/dd/yyyy') < '03/08/2022'",
        "hudi-42: '03/08/2022' > date_format(C, 'MM/dd/yyyy')",
        "hudi-43: '03/08/2022' < date_format(C, 'MM/dd/yyyy')",
        "hudi-44: date_format(C, 'MM/dd/yyyy') > '03/08/2022'",
        "hudi-45: date_format(C, 'MM/dd/yyyy') <= '03/07/2022'",
        "hudi-47: '03/09/2022' <= date_format(C, 'MM/dd/yyyy')",
        "hudi-49: date_format(C, 'MM/dd/yyyy') IN ('03/09/2022')",
        "hudi-50: date_format(C, 'MM/dd/yyyy') NOT IN ('03/07/2022')",
        "hudi-51: date_format(to_timestamp(B, 'yyyy-MM-dd'), 'MM/dd/yyyy') NOT IN ('03/06/2022')",
    ),
}
"""Reason to names of questions."""
