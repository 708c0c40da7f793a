"""zskip's optimize of a Delta, Iceberg or Hudi table beside the engine's own, and what the engine then reads.

python bench/engines/engines.py --engine delta --scale 2 --files 64 --rounds 3

`--deleted 2` deletes so many percent of the rows first, by deletion vectors or position deletes, or by equality deletes
with `--equality 1`, as other engines write them. `--version 3` makes Iceberg's tables of that version, and `--mapping
name` or `id` maps the columns of Delta's. `copy_s` is a copy of the rows through the engine's own reader and writer.

`--mixes even,first,last` (bench/shared/table_data.py) also fits a layout of zskip's to 100 queries of each mix, and
measures others of the mix.

Needs the jars that `python3 dev.py test-engines` fetches; Hudi's also the Python of .venv-spark35.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq

import zskip
from shared import common
from shared.resources import Resources
from shared.table_data import MIXES, TABLES, Table, mix
from zskip.spark.jvm.gateway import Jvm

WAREHOUSE = common.HOME / "engines"


class Engine(Protocol):
    """A table format as its own engine writes, clusters and reads it."""

    conf: ClassVar[dict[str, str]]
    by: Sequence[str]
    """Columns to cluster by."""

    def __init__(self, table: Table) -> None:
        """table: that is clustered."""

    def create(self, spark: Any, rows: Any, name: str, version: int) -> None:
        """Write rows as a new table; version: of the format, where there are several."""

    def name_in_sql(self, name: str) -> str:
        """The table in statements."""

    def address(self, name: str) -> str:
        """The table as `zskip.table` takes it."""

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        """The engine's own Z-order into files of a size."""

    def read(self, spark: Any, name: str) -> Any:
        """The table through the engine's own reader."""


class Delta:
    conf: ClassVar = common.READERS["delta"]

    def __init__(self, table: Table) -> None:
        self.by, self.key = table.by, table.key

    def create(self, spark: Any, rows: Any, name: str, version: int) -> None:
        rows.write.format("delta").save(self.address(name))

    def name_in_sql(self, name: str) -> str:
        return f"delta.`{self.address(name)}`"

    def address(self, name: str) -> str:
        return str(WAREHOUSE / name)

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        for limit in ("max", "min"):
            spark.conf.set(f"spark.databricks.delta.optimize.{limit}FileSize", str(file_bytes))
        spark.sql(f"OPTIMIZE {self.name_in_sql(name)} ZORDER BY ({', '.join(self.by)})").collect()

    def read(self, spark: Any, name: str) -> Any:
        return spark.read.format("delta").load(self.address(name))


class Iceberg:
    conf: ClassVar = {**common.READERS["iceberg"], "spark.sql.catalog.local.warehouse": str(WAREHOUSE)}

    def __init__(self, table: Table) -> None:
        self.by, self.key = table.by, table.key

    def create(self, spark: Any, rows: Any, name: str, version: int) -> None:
        writer = rows.writeTo(self.address(name)).using("iceberg").tableProperty("write.delete.mode", "merge-on-read")
        writer = writer.tableProperty("format-version", str(version))
        writer.tableProperty("write.parquet.compression-codec", "zstd").create()

    def name_in_sql(self, name: str) -> str:
        return self.address(name)

    def address(self, name: str) -> str:
        return f"local.db.{name}"

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        options = f"map('rewrite-all', 'true', 'target-file-size-bytes', '{file_bytes}')"
        spark.sql(
            f"CALL local.system.rewrite_data_files(table => 'db.{name}', strategy => 'sort', "
            f"sort_order => 'zorder({', '.join(self.by)})', options => {options})"
        ).collect()

    def read(self, spark: Any, name: str) -> Any:
        return spark.table(self.address(name))

    def delete_keys(self, spark: Any, name: str, percent: int) -> None:
        """Commit an equality delete, which Spark itself never writes, of some values of the key's first column."""
        key, jvm = self.key.split(",")[0], Jvm.of(spark)
        some = self.read(spark, name).where(f"pmod(xxhash64({key}), 100) < {percent}").select(key).distinct()
        keys = [row[0] for row in some.collect()]
        load = jvm.call("org.apache.iceberg.spark.Spark3Util", "loadIcebergTable")
        table = load(spark._jsparkSession, self.address(name))
        number = table.schema().findField(key).fieldId()
        path = WAREHOUSE / "db" / name / "data" / "equality-deletes.parquet"
        field = pa.field(key, pa.int64(), metadata={"PARQUET:field_id": str(number)})
        pq.write_table(pa.table([pa.array(keys, pa.int64())], pa.schema([field])), path)
        builder = jvm.call("org.apache.iceberg.FileMetadata", "deleteFileBuilder")(table.specs().get(0))
        builder = builder.ofEqualityDeletes(jvm.array("int", [number])).withPath(str(path)).withFormat("PARQUET")
        delete = builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(keys)).build()
        table.newRowDelta().addDeletes(delete).commit()
        spark.sql(f"REFRESH TABLE {self.address(name)}")


