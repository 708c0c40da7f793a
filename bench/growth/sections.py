"""The sections of docs/growth.md: what each result shows, and which of its figures are drawn."""

from __future__ import annotations

from dataclasses import dataclass

INTRODUCTION = """# How it grows

Slopes instead of sizes: what an append, a query, a task or a session costs is measured at four sizes or more, and the
exponent of the power of the size that fits best (least squares of the logarithms) is its *slope*. A slope of 1 grows as
the size does, 0 not at all. `python3 dev.py bench growth` repeats what takes minutes, and writes this page and its
pictures from `bench/growth/results/`; `--all` runs the sizes that take hours. A machine's line says how busy it was:
where the load is above the number of cores, processor seconds (`cpu`, and all seconds of benchmarks without Spark)
still tell, while seconds by the clock do not."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the page."""

    title: str
    text: str
    results: tuple[str, ...]
    drawn: tuple[str, ...]
    """Figures of the picture; none where the rows are no sizes."""
    script: str
    after: str = ""


SECTIONS = (
    Section(
        title="History",
        text="Thousands of appends to one table, with `maintain` after each hundred. Without Spark: the driver's "
        "part of an append, in processor seconds of the medians of a hundred. `append_plan_s` reads the "
        "journal and the snapshot, `append_commit_s` commits, `append_record_s` writes the record, "
        "`append_index_s` indexes the file. `home_files` are the files in the table's `_zskip`; of the index "
        "those of the last 64 versions stay, for readers that began earlier.",
        script="history.py",
        results=("history-parquet", "history-delta", "history-iceberg"),
        after="Before records were folded into one file, an append after 200 others took 0.40 processor seconds, 0.17 "
        "of them to read all records, and 0.17 to read them again for what may expire; an append after 100 took "
        "0.32. Delta tables that only zskip wrote got no checkpoints, so that opening one read all its commits. "
        "A commit to an Iceberg table read each metadata file of the last hour, as Iceberg's log of metadata knows the "
        "last hundred only. An index kept all that its versions of six hours named, so that `append_index_s` grew with "
        "each append (0.058 processor seconds after 600, 0.112 after 1,400). The journal gave each append the last "
        "thousand operations (0.039 after 1,000, of which 0.027 the journal). Each call read the metadata and all "
        "manifests of an Iceberg table some ten times, and pyiceberg copied the metadata as often (1.4 after 200). "
        "What grows still is the formats' own: Iceberg's metadata lists all snapshots until they expire, and is parsed "
        "for each question that the catalog answers; Delta's log keeps 30 days of commits, which each opening lists.",
        drawn=("append_s", "append_plan_s", "append_record_s", "append_index_s", "open_s", "query_s", "history_s"),
    ),
    Section(
        title="Files",
        text="What the driver does for a table of ten indexed columns, in processor seconds, and what Spark sends"
        " with each task of a rewrite on 100 cores. `layout_in_a_task_s` is what each task takes to read the"
        " layout.",
        script="files.py",
        results=("files",),
        after="`all_tasks_mb` is what each task got before tasks got the names of their own files only.",
        drawn=("query_s", "info_s", "maintain_plan_s", "survey_s", "append_index_s", "fit_s", "tasks_s"),
    ),
    Section(
        title="Columns",
        text="Four files of 500 rows with more and more columns. Planning a query that asks for two of them "
        "should not grow; the index and both sides of a rewrite grow as the columns do.",
        script="columns.py",
        results=("columns",),
        drawn=("index_s", "refresh_s", "query_s", "info_s", "place_s", "write_s"),
    ),
    Section(
        title="Time in one session",
        text="Eight threads under `enable`, on tables that are appended to, rewritten and dropped meanwhile: what"
        " the process and its JVM hold after a collection.",
        script="session.py",
        results=("session", "restarts"),
        after="The JVM's threads are Spark's own pools of query stages (`shuffle-exchange`, "
        "`ResultQueryStageExecution`), two for each query of the last minute, after which they end.",
        drawn=("heap_mb", "metaspace_mb", "classes", "jvm_threads", "java_objects", "python_mb"),
    ),
    Section(
        title="Rows",
        text="TPC-H lineitem, with a driver of 2 GB: a copy by Spark, `optimize` by three columns into files of 64 MB, "
        "and the median of twenty random queries by `df()`, under `enable` and without zskip, all on the new table. "
        "`shuffle_over_table` is what goes through shuffles over the bytes of the table that is read (Snappy): rows in "
        "Arrow with zstd; the new table, in Parquet with zstd, has 0.64 of them.",
        script="rows.py",
        results=("rows",),
        drawn=("copy_cpu_s", "optimize_cpu_s", "optimize_python_peak_mb", "optimize_jvm_peak_mb", "enabled_query_s"),
    ),
    Section(
        title="Workers",
        text="TPC-H lineitem on a standalone cluster of four workers with one core and 2 GB each, processes of this "
        "machine; a driver takes some of the cores. Seconds by the clock (`_s`) fall only as far as the machine has "
        "cores. `_cpu_s` are the busy seconds of all its processors: where they stay flat, more workers add no work, "
        "and as many cores of their own would share it but for `_driver_cpu_s`; each executor starts cold and compiles "
        "its code for itself, which is most of what they add here. What is killed, slow or without zskip "
        "there is asked by `tests/table/rewrite/test_standalone_cluster.py`.",
        script="workers.py",
        results=("workers",),
        drawn=("copy_s", "optimize_s", "optimize_cpu_s", "optimize_driver_cpu_s", "index_s", "append_s"),
    ),
    Section(
        title="Many at once",
        text="Four writers, maintenance and four readers on one table: two append through zskip, two by `INSERT`, one "
        "of each kind deletes its rows, too, where the format can; readers ask for a snapshot of a writer's rows, by "
        "`df()` and by a query under `enable`. Calls that were `done`, and those that were `refused` since another "
        "was first; the run fails where a reader sees a part of a commit, or a row is lost or doubled at the end. "
        "Spark's own reader lists a directory of plain Parquet file by file, and may see a rewrite in the middle of "
        "its renames (`query_torn`, see [commits](parquet-commits.md)); `df()` may not, but what it reads may be gone, "
        "since plain Parquet keeps no versions. "
        "`own` is the format's own Z-order in place of `Table.maintain`, on a table of its own.",
        script="concurrency.py",
        results=("concurrency",),
        drawn=(),
    ),
)
