"""TPC-DS: its tables, clustered in one of several ways, and its 99 queries in Spark's SQL.

Data and queries come from DuckDB's extension, which PyPI has as `duckdb-extension-tpcds`; it is asked once for each
scale factor, so that later runs do without it.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import zskip
from shared import common

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
DATES = "date_dim"


def home(scale: float) -> Path:
    """Where the tables of a scale factor are kept."""
    return common.HOME / f"tpcds-sf{scale:g}"


def generated(scale: float) -> Path:
    """All tables of a scale factor as directories of Parquet files, made once."""
    target = home(scale) / "raw"
    if target.exists():
        return target
    common.log(f"generating TPC-DS, scale factor {scale:g}")
    staging = home(scale) / "staging"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    connection = connect(staging / "tables.duckdb")
    connection.execute(f"CALL dsdgen(sf={scale})")
    for (name,) in connection.execute("SHOW TABLES").fetchall():
        export(connection, name, staging / "tables" / name)
    connection.close()
    (staging / "tables").rename(target)
    shutil.rmtree(staging)
    return target


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
        address = common.as_table(spark, format_name, path, home(scale) / format_name / layout, name)
        if name in facts and format_name != "parquet":
            zskip.table(spark, address).index()


def cluster(spark: Any, source: Path, target: Path, layout: str) -> Path:
    """Cluster a fact table into a new one, unless that is there."""
    if target.exists():
        return target
    common.log(f"clustering {source.name} by {layout}")
    columns, by_date, by_three = FACTS[source.name]
    how: dict[str, Any] = {"by": columns[:1], "curve": "linear", "files": by_date}
    if layout == "three":
        how = {"by": columns, "curve": "zorder", "files": by_three}
    zskip.table(spark, str(source)).optimize(into=str(target), **how)
    return target


def queries() -> dict[int, str]:
    """The 99 queries by number, in Spark's SQL."""
    kept = common.HOME / "tpcds-queries.json"
    if not kept.exists():
        rows = connect(":memory:").execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
        found = {nr: sqlglot.transpile(query, read="duckdb", write="spark")[0] for nr, query in rows}
        common.HOME.mkdir(exist_ok=True)
        kept.write_text(json.dumps(found))
    return {int(nr): sql for nr, sql in json.loads(kept.read_text()).items()}


def tables_of(sql: str) -> set[str]:
    """The tables that a query reads."""
    tree = sqlglot.parse_one(sql, read="spark")
    return {table.name for table in tree.find_all(exp.Table)} - {cte.alias for cte in tree.find_all(exp.CTE)}


def stars() -> list[int]:
    """The first 20 queries that join one fact table, read once, with some days of `date_dim`, and name no subquery."""
    return [nr for nr, sql in sorted(queries().items()) if is_star(sql)][:20]


def is_star(sql: str) -> bool:
    """Whether one of the fact tables is read, once, in a SELECT that takes some days of `date_dim`."""
    tree = sqlglot.parse_one(sql, read="spark")
    facts = [table for table in tree.find_all(exp.Table) if table.name in FACTS]
    if len(facts) != 1 or tree.find(exp.CTE):
        return False
    select = facts[0].find_ancestor(exp.Select)
    return select is not None and DATES in joined(select) and filters_dates(select)


def joined(select: exp.Select) -> set[str]:
    """The tables of a SELECT's own FROM."""
    return {table.name for table in select.find_all(exp.Table) if table.find_ancestor(exp.Select) is select}


def filters_dates(select: exp.Select) -> bool:
    """Whether a SELECT compares a column of `date_dim` with something that is not a column."""
    where = select.args.get("where")
    tests = where.find_all(exp.EQ, exp.In, exp.Between, exp.GT, exp.GTE, exp.LT, exp.LTE) if where else ()
    return any(is_of_dates(test.this) and not isinstance(test.args.get("expression"), exp.Column) for test in tests)


def is_of_dates(operand: exp.Expression) -> bool:
    """Whether this is a column of `date_dim`, all of which are called d_..., but for its key."""
    column = operand.find(exp.Column)
    return column is not None and column.name.startswith("d_") and column.name != "d_date_sk"
