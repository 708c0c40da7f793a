"""Encrypted columns and footers: no statistics of what is encrypted, and nothing of it written in the clear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import encrypted
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import zskip
from zskip.errors import UnsupportedError, ZskipWarning
from zskip.table.table import Table


def make_table(path: Path, *, plaintext_footer: bool = True) -> str:
    """Three files of a plain table, the second of which has encrypted columns."""
    path.mkdir()
    for i in range(3):
        rows = {
            "a": [i * 10, i * 10 + 1, i * 10 + 2],
            "secret": ["x", "y", "z"],
            "s": [{"open": i, "closed": 7}] * 3,
            "tags": [["t"]] * 3,
        }
        columns = ["secret", "s.closed", "tags.list.element"] if i == 1 else []
        if columns or not plaintext_footer:
            columns = columns or ["secret"]
            encrypted.write_encrypted(path / f"{i}.parquet", pa.table(rows), columns, plaintext_footer=plaintext_footer)
        else:
            pa.parquet.write_table(pa.table(rows), path / f"{i}.parquet")
    return str(path)


def test_columns_beside_encrypted_ones_skip_files(tmp_path: Path) -> None:
    table = zskip.open(make_table(tmp_path / "t"))
    table.index(granularity="row_group")
    assert [Path(f).name for f in table.files("a = 12")] == ["1.parquet"]
    assert [Path(f).name for f in table.files("s.open = 0")] == ["0.parquet"]
    for where in ("secret = 'nobody'", "s.closed = 8", "secret IS NULL"):
        assert [Path(f).name for f in table.files(where)] == ["1.parquet"]


def test_files_with_an_encrypted_footer_are_always_read(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t")
    encrypted.write_encrypted(
        Path(path) / "3.parquet", pa.table({"a": [1], "secret": ["x"]}), ["secret"], plaintext_footer=False
    )
    table = zskip.open(path)
    with pytest.warns(ZskipWarning, match=r"3\.parquet \(its footer is encrypted\)"):
        table.index()
    assert [Path(f).name for f in table.files("a = -1")] == ["3.parquet"]


ROW = "SELECT 5L a, 'x' secret, named_struct('open', 1L, 'closed', 7L) s, array('t') tags"
VERBS: dict[str, Callable[[Table, SparkSession], object]] = {
    "optimize": lambda table, _: table.optimize(by=["a", "s.open"]),
    "compact": lambda table, _: table.compact(target_file_size="1MB"),
    "append": lambda table, spark: table.append(spark.sql(ROW)),
    "sketch": lambda table, _: table.index(sketches=["bloom(0.01):secret"]),
    "write": lambda table, spark: zskip.write(
        spark.range(3).selectExpr("id a", "'x' secret"), table.path, by=["a", "secret"], mode="overwrite"
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("plaintext_footer", "says"),
    [(True, 'column "s(ecret)?" is encrypted in .*1.parquet'), (False, "footer of .* is encrypted")],
)
def test_nothing_is_written_in_the_clear(
    spark: SparkSession, tmp_path: Path, verb: str, plaintext_footer: bool, says: str
) -> None:
    path = make_table(tmp_path / "t", plaintext_footer=plaintext_footer)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedError, match=says):
        VERBS[verb](zskip.table(spark, path), spark)
    assert sorted(tmp_path.rglob("*")) == before
