"""The command that makes a clustered table of files."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

import zskip
from zskip.cli.app import app
from zskip.cli.options import AsJson, takes_options_of
from zskip.cli.tables import explain_spark_errors, show, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Source(str, Enum):
    """Formats of the source."""

    parquet = "parquet"
    csv = "csv"
    json = "json"


_ENDINGS = {"csv": Source.csv, "tsv": Source.csv, "json": Source.json, "jsonl": Source.json, "ndjson": Source.json}


@app.command()
@takes_options_of(zskip.write, without=("df", "target"))
def write(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Files to read: a file, a directory, or a pattern.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The table to write: a path, or a name in a catalog.")
    ],
    *,
    source_format: Annotated[
        Source | None,
        typer.Option(
            "--from", metavar="parquet|csv|json", help="Format of the source; by default that of its file names."
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="DDL",
            help='Columns of CSV or JSON, such as "id BIGINT, day DATE"; inferred in an extra pass by default.',
        ),
    ] = None,
    header: Annotated[bool, typer.Option("--header/--no-header", help="CSV files begin with column names.")] = True,
    delimiter: Annotated[str, typer.Option(metavar="TEXT", help="Separator of the values in CSV files.")] = ",",
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Write Parquet, CSV or JSON lines as a clustered and indexed table, in one pass.

    Example: zskip write raw/*.csv events --by user_id,day --mode append
    """
    spark = start_session()
    with explain_spark_errors():
        df = _read(spark, source, source_format or _guess_format(source), schema, header, delimiter)
    show(zskip.write(df, target, **options), as_json)


def _guess_format(source: str) -> Source:
    """The format by the ending of a path, or of the files in a directory; Parquet where they tell nothing."""
    from pathlib import Path

    path = Path(source)
    files = [file.relative_to(path) for file in path.rglob("*")] if path.is_dir() else []
    visible = sorted(file.name for file in files if all(part[0] not in "._" for part in file.parts))
    for name in visible if path.is_dir() else [source]:
        for ending in reversed(name.lower().rpartition("/")[2].split(".")[1:]):
            if ending in _ENDINGS:
                return _ENDINGS[ending]
    return Source.parquet


def _read(
    spark: SparkSession, source: str, source_format: Source, schema: str | None, header: bool, delimiter: str
) -> DataFrame:
    reader = spark.read
    if schema is not None:
        reader = reader.schema(schema)
    if source_format is Source.csv:
        return reader.csv(source, header=header, sep=delimiter, inferSchema=schema is None)
    return reader.json(source) if source_format is Source.json else reader.parquet(source)
