"""Run every benchmark and write docs/benchmarks.md: each figure beside its goal and the command that repeats it.

python3 dev.py bench [WORD ...]    # only the sections with one of the words in their title
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from shared.page_tables import TABLES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"

INTRODUCTION = (
    "# Benchmarks\n\nWritten by `python3 dev.py bench`. Ratios are taken side by side in one run, since machines are "
    "noisy; the peers' figures in brackets were measured once on the same kind of machine and are not repeated here. "
    "The load in a machine's line is the mean number of busy processes in the quarter of an hour before: where it is "
    "above the number of cores, seconds are those of a busy machine."
)

PEERS = {
    "delta": "`OPTIMIZE ... ZORDER BY` of Delta Lake 4.4.0",
    "iceberg": "`rewrite_data_files` with `zorder` of Iceberg 1.11.0",
    "hudi": "clustering with `z-order` of Hudi 1.2.0 on Spark 3.5",
}
"""What zskip's optimize of a table format is measured beside."""


def beside(engine: str, data: str = "lineitem") -> tuple[str, str, str, dict[str, str]]:
    """The run for one of the peers."""
    more = "" if data == "lineitem" else f": {data}"
    given = "" if data == "lineitem" else f" --data {data}"
    what = {
        "lineitem": "TPC-H lineitem as a table of the format, by l_partkey, l_suppkey, l_shipdate",
        "connections": "Made-up connections of a network (bench/shared/table_data.py) as a table of the format, by "
        "src_ip, dst_ip, ts",
    }
    return (
        f"Beside the Z-order of {engine.capitalize()} itself{more}",
        f"engines/engines.py --engine {engine}{given} --scale 2 --files 64 --rounds 3",
        f"{what[data]}: zskip's whole optimize and "
        f"{PEERS[engine]} take turns on fresh tables, asked for as many files (by bytes). Then the first 40 of the "
        "random queries run through the engine's own reader; `rows_decoded` is the mean share of the rows that its "
        "scan decodes. The run fails where an answer differs.",
        {
            "time_over_engine": "<= 0.3" if engine == "delta" else "<= 0.65",
            "decoded_over_engine": "<= 0.22" if (engine, data) == ("delta", "lineitem") else "<= 0.5",
        },
    )


def beside_deletes(engine: str, kind: str, options: str) -> tuple[str, str, str, dict[str, str]]:
    """The run for a table that lives; kind: what it has; options: that make it so."""
    return (
        f"Beside the Z-order of {engine.capitalize()} itself: {kind}",
        f"engines/engines.py --engine {engine} --scale 1 --files 64 --rounds 2 {options}",
        f"The same on a table with {kind}, and beside a copy of the live rows through the engine's own reader and "
        "writer (`copy_s`).",
        {"time_over_engine": "<= 0.4", "time_over_copy": "<= 1.4"},
    )


def planned_by(reader: str) -> tuple[str, str, str, dict[str, str]]:
    """The run that says what planning takes beside a format's own reader."""
    return (
        f"Planning a query that {reader.capitalize()} reads",
        f"planning.py --files 64 --more-files 1000 --rounds 40 --format {reader}",
        f"The same on a table that {reader.capitalize()}'s own reader plans and reads on both sides; `added` is "
        "through `Table.df()`, which here lists the files itself.",
        {f"{name}_64_files_enabled_added_ms": "<= 6" for name in ("hash", "rand", "text", "list", "many", "pruned")},
    )


def tpcds_by(reader: str) -> tuple[str, str, str, dict[str, str]]:
    """The run of TPC-DS on tables that a format's own reader reads."""
    return (
        f"All of TPC-DS, read by {reader.capitalize()}",
        f"queries/tpcds.py --scale 1 --layout date --format {reader}",
        f"The 99 queries on {reader.capitalize()} tables of the same files, read by their names through its own reader "
        "on both sides; join keys are asked for where that pays.",
        {"identical": "99", "fact_bytes_over_plain": "<= 0.48", "time_over_plain": "<= 1.03"},
    )


