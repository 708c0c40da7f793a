"""Cluster events by two fields of a payload: a struct, a JSON text and a VARIANT beside the same fields as columns.

python bench/events.py --rows 5000000 --files 64
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "events", "title": "Events with a payload", "case": "hard",
     "text": "5 million made-up events by a text and a number inside a payload: a struct, a JSON text or a VARIANT, "
     "beside a table with the same fields as columns (`plain`), all in the default Z-order. 100 queries of "
     "equalities and ranges: `kept` is the mean share of rows in files that the index keeps, `decoded` that of rows "
     "that Spark's scan decodes for the first 40 (it skips pages of columns and of fields, not of paths into JSON "
     "and variants). `delta` is Delta's `CLUSTER BY` of the fields of the struct, read by Delta. `identical`: all "
     "answers agree. `tags`: `array_contains` of 100 tags in 256 files of a fifth of the rows: files that "
     "`values(100)` of the elements keeps, over those that hold the tag.",
     "options": "--rows 5000000 --files 64",
     "goals": {"*_kept_over_plain": ("<=", 1.1), "*_decoded_over_plain": ("<=", 1.1),
     "tags_kept_over_holding": ("<=", 1.1), "identical": ("=", True)}},
]  # fmt: skip

FIELDS = """
    SELECT id, timestamp_seconds(1700000000 + id DIV 50) AS ts,
           concat('c', lpad(CAST(CAST(floor(pow(rand({seed}), 2) * 100000) AS INT) AS STRING), 6, '0')) AS customer,
           CAST(floor(rand({other}) * 1000000) AS INT) AS amount
    FROM range(0, {rows}, 1, 16)
"""
NAMES = "named_struct('customer', customer, 'amount', amount, 'note', concat('event ', id))"
KINDS = {
    "plain": (("customer", "amount", "concat('event ', id) AS note"), "customer", "amount"),
    "struct": ((f"{NAMES} AS payload",), "payload.customer", "payload.amount"),
    "json": (
        (f"to_json({NAMES}) AS payload",),
        "get_json_object(payload, '$.customer')",
        "CAST(get_json_object(payload, '$.amount') AS DOUBLE)",
    ),
    "variant": (
        (f"parse_json(to_json({NAMES})) AS payload",),
        "variant_get(payload, '$.customer', 'string')",
        "variant_get(payload, '$.amount', 'int')",
    ),
}
"""How a table holds the fields, and the two keys."""
TAGS = """
    SELECT id, IF(id % 10 = 0, array(), transform(sequence(1, 1 + CAST(id % 3 AS INT)), i ->
               concat('t', CAST(id * {files} DIV {rows} AS INT) * 20 + pmod(hash(id, i), 80)))) AS tags
    FROM range(0, {rows}, 1, {files})
