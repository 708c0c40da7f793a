"""What sketches save over the bounds of columns: files and bytes that queries read with and without each.

python bench/queries/sketches.py --scale 1

The generator's comments are made of few words, all of which are in every file, so English words are planted.
"""

from __future__ import annotations

import itertools
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tpch import generated

import zskip
from shared import data, measure, session

RUNS = [
    {"name": "sketches", "title": "What sketches save", "case": "hard",
     "text": "Files and bytes that queries read by the bounds of columns, and then with a sketch, too; the run fails "
     "where a file with a matching row is left out. `bloom`: TPC-H orders clustered by date, 200 single keys. "
     "`ngram`: orders as generated, 63 English words that TPC-H does not use, each planted in the comment of one "
     "order in one or two files. `ranges`: lineitem by key, of which every 20,000th row (`few`: five in a file) or "
     "every 4,000th (`many`: 23, more than eight ranges can tell) lies in another file; half of the queries ask for "
     "one key, half for a thousandth of them. `geo`: places along 64 made-up roads, a file each, and boxes of 2 by 5 "
     "degrees. `mb_saved` is what a query reads less than by bounds, `kb` what the sketches of all files take.",
     "options": "--scale 1",
     "goals": {"bloom_files_read": ("<=", 2), "ngram_files_skipped_pct": (">=", 90),
     "ranges_*_bytes_over_bounds": ("<=", 0.7)}},
]  # fmt: skip

FILES = 64
FILES_OF_COMMENTS = 256
ROAD_ROWS = 20_000
WORDS = """
aardvark abacus apricot avocado badger bazaar beehive bicycle biscuit broccoli cactus camera cashmere chimney
cinnamon clarinet cobweb coffee dolphin dragonfly earthquake eclipse elephant fjord giraffe glacier gondola harvest
hazelnut igloo invoice jasmine jigsaw jukebox kayak kiosk labyrinth lantern lobster magnet mosquito nutmeg oxygen
papaya penguin piano pyjamas quartz raccoon rhubarb saxophone sphinx subway trumpet tulip umbrella vaccine vinegar
volcano walnut wizard xylophone yoghurt zebra
""".split()  # noqa: SIM905


class Query(NamedTuple):
    """A predicate, and the files that hold a row it is true for."""

    where: str
    files: frozenset[int]


class Data(NamedTuple):
    """A table to ask."""

    path: Path
    queries: Sequence[Query]


def main() -> None:
    """Measure, and print the figures."""
    options = measure.arguments(__doc__ or "", scale=1.0, queries=200)
    rng = np.random.default_rng(options.seed)
    spark = session.start()
    source = generated(options.scale)
    orders, lineitem = (read(source / name) for name in ("orders", "lineitem"))
    makers: dict[str, tuple[str, Callable[[], Data]]] = {
        "bloom": ("bloom(0.01):o_orderkey", lambda: by_date(orders, options.queries, rng)),
        "ngram": ("ngram(3):o_comment", lambda: commented(orders, rng)),
        "ranges_few": ("ranges(8):l_orderkey", lambda: with_outliers(lineitem, 20_000, options.queries, rng)),
        "ranges_many": ("ranges(8):l_orderkey", lambda: with_outliers(lineitem, 4_000, options.queries, rng)),
        "geo": ("geo(64):lat, lon", lambda: along_roads(options.queries, rng)),
    }
    figures: dict[str, Any] = {}
    for name, (sketch, make) in makers.items():
        measure.log(f"{name}: {sketch}")
        figures[name] = saved(spark, make(), sketch)
    measure.emit(figures, options.json)


def saved(spark: Any, data: Data, sketch: str) -> dict[str, Any]:
    """Files and megabytes that queries read by bounds alone, and then with a sketch."""
    table = zskip.table(spark, str(data.path))
    table.index()
    old_files, old_bytes = asked(data)
    took = measure.seconds(lambda: table.index(sketches=[sketch]))
    files, size = asked(data)
    info = table.info().index
    assert info is not None, "it was just written"
    [made] = info.sketches
    shutil.rmtree(data.path)
    return {
        "sketch": sketch,
        "queries": len(data.queries),
        "files": info.files,
        "files_read_by_bounds": round(old_files, 2),
        "files_read": round(files, 2),
        "files_with_a_match": round(float(np.mean([len(query.files) for query in data.queries])), 2),
        "files_skipped_pct": round(100 * (1 - files / info.files), 1),
        "bytes_over_bounds": round(size / old_bytes, 3),
        "mb_saved": round((old_bytes - size) / 1e6, 2),
        "kb": round(made.bytes / 1e3, 1),
        "kb_a_file": round(made.bytes / info.files / 1e3, 2),
        "left_out": made.left_out,
        "build_s": round(took, 1),
    }


def asked(data: Data) -> tuple[float, float]:
    """Files and bytes that a query reads on average; ends the run where one misses a row."""
    table, files, size = zskip.open(str(data.path)), 0, 0
    for query in data.queries:
        kept = [Path(file) for file in table.files(query.where)]
        numbers = {int(file.stem.removeprefix("part-")) for file in kept}
        if not query.files <= numbers:
            raise SystemExit(f"{query.where} leaves out files with rows: {sorted(query.files - numbers)}")
        files += len(kept)
        size += sum(file.stat().st_size for file in kept)
    return files / len(data.queries), size / len(data.queries)


