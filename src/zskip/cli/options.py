"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

TablePath = Annotated[str, typer.Argument(metavar="PATH", help="The table: a directory of Parquet files.")]
IndexPath = Annotated[
    str | None, typer.Option(metavar="DIR", help="Where the index of a table lies that may not be written to.")
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="The table's format: parquet, delta, iceberg or hudi; detected by default."
    ),
]
WorkloadFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="Queries to fit to, one a line or as JSON; else those recorded.")
]
Unseen = Annotated[
    float, typer.Option(metavar="SHARE", help="Share of tomorrow's queries that the workload does not tell: 0-1.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


class Curve(str, Enum):
    """How rows are ordered."""

    zorder = "zorder"
    hilbert = "hilbert"
    linear = "linear"
    fitted = "fitted"
    auto = "auto"


class Build(str, Enum):
    """What values are ranked by."""

    sample = "sample"
    direct = "direct"


class Writer(str, Enum):
    """What writes the new files."""

    auto = "auto"
    arrow = "arrow"
    spark = "spark"


class Sampling(str, Enum):
    """How the sample is drawn."""

    bernoulli = "bernoulli"
    reservoir = "reservoir"


class Collect(str, Enum):
    """Where statistics come from."""

    footers = "footers"
    auto = "auto"
    scan = "scan"


class Granularity(str, Enum):
    """What the index has entries for."""

    file = "file"
    row_group = "row_group"


Exclusive = Annotated[
    bool, typer.Option("--exclusive", help="Nobody else rewrites it; for stores that cannot tell who was first.")
]
CurveName = Annotated[Curve, typer.Option(help="The order of the rows.")]
Files = Annotated[int | None, typer.Option(metavar="N", help="How many files there should be.")]
TargetFileSize = Annotated[
    str | None, typer.Option(metavar="SIZE", help="How large files should be; 128MB by default.")
]
SortWithinFiles = Annotated[
    bool, typer.Option("--sort/--no-sort", help="Sort rows inside files, so that pages are skipped as well.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed gives the same files.")]