class Hudi:
    conf: ClassVar = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    }

    def __init__(self, table: Table) -> None:
        self.by, self.key = table.by, table.key

    def create(self, spark: Any, rows: Any, name: str, version: int) -> None:
        options = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.datasource.write.recordkey.field": self.key,
            "hoodie.bulkinsert.sort.mode": "NONE",
            "hoodie.parquet.compression.codec": "zstd",
        }
        rows.write.format("hudi").options(**options).save(self.address(name))

    def name_in_sql(self, name: str) -> str:
        return f"`{name}`"

    def address(self, name: str) -> str:
        return str(WAREHOUSE / name)

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        options = {
            "hoodie.clustering.plan.strategy.target.file.max.bytes": file_bytes,
            "hoodie.clustering.plan.strategy.small.file.limit": 10**10,
            "hoodie.clustering.plan.strategy.max.bytes.per.group": 10**11,
            "hoodie.parquet.max.file.size": file_bytes,
            "hoodie.parquet.compression.codec": "zstd",
        }
        shown = ",".join(f"{key}={value}" for key, value in options.items())
        order = ",".join(self.by)
        spark.sql(
            f"CALL run_clustering(path => '{self.address(name)}', order => '{order}', order_strategy => 'z-order', "
            f'options => "{shown}")'
        ).collect()

    def read(self, spark: Any, name: str) -> Any:
        return spark.read.format("hudi").load(self.address(name))


ENGINES: dict[str, Callable[[Table], Engine]] = {"delta": Delta, "iceberg": Iceberg, "hudi": Hudi}


