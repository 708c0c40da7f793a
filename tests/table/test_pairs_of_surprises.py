"""Every public call on directories with two surprises at once: no row is lost, and all errors are zskip's own."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import encrypted
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiers
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import zskip
from zskip.errors import ZskipError

ROWS, FILES = 40, 3
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
COLUMNS = [("id", "long"), ("k", "long"), ("text", "string")]

SPARKS_OWN = (PySparkException, Py4JError)
"""What Spark raises while it plans or runs a query."""

Change = Callable[[Path], None]


def make(place: Path) -> None:
    """A table of two partitions, with three files each."""
    for day, i in itertools.product((1, 2), range(FILES)):
        first = (day * FILES + i) * ROWS
        ids = list(range(first, first + ROWS))
        rows = pa.table({"id": ids, "k": [i % 7 for i in ids], "text": [f"text {i % 11}" for i in ids]})
        save(place / f"day={day}" / f"f{i}.parquet", rows)


def save(path: Path, rows: pa.Table, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)


def data_files(place: Path) -> list[Path]:
    """The Parquet files that are no metadata, each once."""
    listed = sorted(Path(root) / name for root, _, names in os.walk(place, followlinks=True) for name in names)
    files = list({file.resolve(): file for file in reversed(listed)}.values())[::-1]
    hidden = ("_", ".")
    return [
        file
        for file in files
        if file.suffix == ".parquet"
        and not any(part.startswith(hidden) and "=" not in part for part in file.relative_to(place).parts)
    ]


def each(change: Callable[[pa.Table, int], pa.Table], only: int | None = None, **options: Any) -> Change:
    """Write files anew, with other rows; only: the number of the one to change."""

    def apply(place: Path) -> None:
        for number, file in enumerate(data_files(place)):
            if only is None or number == only:
                rows = pq.ParquetFile(file).read()
                save(file, change(rows, number), **options)

    return apply


def add(name: str, values: Callable[[int], pa.Array], only: int | None = None) -> Change:
    return each(lambda rows, _: rows.append_column(name, values(len(rows))), only)


def with_metadata(metadata: dict[bytes, bytes]) -> Change:
    return each(lambda rows, _: rows.replace_schema_metadata(metadata))


def spark_schema(columns: list[tuple[str, str]]) -> bytes:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    return json.dumps({"type": "struct", "fields": fields}).encode()


def narrow_schema(place: Path) -> None:
    with_metadata({SPARK_SCHEMA: spark_schema(COLUMNS)})(place)
    add("extra", lambda n: pa.array(range(n)))(place)


def sink(place: Path) -> None:
    entries = [
        {
            "path": file.absolute().as_uri(),
            "size": file.stat().st_size,
            "isDir": False,
            "modificationTime": int(file.stat().st_mtime * 1000),
            "blockReplication": 1,
            "blockSize": 1 << 25,
            "action": "add",
        }
        for file in data_files(place)
    ]
    (place / "_spark_metadata").mkdir(exist_ok=True)
    (place / "_spark_metadata" / "0").write_text("\n".join(["v1", *map(json.dumps, entries)]))
    shutil.copy(data_files(place)[0], data_files(place)[0].with_name("leftover.parquet"))


def buckets(place: Path) -> None:
    for number, file in enumerate(data_files(place)):
        file.rename(file.with_name(f"part-{number:05d}-{uuid.uuid4()}_{number:05d}.c000.snappy.parquet"))


def partition_twice(place: Path) -> None:
    (place / "day=9").symlink_to("day=2")


def partition_elsewhere(root: str) -> Change:
    def apply(place: Path) -> None:
        other = Path(root or place.parent) / f"elsewhere-{os.getpid()}-{uuid.uuid4().hex}"
        shutil.move(place / "day=1", other)
        (place / "day=1").symlink_to(other)

    return apply


def link_to_a_file(place: Path) -> None:
    file = data_files(place)[0]
    target = place.parent / f"linked-{uuid.uuid4().hex}.parquet"
    file.rename(target)
    file.symlink_to(target)


def no_rows(place: Path) -> None:
    rows = pq.ParquetFile(data_files(place)[-1]).read().slice(0, 0)
    save(place / "day=3" / "empty.parquet", rows)
    save(place / "day=2" / "empty.parquet", rows)


def summary(place: Path) -> None:
    schema = pq.read_schema(data_files(place)[0])
    pq.write_metadata(schema, place / "_common_metadata")
    pq.write_metadata(schema, place / "_metadata")


def plain_directory(place: Path) -> None:
    save(place / "old" / "x.parquet", pa.table({"id": [-1], "k": [-1], "text": ["old"]}))


def encrypt(place: Path) -> None:
    file = data_files(place)[0]
    encrypted.write_encrypted(file, pq.ParquetFile(file).read(), ["text"])


def beside(name: str, content: bytes) -> Change:
    def apply(place: Path) -> None:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)

    return apply


def rename_partition(name: str) -> Change:
    return lambda place: (place / "day=2").rename(place / name) and None


def copied_with_its_index(place: Path) -> None:
    """An index of files of which one was replaced, with its size and times kept."""
    zskip.open(str(place)).index()
    file = data_files(place)[0]
    stat, rows = file.stat(), pq.ParquetFile(file).read()
    moved = rows.set_column(0, "id", pa.array([i.as_py() + 100_000 for i in rows["id"]], rows["id"].type))
    for compression in ("snappy", "none"):
        pq.write_table(moved, file, compression=compression)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


SURPRISES: dict[str, Change] = {
    "Spark's schema lacks a column": narrow_schema,
    "no schema of Spark's": with_metadata({SPARK_SCHEMA: b"StructType(List(oops"}),
    "the log of a sink": sink,
    "buckets": buckets,
    "a partition twice": partition_twice,
    "a partition elsewhere": partition_elsewhere(""),
    "a partition on another disk": partition_elsewhere("/dev/shm"),
    "a link to a file": link_to_a_file,
    "files without rows": no_rows,
    "a summary": summary,
    "a column of a name of ours": add("__ZSKIP_partition", lambda n: pa.array(range(n))),
    "a partition column in files": add("day", lambda n: pa.array([77] * n)),
    "a plain directory": plain_directory,
    "LZ4": each(lambda rows, _: rows, compression="lz4"),
    "an encrypted column": encrypt,
    "keys in footers": with_metadata({b"geo": b"{}", b"mine": b"x"}),
    "keys in one footer": each(lambda rows, _: rows.replace_schema_metadata({b"mine": b"x"}), only=0),
    "unsigned numbers": add("unsigned", lambda n: pa.array(range(n), pa.uint32())),
    "a dictionary": add("dictionary", lambda n: pa.array(["a"] * n).dictionary_encode()),
    "milliseconds": add("at", lambda n: pa.array(range(n), pa.timestamp("ms", "UTC"))),
    "nanoseconds": add("at_ns", lambda n: pa.array(range(n), pa.timestamp("ns", "UTC"))),
    "a column in one file": add("late", lambda n: pa.array(range(n)), only=2),
    "another type in one file": each(lambda rows, _: rows.set_column(1, "k", rows["k"].cast(pa.int32())), only=1),
    "letters in two ways": rename_partition("day=%C3%A9"),
    "an empty partition value": rename_partition("day="),
    "another partition column": rename_partition("year=2"),
    "an empty entry of the log": beside("_zskip/log/0000000001.json", b""),
    "a damaged note of moves": beside("_zskip/staging/x/_moved.json", b"{"),
    "a damaged index": beside("_zskip/index/manifest-0000000001.json", b"{}"),
    "a replaced file": copied_with_its_index,
    "no Parquet": beside("day=1/x.parquet", b"PAR1 no"),
    "hidden files": beside("day=1/_x.parquet", b"no"),
}
PAIRS = list(itertools.combinations(SURPRISES, 2))
random.Random(8).shuffle(PAIRS)


def rows_of(frame: DataFrame) -> Counter[str]:
    """The rows, whatever their columns' order."""
    return Counter(map(str, frame.select(*(f"`{name}`" for name in sorted(frame.columns))).collect()))