"""
"""Events by time, of which each file holds up to 80 tags, and three of four neighbors hold the same ones."""


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", rows=5_000_000, files=64, queries=100, decoded_queries=40, tag_files=256)
    has_delta = bool(session.engine_jars("delta"))
    conf = session.readers_conf(["delta"], data.HOME) if has_delta else {}
    spark = session.start(**{name.replace(".", "__"): value for name, value in conf.items()})
    kinds = {kind: parts for kind, parts in KINDS.items() if kind != "variant" or spark.version >= "4"}
    source = make_fields(spark, options)
    wanted = conditions(options.queries, options.seed)
    figures: dict[str, Any] = {"rows": options.rows}
    answers: dict[str, list[Any]] = {}
    for kind, (payload, first, second) in kinds.items():
        path = data.HOME / "events" / kind
        shutil.rmtree(path, ignore_errors=True)
        spark.read.parquet(str(source)).selectExpr("id", "ts", *payload).write.parquet(str(path))
        table = zskip.table(spark, str(path))
        table.optimize(by=[first, second], files=options.files)
        texts = [condition.format(customer=first, amount=second) for condition in wanted]
        figures |= {f"{kind}_kept_pct": measure.kept_pct(table, texts)}
        shares, answers[kind] = read(table.df(), texts[: options.decoded_queries], options.rows)
        figures |= {f"{kind}_decoded_pct": shares}
        measure.log(f"{kind}: {figures[f'{kind}_kept_pct']} % kept, {shares} % decoded")
    if has_delta:
        texts = [c.format(customer="payload.customer", amount="payload.amount") for c in wanted]
        frame = delta_table(spark, source, options)
        shares, answers["delta"] = read(frame, texts[: options.decoded_queries], options.rows)
        figures |= {"delta_struct_decoded_pct": shares}
        figures |= {"struct_decoded_over_delta": round(figures["struct_decoded_pct"] / max(shares, 1e-9), 3)}
    for kind in kinds:
        for figure in ("kept", "decoded") if kind != "plain" else ():
            ratio = figures[f"{kind}_{figure}_pct"] / max(figures[f"plain_{figure}_pct"], 1e-9)
            figures[f"{kind}_{figure}_over_plain"] = round(ratio, 3)
    figures |= tags(spark, options)
    figures["identical"] = all(one == answers["plain"] for one in answers.values())
    measure.emit(figures, options.json)


def make_fields(spark: Any, options: Any) -> Path:
    """The events with their fields as columns, made once for each number of rows."""
    path = data.HOME / f"events-{options.rows}"
    if not (path / "_SUCCESS").exists():
        sql = FIELDS.format(rows=options.rows, seed=options.seed, other=options.seed + 1)
        spark.sql(sql).write.mode("overwrite").parquet(str(path))
    return path


def conditions(count: int, seed: int) -> list[str]:
    """Random conditions on the two fields, which are written `{customer}` and `{amount}`."""
    rng = np.random.default_rng(seed)
    result = []
    for i in range(count):
        customer, amount = int(100_000 * rng.random() ** 2), int(rng.integers(0, 980_000))
        equal = f"{{customer}} = 'c{customer:06d}'"
        between = f"{{amount}} BETWEEN {amount} AND {amount + int(rng.integers(100, 20_000))}"
        names = f"{{customer}} >= 'c{customer:06d}' AND {{customer}} < 'c{customer + 3_000:06d}'"
        result.append((equal, between, f"{names} AND {between}")[i % 3])
    return result


def read(frame: Any, texts: list[str], rows: int) -> tuple[float, list[Any]]:
    """Mean share, in percent, of the rows that Spark's scan decodes, and the answers."""
    shares, answers = [], []
    for text in texts:
        query = frame.where(text).selectExpr("count(*)", "sum(id)")
        shares.append(session.decoded_rows(query) / rows)
        answers.append(tuple(query.first()))
    return round(100 * float(np.mean(shares)), 2), answers


def tags(spark: Any, options: Any) -> dict[str, Any]:
    """Files that a sketch keeps for random tags, over those that hold one; answers have to agree."""
    from pyspark.sql import functions as F

    path = data.HOME / "events" / "tags"
    shutil.rmtree(path, ignore_errors=True)
    spark.sql(TAGS.format(rows=options.rows // 5, files=options.tag_files)).write.parquet(str(path))
    table, plain = zskip.table(spark, str(path)), spark.read.parquet(str(path))
    seconds = measure.seconds(lambda: table.index(sketches=["values(100):explode(tags)"]))
    exploded = plain.selectExpr("explode(tags) AS tag", "input_file_name() AS file").groupBy("tag")
    holding = {row.tag: row.files for row in exploded.agg(F.countDistinct("file").alias("files")).collect()}
    chosen = np.random.default_rng(options.seed).choice(sorted(holding), options.queries, replace=False)
    texts = [f"array_contains(tags, '{tag}')" for tag in chosen]
    kept = [len(table.files(text)) for text in texts]
    counts = [[frame.where(text).count() for text in texts[:10]] for frame in (table.df(), plain)]
    if counts[0] != counts[1]:
        raise SystemExit("array_contains has other answers with the sketch")
    return {
        "tags_files": options.tag_files,
        "tags_sketch_s": round(seconds, 1),
        "tags_kept_files": round(float(np.mean(kept)), 2),
        "tags_kept_over_holding": round(sum(kept) / sum(holding[tag] for tag in chosen), 3),
    }


def delta_table(spark: Any, source: Path, options: Any) -> Any:
    """The struct table, clustered by Delta itself into files of the same size."""
    path = data.HOME / "events" / "delta"
    shutil.rmtree(path, ignore_errors=True)
    size = sum(file.stat().st_size for file in (data.HOME / "events" / "struct").rglob("*.parquet")) // options.files
    for setting in ("minFileSize", "maxFileSize"):
        spark.conf.set(f"spark.databricks.delta.optimize.{setting}", str(size))
    payload = "STRUCT<customer: STRING, amount: INT, note: STRING>"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, ts TIMESTAMP, payload {payload}) USING delta "
        "CLUSTER BY (payload.customer, payload.amount)"
    )
    rows = spark.read.parquet(str(source)).selectExpr("id", "ts", *KINDS["struct"][0])
    rows.write.format("delta").mode("append").save(str(path))
    spark.sql(f"OPTIMIZE delta.`{path}` FULL")
    return spark.read.format("delta").load(str(path))


if __name__ == "__main__":
    main()
