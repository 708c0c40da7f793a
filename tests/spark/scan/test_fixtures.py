"""Filters on every type and on older files, from tests/fixtures/scans.txt: plain Spark's rows, of fewer files."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyspark
from both_ways import Checked, write_sql
from pyspark.sql import SparkSession
from session_settings import settings

PATH = Path(__file__).parents[2] / "fixtures" / "scans.txt"


@dataclass
class Section:
    """One table and its filters."""

    title: str
    settings: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    filters: dict[str, int] = field(default_factory=dict)
    """Condition to the fewest files that it skips."""
    oldest_spark: int = 3


def sections() -> list[Section]:
    """As the comment at the top of the file says."""
    found: list[Section] = []
    for line in PATH.read_text(encoding="utf-8").splitlines():
        word, _, rest = line.partition(" ")
        if line.startswith("["):
            found.append(Section(line.strip("[]")))
        elif word == "set":
            name, _, value = rest.partition(" ")
            found[-1].settings[name.removeprefix("spark.sql.").replace(".", "__")] = value
        elif word == "spark":
            found[-1].oldest_spark = int(rest)
        elif word == "file":
            found[-1].files.append(rest)
        elif word == "files":
            ends, _, select = rest.partition(" SELECT ")
            for low, high in pairwise(ends.split()):
                found[-1].files.append(f"SELECT {select.replace('{low}', low).replace('{high}', high)}")
        elif word.endswith(":"):
            found[-1].filters[rest] = int(word[:-1])
    return found


def test_rows_are_those_of_plain_spark(spark: SparkSession, tmp_path: Path) -> None:
    version = int(pyspark.__version__.split(".")[0])
    for number, section in enumerate(sections()):
        if section.oldest_spark <= version:
            with settings(spark, **section.settings):
                Checked(spark, write_sql(spark, tmp_path / str(number), section.files)).all(section.filters)