def decoded(data: str, page_rows: int, goal: str) -> tuple[str, str, str, dict[str, str]]:
    """The run that says what queries decode with a workload, for one of the tables."""
    return (
        f"Rows decoded with a workload: {data}",
        f"layout/decoded.py --data {data} --scale 1 --files 64 --page-rows {page_rows}",
        "Without Spark, by the bounds of files and pages: Delta's Z-order, whose files hold rows in no order, the "
        "default layout, and a tree of cuts for 100 queries of a mix (see the advice above), of which 100 others are "
        "measured. `bench/engines/engines.py --mixes even,first,last` does the same with Spark and Delta itself.",
        {
            f"{name}_{which}": f"<= {limit}"
            for name in ("even", "first", "last")
            for which, limit in (("tree_decoded_over_delta", goal), ("default_decoded_over_kept", "0.45"))
        },
    )


ORDERS = {
    "random": ("in random order", "<= 2.5 (Delta's CLUSTER BY: 5.5)", "<= 1.3"),
    "shipdate": ("in the order of l_shipdate", "<= 1.6", "<= 1.1"),
}
"""How a table grows: in words, and what is wanted of bytes written and of rows in kept files."""


def growing(order: str) -> tuple[str, str, str, dict[str, str]]:
    """The run for one of the orders."""
    words, written, kept = ORDERS[order]
    return (
        f"A table that grows by tenths {words}",
        f"maintain.py --scale 1 --files 64 --orders {order}",
        f"Ten appends of two files each, rows {words}, with `maintain` after each: bytes of all files that it wrote, "
        "over those of the table at the end (`written`), mean share of rows in the files that 100 queries keep, also "
        "over that of one full optimize into 64 files (`kept_over_full`). `budget`: by how much of a file a call went "
        "over a budget of a tenth of the table, and whether each call lowered the predicted share. `one_percent`: what "
        "`maintain` writes, in % of the table, once 1 % of new rows was appended to that of the full "
        "optimize. Delta's OPTIMIZE of a CLUSTER BY table, where "
        "its jars are there. `appends`: the same rows through `zskip.write` and `Table.append`, with `maintain` after "
        "each and without (`alone`, also over what queries keep of plain appends).",
        {
            f"{order}_appends_and_maintain_written": "<= 2.0" if order == "random" else "<= 1.3",
            f"{order}_appends_and_maintain_kept_over_full": "<= 1.25" if order == "random" else "<= 1.15",
            f"{order}_appends_alone_kept_over_plain_appends": "<= 1",
            f"{order}_zskip_written": written,
            f"{order}_zskip_kept_over_full": kept,
            f"{order}_zskip_files": "<= 128",
            f"{order}_budget_most_over_files": "<= 1",
            f"{order}_budget_share_falls": "True",
            f"{order}_one_percent_written_pct": "<= 5",
        },
    )


DATA = ("lineitem", "connections")


def predicted(data: str) -> tuple[str, str, str, dict[str, str]]:
    """The run that holds predictions against what is read, for one of the tables."""
    return (
        f"Advice and what comes of it: {data}",
        f"advice.py --data {data} --scale 0.25 --files 32 --parts fit,pairs",
        "Three mixes of queries on three columns, `even`, `first` (mostly the first column) and `last` (mostly narrow "
        "ranges of the last), of each 100 to train and 100 to measure. Of the queries of `last` a third asks for the "
        "last column alone: on lineitem in 32 files the best grid for the measured queries themselves reads 0.83 of "
        "the default, a tree fitted to them without made-up queries 0.77. `with_over_without`: rows in kept files "
        'under the layout that `curve="auto"` chose for a mix, over those under the default layout. The rest is of '
        "seven layouts (columns, curves, numbers of files), each fitted to each mix: what `Table.what_if` predicted of "
        "a table that was sorted by its last column, beside what Spark then keeps and decodes, and whether the queries "
        "that read over 20 % more or less are those that it named.",
        {
            "with_over_without": "<= 0.75",
            "kept_mean_error_pct": "<= 10",
            "kept_inside_interval_pct": ">= 85",
            "decoded_mean_error_pct": "<= 10",
            "decoded_inside_interval_pct": ">= 85",
            "right_sign_pct": ">= 95",
        },
    )