def main() -> None:
    """Measure, and print the figures."""
    options = common.arguments(
        __doc__ or "",
        engine="delta",
        data="lineitem",
        scale=2.0,
        files=64,
        rounds=3,
        queries=40,
        mixes="",
        deleted=0,
        version=2,
        mapping="none",
        equality=0,
    )
    table = TABLES[options.data]
    engine = ENGINES[options.engine](table)
    jars = common.engine_jars(options.engine)
    if not jars:
        raise SystemExit(f"no jar of {options.engine} in {common.JARS}: run python3 dev.py test-engines")
    shutil.rmtree(WAREHOUSE, ignore_errors=True)
    source = table.make(options.scale)
    spark = common.session(**{"spark.jars": ",".join(jars), **engine.conf})
    if options.deleted:
        spark.conf.set("spark.databricks.delta.properties.defaults.enableDeletionVectors", "true")
    spark.conf.set("spark.databricks.delta.properties.defaults.columnMapping.mode", options.mapping)
    workloads = {"": ([], common.queries(source, table.by, options.queries, options.seed))}
    for one in filter(None, options.mixes.split(",")):
        workloads[f"_{one}"] = mix(source, table, MIXES[one], options.seed)
    times: dict[str, list[float]] = {"copy": [], "engine": [], **{f"zskip{which}": [] for which in workloads}}
    figures: dict[str, Any] = {"machine": common.machine(), "spark": spark.version, "rounds": options.rounds}
    for number in range(options.rounds):
        for who in times:
            name = f"{who}{number}"
            engine.create(spark, spark.read.parquet(str(source)), name, options.version)
            if options.deleted:
                which = f"pmod(xxhash64({table.key}), 100) < {options.deleted}"
                if options.equality and isinstance(engine, Iceberg):
                    engine.delete_keys(spark, name, options.deleted)
                else:
                    spark.sql(f"DELETE FROM {engine.name_in_sql(name)} WHERE {which}")
            size = sum(path.stat().st_size for path in (WAREHOUSE).rglob(f"*{name}/**/*.parquet"))
            run = work(spark, engine, who, name, options, size, workloads)
            with Resources() as used:
                start = time.perf_counter()
                result = run()
                times[who].append(time.perf_counter() - start)
            figures |= used.figures(who)
            if who == "zskip":
                figures |= {"zskip_writer": result.writer, "zskip_writer_reason": result.writer_reason}
            common.log(f"{name}: {times[who][-1]:.1f} s")
    figures |= {f"{who}_s": common.median(took) for who, took in times.items()}
    pairs = zip(times["zskip"], times["engine"], strict=True)
    figures["time_over_engine"] = common.median([ours / theirs for ours, theirs in pairs])
    pairs = zip(times["zskip"], times["copy"], strict=True)
    figures["time_over_copy"] = common.median([ours / copied for ours, copied in pairs])
    for which, (_, tested) in workloads.items():
        figures |= compared(spark, engine, table, which, options.rounds - 1, tested[: options.queries])
    common.emit(figures, options.json)


def compared(spark: Any, engine: Engine, table: Table, which: str, last: int, tested: list[str]) -> dict[str, Any]:
    """What the engine's scan reads of its own table and of zskip's."""
    figures: dict[str, Any] = {}
    found = {
        who: reading(engine.read(spark, f"{who}{last}"), tested, table.summed) for who in ("engine", f"zskip{which}")
    }
    for who, (files, decoded, _) in found.items():
        # Spark does not know the files of Iceberg's scans.
        figures |= {f"{who}_files": files} if files else {}
        figures[f"{who.removesuffix(which)}{which}_rows_decoded_pct"] = round(100 * decoded, 2)
    theirs, ours = found.values()
    figures[f"decoded_over_engine{which}"] = round(ours[1] / theirs[1], 3)
    scans = [zskip.table(spark, engine.address(f"zskip{which}{last}")).prune(where) for where in tested]
    kept = statistics.mean(scan.rows / scan.rows_total for scan in scans)
    figures[f"zskip{which}_rows_in_kept_files_pct"] = round(100 * kept, 2)
    figures[f"zskip{which}_decoded_over_kept"] = round(ours[1] / kept, 3)
    if ours[2] != theirs[2]:
        raise SystemExit("the answers differ")
    return figures


def work(
    spark: Any, engine: Engine, who: str, name: str, options: Any, size: int, workloads: dict[str, Any]
) -> Callable[[], Any]:
    """The call that clusters a table, or copies it."""
    files = options.files
    if who == "copy":
        return lambda: engine.create(spark, engine.read(spark, name), f"{name}_copied", options.version)
    if who == "engine":
        return lambda: engine.cluster(spark, name, int(size / files * 1.01))
    train, _ = workloads[who.removeprefix("zskip")]
    fitted: dict[str, Any] = {"curve": "auto", "workload": train} if train else {}
    return lambda: zskip.table(spark, engine.address(name)).optimize(list(engine.by), files=files, **fitted)


def reading(frame: Any, wanted: list[str], summed: str) -> tuple[int, float, list[Any]]:
    """Files of the table, the mean share of its rows that the engine's scan decodes for a query, and the answers."""
    rows = frame.count()
    decoded, answers = [], []
    for where in wanted:
        query = frame.where(where).selectExpr("count(*)", f"sum({summed})")
        decoded.append(common.decoded_rows(query) / rows)
        answers.append(query.collect())
    return len(set(frame.inputFiles())), statistics.mean(decoded), answers


if __name__ == "__main__":
    main()
