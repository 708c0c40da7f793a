"""The tables of docs/benchmarks.md, and what each cell is: a figure of a run, or text where no run is named."""

from __future__ import annotations

from dataclasses import dataclass

Row = tuple[str, str, tuple[str, ...]]
"""A label, the name of a run, and the figures of the other columns."""


@dataclass(frozen=True)
class Table:
    """A table with its title and text; its runs are listed below it."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def each(run: str, figures: tuple[str, ...], names: dict[str, str]) -> tuple[Row, ...]:
    """A row for each label: names of figures that begin alike."""
    return tuple((label, run, tuple(figure.format(name) for figure in figures)) for label, name in names.items())


REWRITTEN = (
    "time_over_engine", "time_over_copy", "engine_rows_decoded_pct", "zskip_rows_decoded_pct", "decoded_over_engine",
)  # fmt: skip
ENGINES = Table(
    "Beside the formats' own Z-order",
    "zskip's whole optimize and the format's own Z-order take turns on fresh tables: `OPTIMIZE ... ZORDER BY` of "
    "Delta Lake 4.4.0, `rewrite_data_files` with `zorder` of Iceberg 1.11.0, clustering with `z-order` of Hudi 1.2.0. "
    "Time over theirs, time over a copy by the format's own reader and writer, and the mean share of rows, in %, that "
    "the format's own reader then decodes for 40 random queries.",
    ("table", "time over theirs", "time over a copy", "% decoded of theirs", "% decoded of zskip's", "ratio"),
    (
        ("Delta, TPC-H lineitem, 12 million rows", "engines-delta", REWRITTEN),
        ("Iceberg, the same", "engines-iceberg", REWRITTEN),
        ("Hudi on Spark 3.5, the same", "engines-hudi", REWRITTEN),
        ("Delta, connections of a network, 8 million rows", "engines-delta-connections", REWRITTEN),
        ("Delta, lineitem, 6 million rows, deletion vectors", "engines-delta-deletion-vectors", REWRITTEN),
        ("Delta, the same with mapped columns", "engines-delta-mapped-columns", REWRITTEN),
        ("Iceberg, 6 million rows, position deletes", "engines-iceberg-position-deletes", REWRITTEN),
        ("Iceberg, equality deletes", "engines-iceberg-equality-deletes", REWRITTEN),
        ("Iceberg version 3, row ids and deletion vectors", "engines-iceberg-v3", REWRITTEN),
    ),
)
COPIED = ("sorted_over_copy", "zorder_rows_in_kept_files_pct", "zorder_rows_decoded_pct")
COPIES = Table(
    "Beside a plain copy",
    "A whole optimize by three columns over a read and write of the same Parquet files by Spark with the same "
    "codec. Then the mean share of rows, in %, in the files that 100 random queries keep, and that Spark's scan "
    "decodes for 40 of them. Delta's Z-order, measured once on the same kind of machine, took 3.5 times as long "
    "as a copy; 31.6 % were kept, 32.6 % decoded. After its Hilbert clustering 24.5 % and 23.8 %.",
    ("table", "time over a copy", "% in kept files", "% decoded"),
    (
        ("TPC-H lineitem, 12 million rows", "clustering-lineitem", COPIED),
        ("connections of a network, 8 million rows", "clustering-connections", COPIED),
        ("lineitem, 60 million rows, driver of 2 GB", "clustering-60m-rows", COPIED),
        ("lineitem, 450 million rows, driver of 2 GB", "growth-rows", ("optimize_over_copy", "kept_pct", "")),
    ),
)
ANSWERED = ("identical", "fact_bytes_over_plain", "time_over_plain")
QUERIES = Table(
    "TPC-H and TPC-DS",
    "Queries with the same answers, bytes of the files that scans read, and seconds, over those of plain Spark: TPC-H "
    "on tables as the generator wrote them, TPC-DS on the same files (of fact tables).",
    ("queries", "identical", "bytes over plain", "time over plain"),
    (
        ("TPC-H, scale factor 1", "tpch", ("identical", "bytes_after_over_before", "")),
        ("TPC-DS by date", "tpcds-date", ANSWERED),
        ("TPC-DS by date, item and customer", "tpcds-three-columns", ANSWERED),
        ("TPC-DS not clustered", "tpcds-not-clustered", ANSWERED),
        ("TPC-DS by date, Delta's reader", "tpcds-delta", ANSWERED),
        ("TPC-DS by date, Iceberg's reader", "tpcds-iceberg", ANSWERED),
        ("TPC-DS by date, scale factor 10, 20 queries", "tpcds-scale-10", ANSWERED),
    ),
)
LATENCY = Table(
    "What a short query waits for",
    "Median milliseconds of 60 queries that read little of TPC-H lineitem, 12 million rows in 64 files: clustered by "
    "the format's own Z-order and read by its reader; clustered by zskip and read by the format's reader, by it under "
    "`zskip.enable`, and by `Table.df()`.",
    ("format", "own Z-order", "zskip's files", "with `enable`", "`df()`", "p99 with `enable`", "`enable` over `df()`"),
    (
        ("Parquet, not clustered", "latency", ("parquet_unclustered_ms", "", "", "", "", "")),
        ("Parquet", "latency", ("", "", "parquet_enabled_ms", "parquet_df_ms", "parquet_enabled_p99_ms",
                                "parquet_enabled_of_df")),
        *each("latency", ("{}_zorder_ms", "{}_alone_ms", "{}_enabled_ms", "{}_df_ms", "{}_enabled_p99_ms",
                          "{}_enabled_of_df"), {"Delta": "delta", "Iceberg": "iceberg"}),
    ),
)  # fmt: skip
WRITES = Table(
    "Writing a clustered table in one pass",
    "`zskip.write` over a plain write by Spark followed by an optimize, and over the write alone; and the rows in "
    "files that queries keep, over those of two passes. Then `append` over an append by the format's own writer.",
    ("DataFrame", "over write and optimize", "over a plain write", "kept over two passes", "`append` over plain"),
    each(
        "one-pass",
        ("{}_one_over_two_s", "{}_one_over_write_s", "{}_kept_over", "{}_append_over_plain_s"),
        {
            "Parquet files as they are": "parquet_scan",
            "through a filter": "parquet_filter",
            "joined with a small table": "parquet_join",
            "grouped": "parquet_aggregate",
            "filter, written as Delta": "delta_filter",
            "filter, written as Iceberg": "iceberg_filter",
        },
    ),
)
GROWN = {
    ": `maintain` after each append of another writer": "zskip",
    ": `maintain` after each `Table.append`": "appends_and_maintain",
    ": `Table.append` alone": "appends_alone",
}
GROWING = Table(
    "A table that grows by tenths",
    "TPC-H lineitem, 6 million rows: bytes of all files that maintenance wrote, over those of the table at the end, "
    "and rows in the files that 100 queries keep, over those after one full optimize.",
    ("way", "written", "rows in kept files", "files"),
    tuple(
        (f"{order}{label}", run, tuple(f"{prefix}_{name}_{part}" for part in ("written", "kept_over_full", "files")))
        for order, prefix, run, ways in (
            ("random order", "random", "growing-random", {**GROWN, ": Delta's CLUSTER BY": "delta"}),
            ("by date", "shipdate", "growing-by-date", GROWN),
        )
        for label, name in ways.items()
    ),
)
WORKLOADS = Table(
    "Layouts fitted to a workload",
    "Rows, in %, in the files that 300 queries keep on tables of 1.5 million rows in 256 files: Delta's Z-order, "
    "zskip's default layout, the one that `curve=\"auto\"` chooses for 200 other queries of the same kind, and the "
    "worst of those chosen for another workload of the table.",
    ("workload", "Delta's Z-order", "default", "fitted", "predicted", "stale", "curve"),
    (
        *each(
            "workloads",
            ("{}_delta_pct", "{}_without_pct", "{}_with_pct", "{}_predicted_pct", "{}_stale_pct", "{}_curve"),
            {
                name: name.split()[0]
                for name in (
                    "U1 ranges on two columns", "U2 one hot column", "U3 mixed templates", "U4 points",
                    "S1 recent dashboards", "S2 look-ups", "S3 two columns", "S4 user and time",
                    "L1 the filters of TPC-H", "L2 mostly parts", "L3 two columns", "L4 date, mode and quantity",
                )
            },
        ),
        ("geometric mean", "workloads", ("delta_pct", "without_pct", "with_pct", "", "", "")),
    ),
)  # fmt: skip
SKETCHES = Table(
    "What sketches save",
    "Files that a query reads, in the mean, by the bounds of columns and with a sketch, and those that hold a match.",
    ("sketch", "files", "by bounds", "with the sketch", "hold a match", "MB saved a query", "KB of sketches"),
    each(
        "sketches",
        ("{}_files", "{}_files_read_by_bounds", "{}_files_read", "{}_files_with_a_match", "{}_mb_saved", "{}_kb"),
        {
            "`bloom(0.01)` of keys": "bloom",
            "`ngram(3)` of comments": "ngram",
            "`ranges(8)`, 5 outliers a file": "ranges_few",
            "`ranges(8)`, 23 outliers a file": "ranges_many",
            "`geo(64)` of places along roads": "geo",
        },
    ),
)
INDEX = Table(
    "The index beside RFC-27",
    "1,288 files of 2,078 columns, 2.7 million entries, read cold from disk. RFC-27's own figures were taken on "
    "another machine and of other values.",
    ("", "size, MB", "all entries, s", "10 entries, ms", "5,000 entries (here 5,152), ms"),
    (
        ("RFC-27: HFile", "", ("100", "15", "51", "17,000")),
        ("RFC-27: Parquet", "", ("43", "6.1", "1,900", "2,100")),
        ("RFC-27: Parquet by Spark SQL", "", ("43", "7", "440", "1,500")),
        ("zskip", "index", ("rfc27_mb", "rfc27_full_s", "rfc27_ten_ms", "rfc27_range_ms")),
        ("zskip, as a query does it", "index", ("", "", "rfc27_ten_by_a_query_ms", "rfc27_range_by_a_query_ms")),
        ("one row a file in Parquet, by pyarrow", "index",
         ("rfc27_wide_mb", "rfc27_wide_full_s", "rfc27_wide_ten_ms", "rfc27_wide_range_ms")),
        ("Spark SQL on one row a file", "index", ("", "", "rfc27_spark_wide_ten_ms", "rfc27_spark_wide_range_ms")),
        ("Spark SQL on zskip's entries", "index",
         ("", "rfc27_spark_full_s", "rfc27_spark_ten_ms", "rfc27_spark_range_ms")),
    ),
)  # fmt: skip
TABLES = (ENGINES, COPIES, QUERIES, LATENCY, WRITES, GROWING, WORKLOADS, SKETCHES, INDEX)