def paged(data: str) -> tuple[str, str, str, dict[str, str]]:
    """The run that compares rows a page, for one of the tables."""
    return (
        f"Rows a page: {data}",
        f"advice.py --data {data} --scale 1 --files 32 --parts pages",
        "The same table in the default Z-order of three columns with 20,000, 5,000 and 2,000 rows a page; 100 queries "
        "take turns. `query_over_20000` is the median of the ratios of each query's seconds.",
        {"pages2000_size_over_20000": "<= 1.03", "pages2000_query_over_20000": "<= 1"},
    )


RUNS = (
    (
        "A table in an object store",
        "stores/stores.py --files 10000",
        "Without Spark, on a store in memory that waits before each answer: the index of 10,000 files of 10 columns "
        "with 50 ms a request, then, in a new process with 20 ms, a query that keeps 10 files, twice. `beyond` is what "
        "comes on top of listing the table's files.",
        {
            "index_seconds": "<= 60",
            "cold_requests_beyond": "<= 12",
            "cold_seconds_beyond": "<= 1.5",
            "warm_requests_beyond": "<= 4",
        },
    ),
    (
        "100,000 files in an object store",
        "stores/stores.py --files 100000",
        "Without Spark, on a store in memory that waits 20 ms before each answer: a query that keeps 10 files, twice "
        "in a new process. `beyond` is what comes on top of listing the table's files. The index is made of footers "
        "that the store is not asked for.",
        {
            "cold_requests_beyond": "<= 12",
            "cold_seconds_beyond": "<= 1.5",
            "warm_requests_beyond": "<= 4",
        },
    ),
    (
        "A million files on a store",
        "stores/large_store.py --files 1000000",
        "Plain Parquet of ten columns, made of metadata alone: the listing takes no time, so that all of this is "
        "beyond it. `first` and `warm` open the table and answer a query that keeps 10 files, `info` is `info()`, "
        "`refresh` is `index()` after 1,000 files more, and `beyond_reading` is without reading just their "
        "footers. `mb` is the most that the process had, its libraries and the made-up listing (`mb_before`) included.",
        {"warm_s": "<= 2", "refresh_beyond_reading_s": "<= 5", "mb": "<= 1000"},
    ),
    (
        "Clustering in an object store",
        "stores/store_rewrite.py --scale 1 --files 64 --rounds 2",
        "TPC-H lineitem by l_partkey, l_suppkey, l_shipdate into a new table, through Spark's S3A, beside the same on "
        "the local disk, in turns. The store speaks S3, keeps all in memory, answers at once and shares the two cores. "
        "`asked` are its requests in the last round.",
        {"store_over_disk": "<= 1.3", "asked_copy": "<= 64"},
    ),
    (
        "Clustering in an object store that takes 20 ms",
        "stores/store_rewrite.py --scale 1 --files 64 --rounds 2 --delay-ms 20",
        "The same, with 20 ms for each answer. What the driver asks for one after another is a fixed part, which a "
        "larger table hides.",
        {},
    ),
    (
        "Clustering TPC-H lineitem",
        "clustering.py --scale 2 --files 64 --rounds 3 --decoded-queries 40 --curves zorder",
        "12M rows by l_partkey, l_suppkey, l_shipdate into 64 files. `copy` is a plain Spark read and write of the "
        "same data with the same codec (zstd); `unsorted` and `sorted` are whole optimizes (snapshot, sample, fit, "
        'rewrite, commit, index) without and with sorted files, `spark_sorted` one with `writer="spark"`. `step`: '
        "seconds of its steps; `cpu_s`, `peak_mb`: processor seconds and peak memory of the JVM and of Python's "
        "workers (of the largest one), `shuffled_mb` what went through shuffles, all in the last round. The 100 "
        "random queries are 35 % equalities on one column, 30 % ranges of 0.1-5 % on one, 35 % ranges of 1-20 % on "
        "two; `rows_in_kept_files` is the mean share of the table's rows in files that the index keeps, `rows_decoded` "
        "the mean share that Spark's scan then decodes for the first 40 of them (`numOutputRows`; it skips row groups "
        "and pages by itself).",
        {
            "unsorted_over_copy": "<= 1.1 (Delta's z-order: 3.5)",
            "sorted_over_copy": "<= 1.2",
            "jobs_reading_input": "<= 2",
            "zorder_rows_in_kept_files_pct": "<= 21 (Delta's z-order: 31.6, its Hilbert clustering: 24.5)",
            "zorder_rows_decoded_pct": "<= 13 (Delta's z-order: 32.6, its Hilbert clustering: 23.8)",
        },
    ),
    (
        "Clustering connections",
        "clustering.py --data connections --scale 2 --files 64 --rounds 2 --decoded-queries 40 --curves zorder",
        "As above, made-up connections of a network (bench/shared/table_data.py) by src_ip, dst_ip, ts.",
        {"unsorted_over_copy": "<= 1.1", "sorted_over_copy": "<= 1.2"},
    ),
    (
        "Events with a payload",
        "events.py --rows 5000000 --files 64",
        "5M made-up events by a text and a number inside a payload: a struct, a JSON text or a VARIANT, beside a "
        "table with the same fields as columns (`plain`), all in the default Z-order. 100 queries of equalities and "
        "ranges: `kept` is the mean share of rows in files that the index keeps, `decoded` that of rows that Spark's "
        "scan decodes for the first 40 (it skips pages of columns and of fields, not of paths into JSON and variants). "
        "`delta` is Delta's `CLUSTER BY` of the fields of the struct, read by itself. `identical`: all answers agree. "
        "`tags`: `array_contains` of 100 tags in 256 files of a fifth of the rows: files that `values(100)` of the "
        "elements keeps, over those that hold the tag.",
        {
            "tags_kept_over_holding": "<= 1.1",
            **{
                f"{kind}_{figure}_over_plain": "<= 1.1"
                for kind in ("struct", "json", "variant")
                for figure in ("kept", "decoded")
            },
            "identical": "True",
        },
    ),
    (
        "Clustering 60 million rows with a driver of 2 GB",
        "clustering.py --scale 10 --files 512 --rounds 1 --decoded-queries 1 --curves zorder --memory 2g",
        "As above, TPC-H lineitem at scale factor 10 into 512 files; rows decoded are those of a single query.",
        {"sorted_over_copy": "<= 1.15"},
    ),
    (
        "Fitting a layout",
        "layout/fit.py --rows 50000 --files 256 --scale 1",
        "Bounds, keys, microcells and cuts on the driver, once the sample is there; `tree` is a tree of cuts for 300 "
        "queries of the columns. `tree_place_over_zorder` is the time to place a million rows in NumPy.",
        {
            "zorder_fit_s": "<= 1.5",
            "hilbert_fit_s": "<= 1.5",
            "linear_fit_s": "<= 1.5",
            "tree_fit_s": "<= 3",
            "peak_memory_mb": "<= 200",
            "tree_place_over_zorder": "<= 1.15",
        },
    ),
    (
        "A report in the browser",
        "index/report.py --million 1000000 --scale 1",
        "`million`: of a table of a million files and three columns, from its index; `lineitem`: of its keys and dates "
        "in 64 files by date, with 200 queries. `first_s` is the first report of a process, `first_cpu_s` what the "
        "processors worked for it, `mb` what the process grows by; the chart library is 2 MB of the HTML. "
        "`first_paint_ms`, `near_drawn_ms` (the charts near the window) and `all_drawn_ms` (all, as before it is "
        "printed) are Chromium's.",
        {
            "million_first_s": "<= 10",
            "million_mb": "<= 500",
            "million_html_mb": "<= 5",
            "million_first_paint_ms": "<= 2000",
            "million_near_drawn_ms": "<= 2000",
            "lineitem_first_s": "<= 2",
            "lineitem_html_mb_beyond_the_library": "<= 2",
        },
    ),
    (
        "Layouts fitted to a workload",
        "workloads.py --rows 1500000 --files 256",
        "Four workloads on each of three tables (uniform, skewed, six columns of TPC-H lineitem), without Spark: 200 "
        "queries train, 300 of the same kind measure. `delta` is a Z-order over 1,000 ranges a column with files of "
        'equal size, `without` the default layout, `with` the one that `curve="auto"` chooses for the workload, '
        "`predicted` what the sample says of it, `stale` what is read under the layout that was chosen for another "
        "workload of the table, of the three the one that reads most. Percent of the rows in kept files; means over "
        "workloads are geometric.",
        {
            "with_pct": "<= 9",
            "without_pct": "<= 14",
            "stale_over_without_mean": "<= 1.3",
            "stale_over_without_worst": "<= 1.95",
            "prediction_error_mean_pct": "<= 10",
        },
    ),
    *map(predicted, DATA),
    *map(paged, DATA),
    (
        "Recording a workload",
        "layout/recording.py --scans 1000000 --flushes 250",
        "A week of 1,000,000 scans, noted (`note`, what a query waits for) and written to a local disk in the "
        "background (`flush`), which takes at most a thousandth of a processor's time.",
        {"note_ms_mean": "<= 1", "reservoir_bytes": "<= 1000000"},
    ),
    (
        "Advice for a very large table",
        "layout/advice_large.py --files 1000000 --queries 10000",
        "100 columns, of which the index knows 20 and predicates ask for 12; memory is that of Python's side of the "
        "driver.",
        {"advise_s": "<= 60", "driver_peak_mb": "<= 1000"},
    ),
    (
        "A table of 100,000 small files",
        "index/small_files.py --files 100000 --rounds 2",
        "Opening the table and answering one query that keeps 10 files, with an index, beside plain Spark.",
        {"zskip_over_spark": "<= 0.1"},
    ),
    (
        "Pruning by a large predicate, and clustering information",
        "index/pruning.py --files 100000 --listed 10000",
        "An AND of 20 leaves over columns of five types, one of them an IN of 10,000 values, over the bounds of "
        "100,000 files (`prune_ms`; the text is read before); then overlap and depth of one column of 1,000,000 files "
        "as `Table.info()` tells them, of integers and of strings.",
        {"prune_ms": "<= 50", "clustering_long_s": "< 2", "clustering_string_s": "< 2"},
    ),
    (
        "The index by itself",
        "index/index.py --files 1288 --columns 2078 --million 1000000",
        "`rfc27`: a table of RFC-27's shape, 1,288 files of 2,078 columns, 2.7M entries with random low digits "
        "(bench/shared/index_data.py says how they are made), every figure cold from disk and from the manifest on: "
        "all entries (`full`), one column of ten files (`ten`), four columns of all files (`range`), and the same as a "
        "query does it, which matches the list of files with the live ones (`by_a_query`); beside them one row a "
        "file in Parquet (`wide`), and Spark SQL over both. The first table has RFC-27's own figures, which were taken "
        "on another machine and of other values, above those of this run. `million`: a predicate on 3 columns of 10 "
        "over the index of 1,000,000 files, from the manifest on and then again; `mb` is by what the process grows "
        "once it holds the list of live files. `least` stands for the least of the rounds and `cpu` for the time of "
        "the processors, all else are medians.",
        {
            "rfc27_mb": "<= 36",
            "rfc27_full_s": "<= 0.5",
            "rfc27_ten_ms": "<= 5",
            "rfc27_range_ms": "<= 10",
            "million_cold_ms": "<= 500",
            "million_warm_ms": "<= 50",
            "million_mb": "<= 250",
        },
    ),
    (
        "Building and refreshing an index",
        "index/index_build.py --files 10000 --columns 100 --more-files 100000 --added 100",
        "`build`: the min/max index of 10,000 files of 100 columns, from footers that are in memory; a core's files a "
        "second are those by the processors' time. Two fifths of that time are Arrow's for parsing the footers, "
        "and a quarter its for handing over the statistics of a million columns. `refresh`: 100 more files in a table "
        "of 100,000 with ten columns; `beyond` is without reading just those files' footers, `with_listing` lists the "
        "table, too. The files are hard links to 500 different ones of 20 rows, of columns of six types with random "
        "values.",
        {"build_files_a_second_a_core": ">= 2000", "refresh_beyond_s": "<= 1"},
    ),
    (
        "What sketches save",
        "queries/sketches.py --scale 1",
        "Files and bytes that queries read by the bounds of columns, and then with a sketch, too; the run fails where "
        "a file with a matching row is left out. `bloom`: TPC-H orders clustered by date, 200 single keys. `ngram`: "
        "orders as generated, 63 English words that TPC-H does not use, each planted in the comment of one order in "
        "one or two files; any word of TPC-H's own is in all files, so that nothing could skip one. `ranges`: lineitem "
        "by key, of which every 20,000th row (`few`: five in a file) or every 4,000th (`many`: 23, more than eight "
        "ranges can tell) lies in another file; half of the queries ask for one key, half for a thousandth of them. "
        "`geo`: places along 64 made-up roads, a file each, and boxes of 2 by 5 degrees. `mb_saved` is what a query "
        "reads less than by bounds, `kb` what the sketches of all files take.",
        {
            "bloom_files_read": "<= 2",
            "ngram_files_skipped_pct": ">= 90",
            "ranges_few_bytes_over_bounds": "<= 0.7",
            "ranges_many_bytes_over_bounds": "<= 0.7",
        },
    ),
    (
        "Planning a query",
        "planning.py --files 64 --more-files 1000 --rounds 40",
        "What zskip adds to plain Spark's planning (analysis, optimizer, physical plan, list of files), by queries "
        "that take turns: medians of the differences. Nothing can be pruned by `hash` (`hash(a) % 7 = 3`), `rand`, "
        "`text` (two functions and an OR), `list` (1,000 values of a product) and `many` (20 conjuncts); `pruned` "
        "keeps 3 files. `added` is through `Table.df()`, `enabled_added` in a session with `zskip.enable` on the same "
        "files, `no_index_added` there on files without an index.",
        {
            f"{name}_{files}_files_{kind}_ms": goal
            for kind, goal in {"added": "<= 20", "enabled_added": "<= 6", "no_index_added": "<= 2"}.items()
            for files in (64, 1000)
            for name in ("hash", "rand", "text", "list", "many", "pruned")
            if kind != "added" or name != "pruned"
        },
    ),
    planned_by("delta"),
    planned_by("iceberg"),
    (
        "What a short query waits for under each reader",
        "queries/latency.py --scale 2 --files 64 --queries 60",
        "TPC-H lineitem in 64 files clustered by three columns by the format's own Z-order (`zorder`) and by zskip, of "
        "which a query reads little. zskip's files are read by the format's own reader (`alone`), by it in a session "
        "with `zskip.enable` (`enabled`), and by `Table.df()` (`df`), all in turns; answers are compared. Milliseconds "
        "of a query: the median, and of a hundred the slowest (`p99`); `of_df` is the median of the ratios.",
        {"delta_enabled_of_df": "<= 1.2"},
    ),
    (
        "Starting up",
        "startup.py --rounds 30 --sessions 5",
        "Fresh processes that take turns: `import zskip`, `zskip --help`, and a `python` that does nothing, whose time "
        "is part of the other two. Medians; `least` is the least of the rounds, `cpu` the time of the processors. Then "
        "`zskip.enable` in new sessions that have run a query, with its Java from the user's cache and compiled anew, "
        "and the first query of a new session, plain and with `enable` before it.",
        {"import_ms": "< 150", "help_ms": "< 400", "enable_cached_ms": "<= 500", "first_query_added_ms": "<= 400"},
    ),
    (
        "The first rows, LIMIT and counts",
        "queries/topk.py --scale 1 --files 64",
        "TPC-H lineitem in 64 files, sorted by l_shipdate (`date`) and by the Z-order of three columns (`zorder`): "
        "`ORDER BY l_shipdate DESC LIMIT 10`, `LIMIT 10` and counts over a range of l_shipdate. Files that are read, "
        "the share of the table's bytes in them, and the time of the query over that of plain Spark on the same "
        "files, in turns. The run fails where an answer differs.",
        {
            "date_top_10_files": "<= 4",
            "date_limit_10_files": "1",
            "date_count_files": "0",
            "date_count_range_files": "<= 2",
            "zorder_limit_10_files": "1",
        },
    ),
    (
        "All of TPC-H",
        "queries/tpch.py --scale 1 --joins always",
        "Files, and bytes of the files, that the scans of each query read (Spark's own `numFiles` and `filesSize`): "
        "plain Spark on the tables as the generator wrote them, then an enabled session on lineitem, orders, part, "
        "partsupp and customer clustered into as many files, all as views of `spark.read.parquet`. The run fails where "
        "an answer differs. zskip writes the codec of its input (here snappy).",
        {"identical": "22", "bytes_after_over_before": "<= 0.6"},
    ),
    (
        "All of TPC-DS, clustered by date",
        "queries/tpcds.py --scale 1 --layout date --joins always",
        "The 99 queries, each by plain Spark and in an enabled session in turns, on the same files: the seven fact "
        "tables clustered by the key of their date. Megabytes are those of the files of fact tables that the scans of "
        "a query read, without what queries for keys read before, seconds the whole query's. The run fails where an "
        "answer differs.",
        {"identical": "99", "fact_bytes_over_plain": "<= 0.48"},
    ),
    (
        "All of TPC-DS, clustered by three columns",
        "queries/tpcds.py --scale 1 --layout three --joins auto --rounds 2",
        "The same with the fact tables in Z-order by date, item and customer, and join keys asked for where that pays.",
        {"identical": "99", "fact_bytes_over_plain": "<= 0.66", "time_over_plain": "<= 1.03"},
    ),
    (
        "All of TPC-DS, not clustered",
        "queries/tpcds.py --scale 1 --layout raw --rounds 2",
        "The same where an index is there and nothing can be skipped: what an enabled session costs.",
        {"identical": "99", "time_over_plain": "<= 1.03"},
    ),
    tpcds_by("delta"),
    tpcds_by("iceberg"),
    (
        "TPC-DS at scale factor 10",
        "queries/tpcds.py --scale 10 --layout date",
        "The first 20 queries of which each joins one fact table with some days of `date_dim` (`queries` lists them).",
        {"time_over_plain": "<= 0.7"},
    ),
    (
        "A Delta table of 10,000 files",
        "index/delta.py --files 10000",
        "`open` is `zskip.table(spark, path).df()` of a table never seen before, which reads the log; `query` is the "
        "planning of a query that keeps three files by the log's statistics, `query_added` what it takes beyond plain "
        "Spark's planning over just those three. Medians; `first_open` is the first in a new process.",
        {"open_ms": "<= 300", "query_added_ms": "<= 50"},
    ),
    *map(beside, PEERS),
    beside("delta", "connections"),
    beside_deletes("delta", "deletion vectors", "--deleted 2"),
    beside_deletes("delta", "deletion vectors and mapped columns", "--deleted 2 --mapping name"),
    beside_deletes("iceberg", "position deletes", "--deleted 2"),
    beside_deletes("iceberg", "equality deletes", "--deleted 2 --equality 1"),
    beside_deletes("iceberg", "ids of rows and deletion vectors (version 3)", "--deleted 2 --version 3"),
    decoded("lineitem", 2_100, "0.15"),
    decoded("connections", 2_000, "0.3"),
    *map(growing, ORDERS),
    (
        "Planning maintenance of a million files",
        "layout/upkeep.py --files 1000000",
        "A dry run of `maintain` by three columns on a table of which every fiftieth file lies across everything, from "
        "its index to the plan; `mb` is what the process grows by.",
        {"plan_s": "<= 10", "mb": "<= 1000"},
    ),
    (
        "Writers beside maintenance",
        "engines/beside.py --seconds 60 --pause 1 --appends 5",
        "A writer of a Delta table (delta-rs) appends rows every second and deletes two every five, beside `maintain` "
        "by two columns, and on tables of their own beside delta-rs's compaction and Z-order, each again and again for "
        "as long. `refused_pct`: writes that had to begin anew, of 100 that were done; `failed`: runs of the "
        "maintenance that gave up. The run fails where a row is lost or doubled.",
        {"maintain_refused_pct": "<= those of Delta's own"},
    ),
    (
        "Merging small files",
        "compact.py --files 10000 --rounds 2",
        "10,000 files of 100 kB into files of 128 MB, beside plain Spark that reads them and writes as many files.",
        {"zskip_over_spark": "<= 0.6"},
    ),
    (
        "A full rewrite in ten batches",
        "batches.py --scale 1 --files 64 --rounds 1",
        "TPC-H lineitem in 80 files of no order: one optimize in a single job, and one with `max_batch` a tenth of the "
        "table and two jobs at a time. `shuffle_mb` is the most that Spark's local directories held at a moment; "
        "`kept_pct` the mean share of rows in the files that 100 random queries keep: of a table in no order at all "
        "each batch is spread over all values.",
        {"batched_over_single_s": "<= 1.3", "batched_over_single_shuffle_mb": "<= 0.2"},
    ),
    (
        "Shipping rows to many files",
        "layout/shipping.py --scale 1",
        "One task of a rewrite through Arrow that places the 6M rows of TPC-H lineitem, without Spark: `near_cpu_s` to "
        "read, place, divide by groups of files and compress; `far_cpu_s` to read the batches back, divide them by "
        "files, and sort each; `over` is both over those of 64 files. `peak_mb` is what the larger side adds to a "
        "worker's memory, `closure_kb` what Spark broadcasts for all tasks.",
        {
            f"{files}_{name}": goal
            for files in (512, 2_000, 8_000, 32_000)
            for name, goal in (("over", "<= 1.3"), ("batch_kb", ">= 256"), ("peak_mb", "<= 1000"))
        },
    ),
    (
        "A clustered table in one pass",
        "one_pass.py --scale 1 --files 64 --rounds 2",
        "`zskip.write` of TPC-H lineitem beside a plain write by Spark and an optimize of what it wrote, by three "
        "columns: of a DataFrame that reads Parquet files as they are (`scan`), through a filter that keeps all rows "
        "(`filter`), joined with a small table (`join`), and grouped (`aggregate`). `cpu_s`: processor seconds of the "
        "driver, the JVM and the Python workers. `kept_pct` is the mean share of rows in the files that 100 random "
        "queries keep.",
        {
            f"parquet_{plan}_{figure}": goal
            for plan in ("scan", "filter", "join", "aggregate")
            for figure, goal in (
                ("one_over_two_s", "<= 0.75"),
                ("one_over_write_s", "<= 1.5"),
                ("kept_over", "<= 1.05"),
            )
        },
    ),
)