def as_spark_reads(spark: SparkSession, place: Path) -> Counter[str] | None:
    """All rows as Spark reads the directory; None where it does not."""
    try:
        return rows_of(spark.read.parquet(str(place)))
    except SPARKS_OWN:
        return None


def columns_in_files(place: Path) -> set[str]:
    names: set[str] = set()
    for file in data_files(place):
        try:
            names |= {name for name in pq.read_schema(file).names if "old" not in file.parts}
        except (pa.ArrowException, OSError):
            continue
    return names


class Checked:
    """Calls zskip, and collects what is wrong."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place
        self.faults: list[str] = []

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        """The result; None after an error."""
        try:
            return work()
        except ZskipError:
            return None
        except Exception as error:
            self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
        return None

    def read(self, name: str, work: Callable[[], DataFrame], expected: object) -> None:
        """The rows of a query, unless Spark fails to run it, as it does without zskip."""
        frame = self.call(name, work)
        if frame is not None:
            try:
                rows = rows_of(frame)
            except SPARKS_OWN as error:
                if expected is not None:
                    self.faults.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
                return
            if expected is not None and rows != expected:
                self.faults.append(f"{name}: other rows")

    def write(self, name: str, work: Callable[[], Any], added: int = 0) -> None:
        """Rows may only come; whether a rewrite succeeds or is refused, Spark reads what it read before."""
        before, columns = as_spark_reads(self.spark, self.place), columns_in_files(self.place)
        result = self.call(name, work)
        after = as_spark_reads(self.spark, self.place)
        if before is not None:
            lost = True if after is None else bool(before - after)
            new = 0 if after is None else sum((after - before).values())
            if lost or new != (added if result is not None else 0):
                self.faults.append(f"{name}: {'rows lost' if lost else f'{new} rows more'}")
        if columns - columns_in_files(self.place) - {"old"}:
            self.faults.append(f"{name}: columns lost: {columns - columns_in_files(self.place)}")


@pytest.fixture(autouse=True)
def other_disk() -> Iterator[None]:
    """Leaves nothing on the other disk."""
    yield
    for path in Path("/dev/shm").glob(f"elsewhere-{os.getpid()}-*"):
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), tiers.nightly(PAIRS))
def test_two_surprises_in_one_table(spark: SparkSession, tmp_path: Path, one: str, other: str) -> None:
    place = tmp_path / "a table ü"
    make(place)
    for name in (one, other):
        try:
            SURPRISES[name](place)
        except (pa.ArrowException, OSError, ValueError, ZskipError) as error:
            pytest.skip(f"{name} cannot be beside the other: {error}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        faults = ask_everything(spark, place)
    assert not faults, "\n".join(faults)


def ask_everything(spark: SparkSession, place: Path) -> list[str]:
    checked = Checked(spark, place)
    truth = as_spark_reads(spark, place)
    part: Counter[str] | None = None
    if truth is not None:
        try:
            part = rows_of(spark.read.parquet(str(place)).where("id > 150 AND k = 3"))
        except SPARKS_OWN:
            part = None
    path = str(place)
    for name, work in {
        "info": lambda: zskip.open(path).info(),
        "files": lambda: zskip.open(path).files(),
        "files where": lambda: zskip.open(path).files("id > 150 AND day = 1"),
        "prune": lambda: zskip.open(path).prune("id = 3"),
        "explain": lambda: str(zskip.open(path).explain("id = 3 AND day = 2")),
        "history": lambda: zskip.open(path).history(),
        "clean": lambda: zskip.open(path).clean(),
        "describe_index": lambda: zskip.open(path).describe_index(),
        "survey": lambda: str(zskip.lake(None, path).survey()),
    }.items():
        checked.call(name, work)
    for stage in ("without an index", "with an index", "with sketches"):
        if stage == "with an index":
            checked.write("index", lambda: zskip.open(path).index())
        elif stage == "with sketches":
            checked.write("sketches", lambda: zskip.table(spark, path).index(sketches=["bloom(0.01):k"]))
        checked.read(f"df {stage}", lambda: zskip.table(spark, path).df(), truth)
        checked.read(f"df where {stage}", lambda: zskip.table(spark, path).df("id > 150 AND k = 3"), part)
    if part is not None and enabled(spark, path) != part:
        checked.faults.append("enable: other rows")
    verified = checked.call("verify", lambda: zskip.table(spark, path).verify(queries=2).ok)
    if verified is False:
        checked.faults.append("verify: statistics that are wrong")
    new = new_rows(spark, path) if truth else None
    for name, rewrite in {
        "compact": lambda table: table.compact(target_file_size="1MB"),
        "optimize a partition": lambda table: table.optimize(by=["id", "k"], files=2, where="day = 1"),
        "optimize": lambda table: table.optimize(by=["id", "k"], files=3),
        "maintain": lambda table: table.maintain(by=["k", "id"], target_file_size="100kB"),
    }.items():
        checked.write(name, lambda rewrite=rewrite: rewrite(zskip.table(spark, path)))  # type: ignore[misc]
        checked.read(f"df after {name}", lambda: zskip.table(spark, path).df(), truth)
    checked.write("SQL", lambda: zskip.sql(spark, f"OPTIMIZE '{path}' ZORDER BY (id, k)").collect())
    if new is not None:
        checked.write("append", lambda: zskip.table(spark, path).append(new), added=2)
        checked.write("write", lambda: zskip.write(new, path, by=["id", "k"], mode="append"), added=2)
    checked.write("lake", lambda: zskip.lake(spark, path).maintain("1GB"))
    checked.write("clean", lambda: zskip.open(path).clean(delete=True))
    after = as_spark_reads(spark, place)
    checked.read("df at the end", lambda: zskip.table(spark, path).df(), after)
    into = place.with_name("into")
    checked.write("into", lambda: zskip.table(spark, path).optimize(by=["id", "k"], files=2, into=str(into)))
    if into.exists() and after is not None and as_spark_reads(spark, into) != after:
        checked.faults.append("into: other rows")
    return checked.faults


def enabled(spark: SparkSession, path: str) -> Counter[str] | None:
    zskip.enable(spark)
    try:
        return rows_of(spark.read.parquet(path).where("id > 150 AND k = 3"))
    except SPARKS_OWN:
        return None
    finally:
        zskip.disable(spark)


def new_rows(spark: SparkSession, path: str) -> DataFrame | None:
    """Two rows of the table, as new ones."""
    frame = spark.read.parquet(path)
    rows = frame.where("day IS NOT NULL").limit(2).collect() if "day" in frame.columns else frame.limit(2).collect()
    return spark.createDataFrame(rows, frame.schema) if len(rows) == 2 else None
