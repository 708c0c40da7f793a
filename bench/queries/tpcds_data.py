"""TPC-DS: its tables, clustered in one of several ways, and its 99 queries in Spark's SQL.

Data and queries come from DuckDB's extension, which PyPI has as `duckdb-extension-tpcds`; it is asked once for each
scale factor, so that later runs do without it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import data, measure, session

ROWS_PER_FILE = 100_000
MOST_FILES = 16
FACTS = {
    "store_sales": (["ss_sold_date_sk", "ss_item_sk", "ss_customer_sk"], 64, 32),
    "catalog_sales": (["cs_sold_date_sk", "cs_item_sk", "cs_bill_customer_sk"], 56, 28),
    "web_sales": (["ws_sold_date_sk", "ws_item_sk", "ws_bill_customer_sk"], 28, 14),
    "store_returns": (["sr_returned_date_sk", "sr_item_sk", "sr_customer_sk"], 8, 4),
    "catalog_returns": (["cr_returned_date_sk", "cr_item_sk", "cr_returning_customer_sk"], 4, 4),
    "web_returns": (["wr_returned_date_sk", "wr_item_sk", "wr_returning_customer_sk"], 4, 4),
    "inventory": (["inv_date_sk", "inv_item_sk", "inv_warehouse_sk"], 64, 32),
}
"""Fact table to its columns, the number of files by date, and by three columns."""
LAYOUTS = ("date", "three", "raw")
STARS = (3, 6, 7, 8, 12, 13, 15, 18, 19, 20, 21, 22, 26, 34, 42, 43, 45, 46, 48, 52)
"""The first 20 queries that join one fact table, read once, with some days of `date_dim`, and name no subquery."""


def home(scale: float) -> Path:
    """Where the tables of a scale factor are kept."""
    return data.HOME / f"tpcds-sf{scale:g}"


def generated(scale: float) -> Path:
    """All tables of a scale factor as directories of Parquet files, made once."""

    def make(directory: Path) -> None:
        database = directory.with_name("tables.duckdb")
        database.unlink(missing_ok=True)
        connection = connect(database)
        connection.execute(f"CALL dsdgen(sf={scale})")
        for (name,) in connection.execute("SHOW TABLES").fetchall():
            export(connection, name, directory / name)
        connection.close()
        database.unlink()

    return data.once(home(scale) / "raw", make)


def connect(database: Path | str) -> Any:
    """A connection of DuckDB with the extension, which takes no more memory than a Spark session leaves."""
    import duckdb

    try:
        import duckdb_extension_tpcds
    except ImportError:
        raise SystemExit("TPC-DS is made with duckdb-extension-tpcds: pip install it") from None
    (extension,) = Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension")
    connection = duckdb.connect(str(database))
    connection.execute("SET memory_limit = '6GB'")
    connection.execute(f"LOAD '{extension}'")
    return connection


def export(connection: Any, name: str, directory: Path) -> None:
    """Write one table in the order of its rows."""
    directory.mkdir(parents=True)
    (rows,) = connection.execute(f"SELECT count(*) FROM {name}").fetchone()
    files = max(1, min(MOST_FILES, rows // ROWS_PER_FILE))
    for i in range(files):
        first, end = rows * i // files, rows * (i + 1) // files
        some = f"SELECT * FROM {name} WHERE rowid >= {first} AND rowid < {end}"
        place = directory / f"part-{i:02d}.parquet"
        connection.execute(f"COPY ({some}) TO '{place}' (FORMAT parquet, COMPRESSION zstd)")


def laid_out(spark: Any, scale: float, layout: str, facts: Iterable[str]) -> dict[str, Path]:
    """The directory of each table; those of the facts are clustered (once) and indexed."""
    raw = generated(scale)
    tables = {path.name: path for path in raw.iterdir()}
    for name in facts:
        if layout == "raw":
            zskip.table(spark, str(raw / name)).index()
        else:
            tables[name] = cluster(spark, raw / name, raw.parent / layout / name, layout)
    return tables


def with_names(spark: Any, scale: float, layout: str, facts: Iterable[str], format_name: str) -> None:
    """Make the tables known by their names, read by the reader of a format; the facts are indexed."""
    for name, path in laid_out(spark, scale, layout, facts).items():
        address = session.as_table(spark, format_name, path, home(scale) / format_name / layout, name)
        if name in facts and format_name != "parquet":
            zskip.table(spark, address).index()


def cluster(spark: Any, source: Path, target: Path, layout: str) -> Path:
    """Cluster a fact table into a new one, unless that is there."""
    if target.exists():
        return target
    measure.log(f"clustering {source.name} by {layout}")
    columns, by_date, by_three = FACTS[source.name]
    how: dict[str, Any] = {"by": columns[:1], "curve": "linear", "files": by_date}
    if layout == "three":
        how = {"by": columns, "curve": "zorder", "files": by_three}
    zskip.table(spark, str(source)).optimize(into=str(target), **how)
    return target


def queries() -> dict[int, str]:
    """The 99 queries by number, in Spark's SQL."""
    kept = data.HOME / "tpcds-queries.json"
    if not kept.exists():
        rows = connect(":memory:").execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
        found = {nr: sqlglot.transpile(query, read="duckdb", write="spark")[0] for nr, query in rows}
        data.HOME.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found))
    return {int(nr): sql for nr, sql in json.loads(kept.read_text()).items()}


def tables_of(sql: str) -> set[str]:
    """The tables that a query reads."""
    tree = sqlglot.parse_one(sql, read="spark")
    return {table.name for table in tree.find_all(exp.Table)} - {cte.alias for cte in tree.find_all(exp.CTE)}