def main(only: list[str]) -> None:
    """Run them, one process each, and write the page.

    only: words of titles; the other sections stay as they are.
    """
    page = PAGE.read_text() if only else INTRODUCTION
    old = sections(page)
    parts = [page.split("\n## ")[0].strip()]
    for title, command, text, goals in RUNS:
        if only and not any(word.lower() in title.lower() for word in only):
            parts += ["", old[title]] if title in old else []
            continue
        print(f"bench/{command}", file=sys.stderr, flush=True)
        figures = measure(command)
        parts += ["", f"## {title}", "", text, "", "```", f"python bench/{command}", "```", ""]
        parts += [*TABLES[title](figures), ""] if title in TABLES else []
        parts += ["| figure | measured | goal |", "|---|---|---|"]
        parts += [f"| {name} | {value} | {goals.get(name, '')} |" for name, value in figures.items()]
    PAGE.write_text("\n".join(parts) + "\n")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def sections(page: str) -> dict[str, str]:
    """The sections of the page as they are, by their titles."""
    found = ("## " + part.strip() for part in page.split("\n## ")[1:])
    return {part.splitlines()[0].removeprefix("## "): part for part in found}


def measure(command: str) -> dict[str, Any]:
    """The figures that one script prints."""
    script, *options = command.split()
    python = ROOT / ".venv-spark35" / "bin" / "python" if "hudi" in options else sys.executable
    done = subprocess.run(
        [str(python), str(ROOT / "bench" / script), *options, "--json"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return flat(json.loads(done.stdout.splitlines()[-1]))


def flat(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures of parts under the part's name and their own."""
    found: dict[str, Any] = {}
    for name, value in figures.items():
        found |= {f"{name}_{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
