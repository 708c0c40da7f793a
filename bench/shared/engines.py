"""Table formats as their own engines write, cluster and read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from shared.data import Table
from shared.session import READERS
from zskip.spark.jvm.gateway import Jvm


class Engine:
    """A format whose tables lie below a directory."""

    conf: ClassVar[dict[str, str]]

    def __init__(self, home: Path, table: Table) -> None:
        self.home, self.by, self.key = home, list(table.by), table.key

    def path(self, name: str) -> Path:
        """Where a table lies."""
        return self.home / name

    def address(self, name: str) -> str:
        """The table as `zskip.table` takes it."""
        return str(self.path(name))

    def name_in_sql(self, name: str) -> str:
        """The table in statements."""
        return self.address(name)

    def create(self, rows: Any, name: str, version: int = 2) -> None:
        """Write rows as a new table; version: of the format, where there are several."""

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        """The engine's own Z-order into files of a size."""

    def read(self, spark: Any, name: str) -> Any:
        """The table through the engine's own reader."""
        return spark.table(self.name_in_sql(name))


class Delta(Engine):
    conf = READERS["delta"]

    def name_in_sql(self, name: str) -> str:
        return f"delta.`{self.path(name)}`"

    def create(self, rows: Any, name: str, version: int = 2) -> None:
        rows.write.format("delta").save(self.address(name))

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        for limit in ("max", "min"):
            spark.conf.set(f"spark.databricks.delta.optimize.{limit}FileSize", str(file_bytes))
        spark.sql(f"OPTIMIZE {self.name_in_sql(name)} ZORDER BY ({', '.join(self.by)})").collect()


class Iceberg(Engine):
    conf = READERS["iceberg"]

    def path(self, name: str) -> Path:
        return self.home / "db" / name

    def address(self, name: str) -> str:
        return f"local.db.{name}"

    def create(self, rows: Any, name: str, version: int = 2) -> None:
        writer = rows.writeTo(self.address(name)).using("iceberg").tableProperty("write.delete.mode", "merge-on-read")
        writer = writer.tableProperty("format-version", str(version))
        writer.tableProperty("write.parquet.compression-codec", "zstd").create()

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        options = f"map('rewrite-all', 'true', 'target-file-size-bytes', '{file_bytes}')"
        spark.sql(
            f"CALL local.system.rewrite_data_files(table => 'db.{name}', strategy => 'sort', "
            f"sort_order => 'zorder({', '.join(self.by)})', options => {options})"
        ).collect()

    def delete_keys(self, spark: Any, name: str, percent: int) -> None:
        """Commit an equality delete, which Spark itself never writes, of some values of the key's first column."""
        key, jvm = self.key.split(",")[0], Jvm.of(spark)
        some = self.read(spark, name).where(f"pmod(xxhash64({key}), 100) < {percent}").select(key).distinct()
        keys = [row[0] for row in some.collect()]
        load = jvm.call("org.apache.iceberg.spark.Spark3Util", "loadIcebergTable")
        table = load(spark._jsparkSession, self.address(name))
        number = table.schema().findField(key).fieldId()
        path = self.path(name) / "data" / "equality-deletes.parquet"
        field = pa.field(key, pa.int64(), metadata={"PARQUET:field_id": str(number)})
        pq.write_table(pa.table([pa.array(keys, pa.int64())], pa.schema([field])), path)
        builder = jvm.call("org.apache.iceberg.FileMetadata", "deleteFileBuilder")(table.specs().get(0))
        builder = builder.ofEqualityDeletes(jvm.array("int", [number])).withPath(str(path)).withFormat("PARQUET")
        delete = builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(keys)).build()
        table.newRowDelta().addDeletes(delete).commit()
        spark.sql(f"REFRESH TABLE {self.address(name)}")


class Hudi(Engine):
    conf: ClassVar = {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    }

    def name_in_sql(self, name: str) -> str:
        return f"`{name}`"

    def create(self, rows: Any, name: str, version: int = 2) -> None:
        options = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.datasource.write.recordkey.field": self.key,
            "hoodie.bulkinsert.sort.mode": "NONE",
            "hoodie.parquet.compression.codec": "zstd",
        }
        rows.write.format("hudi").options(**options).save(self.address(name))

    def cluster(self, spark: Any, name: str, file_bytes: int) -> None:
        options = {
            "hoodie.clustering.plan.strategy.target.file.max.bytes": file_bytes,
            "hoodie.clustering.plan.strategy.small.file.limit": 10**10,
            "hoodie.clustering.plan.strategy.max.bytes.per.group": 10**11,
            "hoodie.parquet.max.file.size": file_bytes,
            "hoodie.parquet.compression.codec": "zstd",
        }
        texts = ",".join(f"{key}={value}" for key, value in options.items())
        spark.sql(
            f"CALL run_clustering(path => '{self.address(name)}', order => '{','.join(self.by)}', "
            f"order_strategy => 'z-order', options => \"{texts}\")"
        ).collect()

    def read(self, spark: Any, name: str) -> Any:
        return spark.read.format("hudi").load(self.address(name))


ENGINES: dict[str, type[Engine]] = {"delta": Delta, "iceberg": Iceberg, "hudi": Hudi}