def read(directory: Path) -> pa.Table:
    """A table of TPC-H in the order of its generator."""
    return data.read_whole(sorted(directory.iterdir(), key=lambda path: int(path.name.split(".")[1]))).combine_chunks()


def write(name: str, tables: Sequence[pa.Table]) -> Path:
    """A directory with one file for each."""
    path = data.emptied(data.HOME / "out" / f"sketches-{name}")
    for i, table in enumerate(tables):
        pq.write_table(table, path / f"part-{i:05d}.parquet", compression="zstd")
    return path


def split(table: pa.Table, files: int) -> list[pa.Table]:
    """Parts of as many rows, one after another."""
    ends = [table.num_rows * i // files for i in range(files + 1)]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(ends)]


def holders(tables: Sequence[pa.Table], column: str) -> Callable[[int, int], frozenset[int]]:
    """Which of the files hold a number between two."""
    held = [np.sort(table[column].to_numpy()) for table in tables]

    def found(low: int, high: int) -> frozenset[int]:
        return frozenset(i for i, v in enumerate(held) if np.searchsorted(v, low) < np.searchsorted(v, high, "right"))

    return found


def by_date(orders: pa.Table, count: int, rng: np.random.Generator) -> Data:
    """Orders clustered by their dates, asked for keys."""
    tables = split(orders.sort_by([("o_orderdate", "ascending"), ("o_custkey", "ascending")]), FILES)
    held = holders(tables, "o_orderkey")
    keys = rng.choice(orders["o_orderkey"].to_numpy(), count).tolist()
    return Data(write("bloom", tables), [Query(f"o_orderkey = {key}", held(key, key)) for key in keys])


def commented(orders: pa.Table, rng: np.random.Generator) -> Data:
    """Orders with some rare words in their comments, asked for those."""
    texts = orders["o_comment"]
    used = {word for word in WORDS if pc.any(pc.match_substring(texts, word)).as_py()}
    comments, place = texts.to_pylist(), orders.schema.get_field_index("o_comment")
    files = {word: rng.choice(FILES_OF_COMMENTS, 1 + i % 2, replace=False) for i, word in enumerate(WORDS)}
    rows = len(comments) // FILES_OF_COMMENTS
    for word, chosen in files.items():
        for file in chosen.tolist():
            row = file * len(comments) // FILES_OF_COMMENTS + int(rng.integers(0, rows))
            comments[row] += f" {word}"
    tables = split(orders.set_column(place, "o_comment", pa.array(comments, pa.string())), FILES_OF_COMMENTS)
    asked_for = [word for word in WORDS if word not in used]
    queries = [Query(f"o_comment LIKE '%{word}%'", frozenset(files[word].tolist())) for word in asked_for]
    return Data(write("ngram", tables), queries)


def with_outliers(lineitem: pa.Table, every: int, count: int, rng: np.random.Generator) -> Data:
    """Lineitem in the order of its keys, but for some rows that change places with each other."""
    order = np.argsort(lineitem["l_orderkey"].to_numpy(), kind="stable")
    moved = rng.choice(len(order), len(order) // every, replace=False)
    order[np.sort(moved)] = order[moved]
    tables = split(lineitem.take(pa.array(order)), FILES)
    held, keys = holders(tables, "l_orderkey"), lineitem["l_orderkey"].to_numpy()
    queries = []
    for i, low in enumerate(rng.choice(keys, count).tolist()):
        high = low if i % 2 else low + int(keys.max()) // 1000
        where = f"l_orderkey = {low}" if low == high else f"l_orderkey BETWEEN {low} AND {high}"
        queries.append(Query(where, held(low, high)))
    return Data(write("ranges", tables), queries)


def along_roads(count: int, rng: np.random.Generator) -> Data:
    """Places along straight roads, asked for boxes."""
    tables = []
    for _ in range(FILES):
        ends = rng.uniform((-60, -170), (60, 170), (2, 2))
        places = ends[0] + rng.random((ROAD_ROWS, 1)) * (ends[1] - ends[0])
        seen = rng.integers(0, 10**9, ROAD_ROWS)
        tables.append(pa.table({"lat": places[:, 0], "lon": places[:, 1], "seen": seen}))
    queries = []
    for _ in range(count):
        south, west = rng.uniform((-60, -170), (58, 165)).round(3).tolist()
        north, east = round(south + 2, 3), round(west + 5, 3)
        where = f"lat BETWEEN {south}D AND {north}D AND lon BETWEEN {west}D AND {east}D"
        box = (
            (pc.field("lat") >= south)
            & (pc.field("lat") <= north)
            & (pc.field("lon") >= west)
            & (pc.field("lon") <= east)
        )
        queries.append(Query(where, frozenset(i for i, table in enumerate(tables) if len(table.filter(box)))))
    return Data(write("geo", tables), queries)


if __name__ == "__main__":
    main()
