"""Both sides of the shuffle of batches, without Spark between them: rows placed, shipped, sorted and written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import typed_tables
from footer_leaves import leaves_of
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, ListType, MapType, NestedField, StringType, StructType, UUIDType

from zskip.errors import StorageError
from zskip.formats.iceberg.values import stored_schema
from zskip.index.collect.footers import NAN_STATISTICS, FooterReader
from zskip.index.collect.trust import judge
from zskip.layout.fit import fit
from zskip.layout.layout import Layout
from zskip.records import Field, Sample
from zskip.spark.forms import curve_form
from zskip.spark.shipping import by_value
from zskip.spark.write.arrow import dividing, placing, sorting, writing
from zskip.spark.write.arrow.access import DiskAccess
from zskip.spark.write.arrow.columns import column_values, has_nan
from zskip.spark.write.arrow.dividing import Group, Joining, arriving, writer
from zskip.spark.write.arrow.job import _FAILURES, Recomputed, _rows_written
from zskip.spark.write.arrow.placing import Placement, placer, row_placer
from zskip.spark.write.arrow.reading import Reader, Source, describe_tasks
from zskip.spark.write.arrow.rows import RowColumns, merger
from zskip.spark.write.arrow.schema import NotArrow, arrow_schema, check_file, same_values
from zskip.spark.write.arrow.sorting import join_sorted, stable_order
from zskip.spark.write.arrow.tasks import group_files, split_into_tasks
from zskip.spark.write.arrow.writing import _ROW_GROUP_BYTES, FileOptions, Origins, write_parquet
from zskip.types import DataType, Form

SEED = 3
BY = {"i": "integer", "s": "string", "f": "double"}


@pytest.fixture
def source(tmp_path: Path) -> pa.Table:
    """Files below `t`, and their rows."""
    table = typed_tables.random_table(np.random.default_rng(SEED))
    typed_tables.write_files(table, tmp_path / "t", np.random.default_rng(SEED))
    return table


def fitted(table: pa.Table, files: int, curve: str = "zorder", build: str = "sample") -> Layout:
    fields = tuple(Field(name=name, type=DataType(kind)) for name, kind in BY.items())
    forms = [column_values(table[f.name].combine_chunks(), f.type) for f in fields]
    sample = Sample(
        fields=fields,
        columns=tuple(values for values, _ in forms),
        nulls=tuple(nulls for _, nulls in forms),
        partition=np.zeros(len(table), np.int32),
        weights=np.ones(len(table)),
    )
    return fit(sample, np.array([files]), partition_rows=np.array([len(table)]), curve=curve, build=build)


def options(path: Path, schema: pa.Schema, **changes: object) -> FileOptions:
    (path / "out").mkdir(exist_ok=True)
    given = {"codec": "zstd", "level": None, "page_rows": 50, "row_bytes": 100.0, "metadata": {"k": "v"}}
    root = str(path)
    return FileOptions(reach=lambda: DiskAccess(root), directory="out", schema=schema, **{**given, **changes})


def sources(path: Path) -> list[Source]:
    return [Source(f"t/{file.name}", file.stat().st_size, 0) for file in sorted((path / "t").iterdir())]


def one_batch(texts: list[str]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"value": texts})


def shipped(path: Path, table: pa.Table, layout: Layout, *, files_a_group: int = 1_000) -> list[pa.RecordBatch]:
    files, root = sources(path), str(path)
    placement = Placement(schema=table.schema, layout=layout, files=layout.file_count, files_a_group=files_a_group)
    reach, tasks = lambda: DiskAccess(root), [files[:5], files[5:]]
    return list(placer(placement, reach, corrected=True)(one_batch(describe_tasks(tasks))))


def written(path: Path, batches: list[pa.RecordBatch], given: FileOptions) -> dict[int, pa.Table]:
    """What the task of the far side writes, which gets the batches of its group, a few at a time."""
    arriving = iter(pa.Table.from_batches(batches).to_batches(max_chunksize=3))
    reports = pa.Table.from_batches(list(writer(given, 1_000)(arriving))).to_pylist()
    for report in reports:
        assert (path / "out" / report["name"]).stat().st_size == report["bytes"]
        assert pq.read_metadata(path / "out" / report["name"]).num_rows == report["rows"]
    assert sorted(f.name for f in (path / "out").iterdir()) == sorted(report["name"] for report in reports)
    return {report["file"]: pq.read_table(path / "out" / report["name"]) for report in reports}


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.drop_columns([n for n in table.column_names if n == "none"]).to_pylist()))


@pytest.mark.parametrize(("curve", "build"), [("zorder", "sample"), ("hilbert", "sample"), ("zorder", "direct")])
def test_each_row_is_in_its_file(tmp_path: Path, source: pa.Table, curve: str, build: str) -> None:
    layout = fitted(source, 7, curve, build)
    tables = written(tmp_path, shipped(tmp_path, source, layout), options(tmp_path, source.schema))
    assert rows(pa.concat_tables(tables.values())) == rows(source)
    for file, table in tables.items():
        assert table.schema.equals(source.schema)
        forms = [column_values(table[f.name].combine_chunks(), f.type) for f in layout.fields]
        columns, nulls = [values for values, _ in forms], [null for _, null in forms]
        ids, keys = layout.place(columns, nulls, 0, np.zeros(len(table), np.uint64))
        assert layout.spread.max() > 1 or set(ids.tolist()) == {file}
        assert (keys[:-1] <= keys[1:]).all()


def test_little_memory_changes_nothing(tmp_path: Path, source: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = fitted(source, 4)
    whole = written(tmp_path, shipped(tmp_path, source, layout), options(tmp_path, source.schema))
    for module, name, value in (
        (placing, "_PENDING_BYTES", 3_000),
        (placing, "_SHIPPED_BYTES", 1_000),
        (placing, "_SENT_BYTES", 500),
        (dividing, "PENDING_BYTES", 2_000),
        (sorting, "_PIECE_BYTES", 700),
    ):
        monkeypatch.setattr(module, name, value)
    for file in (tmp_path / "out").iterdir():
        file.unlink()
    batches = shipped(tmp_path, source, layout)
    assert len(batches) > 50
    boxed = options(tmp_path, source.schema, row_bytes=2e6, page_order=layout.page_order)
    pieces = written(tmp_path, batches, boxed)
    assert {file: rows(table) for file, table in pieces.items()} == {file: rows(table) for file, table in whole.items()}
    name = next(f for f in (tmp_path / "out").iterdir())
    assert pq.read_metadata(name).num_row_groups > 1


def test_pages_are_boxes(tmp_path: Path, source: pa.Table) -> None:
    layout = fitted(source, 2)
    batches = shipped(tmp_path, source, layout)
    assert layout.page_order is not None
    tables = written(tmp_path, batches, options(tmp_path, source.schema, page_rows=20, page_order=layout.page_order))
    assert rows(pa.concat_tables(tables.values())) == rows(source)
    for table in tables.values():
        forms = [column_values(table[f.name].combine_chunks(), f.type) for f in layout.fields]
        keys = layout.keys([values for values, _ in forms], [nulls for _, nulls in forms])
        again = layout.page_order.sort(keys, 20)
        # A page may hold any of the rows that are equal to its last.
        assert np.mean(np.arange(len(again)) // 20 == again // 20) > 0.75
        assert not (keys[:-1] <= keys[1:]).all()
        assert all((np.diff(keys[start : start + 20]) >= 0).all() for start in range(0, len(keys), 20))


def test_row_groups_end_with_a_page(tmp_path: Path, source: pa.Table) -> None:
    assert options(tmp_path, source.schema, page_rows=3_000, row_bytes=10_000.0).group_rows == 12_000
    assert options(tmp_path, source.schema, page_rows=20_000, row_bytes=10_000.0).group_rows == 13_421


def test_tasks_go_to_executors_by_value(tmp_path: Path, source: pa.Table) -> None:
    from pyspark import cloudpickle

    root = str(tmp_path)
    reach = lambda: DiskAccess(root)  # noqa: E731
    layout = fitted(source, 4)
    placement = Placement(schema=source.schema, layout=layout, files=4, files_a_group=1)
    files = options(tmp_path, source.schema, page_order=layout.page_order)
    with by_value():
        place = placer(placement, reach, corrected=True)
        for function in (place, row_placer(placement), writer(files, 1), merger(files, reach, corrected=True)):
            assert b"zskip" in cloudpickle.dumps(function)


def test_an_old_pyarrow_is_refused(tmp_path: Path, source: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    class OldWriter:
        def __init__(self, where: object, schema: pa.Schema, write_page_index: bool = False) -> None: ...

    batches = shipped(tmp_path, source, fitted(source, 1))
    monkeypatch.setattr(pq, "ParquetWriter", OldWriter)
    with pytest.raises(NotArrow, match=f"pyarrow {pa.__version__} has no max_rows_per_page"):
        list(writer(options(tmp_path, source.schema), 1)(iter(batches)))
    with pytest.raises(NotArrow, match="has no max_rows_per_page"):
        shipped(tmp_path, source, fitted(source, 1))


@pytest.mark.parametrize(
    "text",
    [
        "AttributeError: Can't get attribute 'decimal64' on <module 'pyarrow.lib' from '/x/lib.cpython-311.so'>",
        "AttributeError: module 'pyarrow.types' has no attribute 'is_decimal64'",
        "ModuleNotFoundError: No module named 'pyarrow'",
    ],
)
def test_failures_of_executors_with_an_old_pyarrow(text: str) -> None:
    assert next(reason for failure, reason in _FAILURES if failure.search(text)).endswith("too old")


def test_a_batch_for_another_task_is_refused(tmp_path: Path, source: pa.Table) -> None:
    batches = shipped(tmp_path, source, fitted(source, 4), files_a_group=2)
    with pytest.raises(RuntimeError, match="wrong file"):
        list(writer(options(tmp_path, source.schema), 2)(iter(batches)))
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("little_memory", [True, False])
@pytest.mark.parametrize("files_a_group", [1, 3, 5, 24])
def test_groups_are_divided_into_the_files_that_the_layout_names(
    tmp_path: Path, source: pa.Table, monkeypatch: pytest.MonkeyPatch, files_a_group: int, little_memory: bool
) -> None:
    layout = fitted(source, 24)
    if little_memory:
        for module, name, value in ((placing, "_PENDING_BYTES", 3_000), (dividing, "PENDING_BYTES", 4_000)):
            monkeypatch.setattr(module, name, value)
    shuffle = pa.Table.from_batches(shipped(tmp_path, source, layout, files_a_group=files_a_group))
    groups = shuffle["group"].to_numpy()
    files = {}
    for group in np.unique(groups).tolist():
        with Group(source.schema, files_a_group) as one:
            for part in arriving(shuffle.filter(groups == group).to_batches()):
                one.add(part)
            files |= {group * files_a_group + file: rows(table) for file, table in one.tables(stable_order)}
    # The oracle asks the layout for each row alone.
    expected: dict[int, list[pa.Table]] = {}
    for number, name in enumerate(sources(tmp_path)):
        content, task = pq.read_table(tmp_path / name.path), (0, number) if number < 5 else (1, number - 5)
        ties = placing.position_hashes(task[0] << 32 | task[1], 0, len(content))
        for i in range(len(content)):
            row = content.slice(i, 1).combine_chunks()
            forms = [column_values(row[f.name].combine_chunks(), f.type) for f in layout.fields]
            placed, _ = layout.place([v for v, _ in forms], [n for _, n in forms], 0, ties[i : i + 1])
            expected.setdefault(int(placed[0]), []).append(row)
    assert files == {file: rows(pa.concat_tables(parts)) for file, parts in expected.items()}


@pytest.mark.parametrize("partitioned", [True, False])
def test_rows_of_a_dataframe_go_where_those_of_files_go(tmp_path: Path, source: pa.Table, partitioned: bool) -> None:
    layout = None if partitioned else fitted(source, 6)
    placement = Placement(schema=source.schema, layout=layout, files=6, files_a_group=4)
    random = np.random.default_rng(4)
    of_row = random.integers(0, 6 if partitioned else 1, len(source)).astype(np.int32)
    ties = random.integers(0, 1 << 62, len(source))
    wide = [
        f.with_type(pa.decimal128(f.type.precision, f.type.scale)) if pa.types.is_decimal64(f.type) else f
        for f in source.schema
    ]
    rows_of_spark = (
        source.cast(pa.schema(wide)).append_column("of", pa.array(of_row)).append_column("t", pa.array(ties))
    )
    shuffle = pa.Table.from_batches(list(row_placer(placement)(rows_of_spark.to_batches(max_chunksize=37))))
    files = {}
    for group in (0, 1):
        with Group(source.schema, 4) as one:
            for part in arriving(shuffle.filter(shuffle["group"].to_numpy() == group).to_batches()):
                one.add(part)
            files |= {group * 4 + file: rows(table) for file, table in one.tables(stable_order)}
    expected = of_row
    if layout is not None:
        forms = [column_values(source[f.name].combine_chunks(), f.type) for f in layout.fields]
        expected, _ = layout.place([v for v, _ in forms], [n for _, n in forms], 0, ties.astype(np.uint64))
    assert files == {f: rows(source.filter(expected == f)) for f in np.unique(expected).tolist()}


def test_rows_of_two_runs_of_a_task_are_found(tmp_path: Path, source: pa.Table) -> None:
    placement = Placement(schema=source.schema, layout=None, files=2, files_a_group=1)
    wide = [
        f.with_type(pa.decimal128(f.type.precision, f.type.scale)) if pa.types.is_decimal64(f.type) else f
        for f in source.schema
    ]
    of_row = pa.array(np.arange(len(source)) % 2, pa.int32())
    given = source.cast(pa.schema(wide)).append_column("of", of_row).append_column("t", of_row.cast(pa.int64()))
    runs = [pa.Table.from_batches(list(row_placer(placement)(given.to_batches()))) for _ in range(2)]
    write = writer(options(tmp_path, source.schema), 1, Joining(np.array([0, 2]), np.zeros(1, np.int64), 1e9))
    for mixed in (False, True):
        halves = [run.filter(run["group"].to_numpy() == i) for i, run in enumerate(runs if mixed else runs[:1] * 2)]
        reports = pa.Table.from_batches(list(write(pa.concat_tables(halves).to_batches())))
        if not mixed:
            assert _rows_written(reports).rows == len(source) == sum(reports["rows"].to_pylist())
            continue
        with pytest.raises(Recomputed):
            _rows_written(reports)


def test_a_task_ships_to_few_groups_and_each_task_writes_enough() -> None:
    for files in (1, 7, 64, 2_000, 8_000, 32_000):
        for size in (10_000, 3 << 20, 128 << 20):
            for cores in (1, 16, 400):
                group = group_files(files, files * size, cores)
                assert 1 <= group <= files
                assert -(-files // group) <= max(96, cores)
                assert group == 1 or -(-files // (group - 1)) > 96 or group * size <= 64 << 20 or files * size < 8 << 20


def test_the_same_input_gives_the_same_batches(tmp_path: Path, source: pa.Table) -> None:
    layout = fitted(source, 4)
    one, other = (pa.Table.from_batches(shipped(tmp_path, source, layout)) for _ in range(2))
    assert one.equals(other)


def test_files_are_merged_in_their_order(tmp_path: Path, source: pa.Table) -> None:
    files, root = sources(tmp_path), str(tmp_path)
    bins = [files[6:], files[:6]]
    merge = merger(options(tmp_path, source.schema), lambda: DiskAccess(root), corrected=True)
    reports = (
        pa.Table.from_batches(list(merge(one_batch(describe_tasks(bins)))))
        .sort_by([("file", "descending")])
        .to_pylist()
    )
    assert [report["file"] for report in reports] == [1, 0]
    tables = [pq.read_table(tmp_path / "out" / report["name"]) for report in reports]
    assert list(map(repr, pa.concat_tables(tables).to_pylist())) == list(map(repr, source.to_pylist()))


def test_parts_of_a_file_are_the_file(tmp_path: Path, source: pa.Table) -> None:
    pq.write_table(source, tmp_path / "one.parquet", row_group_size=37)
    size = (tmp_path / "one.parquet").stat().st_size
    reader = Reader(DiskAccess(str(tmp_path)), source.schema, corrected=True)
    for parts in (1, 2, 3, 50):
        batches = [b for part in range(parts) for b in reader.batches(Source("one.parquet", size, 0, part, parts))]
        assert list(map(repr, pa.Table.from_batches(batches).to_pylist())) == list(map(repr, source.to_pylist()))


@pytest.mark.parametrize(
    "stored",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.uint16(), pa.large_string()),
    ],
    ids=str,
)
def test_texts_of_few_values_keep_dictionaries(tmp_path: Path, stored: pa.DataType) -> None:
    texts = [None if i % 7 == 3 else "abc"[i % 3] for i in range(6_000)]
    distinct = [np.random.default_rng(i).bytes(20).hex() for i in range(6_000)]
    rows = pa.table({"s": pa.array(texts).cast(stored), "t": pa.array(distinct).cast(pa.string())})
    pq.write_table(rows, tmp_path / "0.parquet", row_group_size=2_000)
    schema = pa.schema([("s", pa.string()), ("t", pa.string())])
    reader = Reader(DiskAccess(str(tmp_path)), schema, corrected=True)
    batches = list(reader.batches(Source("0.parquet", (tmp_path / "0.parquet").stat().st_size, 0)))
    assert len(batches) == 3
    assert all(batch.schema.types == [pa.dictionary(pa.int32(), pa.string()), pa.string()] for batch in batches)
    table = join_sorted(batches, schema, stable_order)
    assert [table["s"].to_pylist(), table["t"].to_pylist()] == [texts, distinct]


def test_texts_of_few_values_get_dictionaries_from_a_dataframe() -> None:
    schema = pa.schema([("few", pa.string()), ("many", pa.string()), ("later", pa.binary())])
    columns = RowColumns(schema)
    all_rows = []
    for number in range(4):
        few = [None if i % 7 == 3 else "abc"[i % 3] for i in range(3_000)]
        many = [f"{i * 7919 % 3000}-{number}" for i in range(3_000)]
        later = [b"x" if number < 2 else f"{i}".encode() for i in range(3_000)]
        batch = pa.RecordBatch.from_arrays([pa.array(few), pa.array(many), pa.array(later)], schema.names)
        converted = columns.convert(batch)
        is_dictionary = [pa.types.is_dictionary(kind) for kind in converted.schema.types]
        assert is_dictionary == [True, False, number < 2]
        assert converted.to_pylist() == batch.to_pylist()
        all_rows.append(converted)
    joined = join_sorted(list(all_rows), schema, stable_order)
    assert joined.to_pylist() == [row for batch in all_rows for row in batch.to_pylist()]
    assert [pa.types.is_dictionary(kind) for kind in joined.schema.types] == [True, False, False]


@pytest.mark.parametrize("nulls", [True, False])
def test_dictionaries_are_written_with_their_statistics(tmp_path: Path, nulls: bool) -> None:
    kinds = [None if nulls and i % 11 == 0 else f"kind {i * i % 6000 // 1000}" for i in range(24_000)]
    table = pa.table({"i": pa.array(range(24_000), pa.int32()), "s": kinds, "f": pa.nulls(24_000, pa.float64())})
    (tmp_path / "t").mkdir()
    for number in range(2):
        pq.write_table(table.slice(12_000 * number, 12_000), tmp_path / "t" / f"{number}.parquet")
    layout, root = fitted(table, 5), str(tmp_path)
    placement = Placement(schema=table.schema, layout=layout, files=layout.file_count, files_a_group=1_000)
    place = placer(placement, lambda: DiskAccess(root), corrected=True)
    new = options(tmp_path, table.schema, page_rows=500, row_bytes=float(_ROW_GROUP_BYTES // 2_000))
    tables = written(tmp_path, list(place(one_batch(describe_tasks([[source] for source in sources(tmp_path)])))), new)
    assert rows(pa.concat_tables(tables.values())) == rows(table)
    for path in (tmp_path / "out").iterdir():
        file = pq.ParquetFile(path, read_dictionary=["s"])
        for group in range(file.num_row_groups):
            chunk, texts = file.metadata.row_group(group).column(1), file.read_row_group(group)["s"]
            ends = pc.min_max(texts.cast(pa.string())).as_py()
            assert (chunk.statistics.min, chunk.statistics.max) == (ends["min"], ends["max"])
            assert chunk.statistics.null_count == texts.null_count
            assert chunk.has_column_index
            assert chunk.has_offset_index
            assert chunk.dictionary_page_offset is not None
        used = set(file.read()["s"].to_pylist()) - {None}
        assert all(set(part.dictionary.to_pylist()) <= used for part in file.read()["s"].chunks)


def test_ids_of_old_files_are_left_behind(tmp_path: Path) -> None:
    with_id = pa.field("v", pa.int32(), metadata={"PARQUET:field_id": "7"})
    rows = pa.table({"u": pa.array([{"v": 1}], pa.struct([with_id])), "i": [1]})
    (tmp_path / "t").mkdir()
    pq.write_table(rows, tmp_path / "t" / "0.parquet")
    schema = pa.schema([("u", pa.struct([("v", pa.int32())])), ("i", pa.int64())])
    root = str(tmp_path)
    one = [sources(tmp_path)]
    list(merger(options(tmp_path, schema), lambda: DiskAccess(root), corrected=True)(one_batch(describe_tasks(one))))
    (path,) = (tmp_path / "out").iterdir()
    assert "field_id=7" in str(pq.ParquetFile(tmp_path / "t" / "0.parquet").schema)
    assert "field_id=7" not in str(pq.ParquetFile(path).schema)


def test_nan_is_seen_wherever_it_is() -> None:
    nan = float("nan")
    assert has_nan(pa.array([1.0, None, nan]))
    assert has_nan(pa.array([[1.0], [nan]]))
    assert has_nan(pa.array([{"x": [{"y": nan}]}]))
    assert has_nan(pa.array([[("a", nan)]], pa.map_(pa.string(), pa.float32())))
    assert not has_nan(pa.array([1.0, None, float("inf")]))
    assert not has_nan(pa.array([[1], None]))


@pytest.mark.parametrize("row_bytes", [1.0, 64 << 20], ids=["one row group", "three"])
def test_a_column_with_nan_has_its_statistics_in_the_metadata_and_the_others_are_trusted(
    tmp_path: Path, row_bytes: float
) -> None:
    table = pa.table({"i": [1, 2, 3], "s": ["a", "b", "c"], "f": [1.0, None, float("nan")], "g": [1.0, 2.0, None]})
    (tmp_path / "t").mkdir()
    pq.write_table(table, tmp_path / "t" / "0.parquet")
    pq.write_table(table, tmp_path / "t" / "1.parquet")
    given = options(tmp_path, table.schema, metadata={"org.apache.spark.version": "4.1.4"}, row_bytes=row_bytes)
    one = [sources(tmp_path)]
    root = str(tmp_path)
    list(merger(given, lambda: DiskAccess(root), corrected=True)(one_batch(describe_tasks(one))))
    (path,) = (tmp_path / "out").iterdir()
    metadata = pq.read_metadata(path)
    group = metadata.row_group(0)
    bounded = [group.column(i).statistics is not None for i in range(4)]
    assert bounded == [True, True, False, True]
    assert judge(b"", 4, metadata.created_by, metadata.metadata).nan_in_bounds
    with path.open("rb") as stream:
        footer = FooterReader().read(stream, path.stat().st_size, row_groups=True)
    assert len(footer.row_groups) == (1 if row_bytes == 1.0 else 3)
    statistics = [(leaf.nulls, leaf.nans, leaf.lower, leaf.upper) for leaf in leaves_of(footer)]
    assert statistics == [(0, -1, 1, 3), (0, -1, b"a", b"c"), (2, 2, 1.0, 1.0), (2, 0, 1.0, 2.0)]
    assert sum(group.leaves.nulls[2] for group in footer.row_groups) == 2
    assert sum(group.leaves.nans[2] for group in footer.row_groups) == 2
    copied = pa.BufferOutputStream()
    pq.write_table(pq.read_table(path).slice(0, 2), copied, write_statistics=False)
    content = copied.getvalue()
    assert NAN_STATISTICS in (pq.read_metadata(pa.BufferReader(content)).metadata or {})
    assert leaves_of(FooterReader().read(pa.BufferReader(content), content.size)) == []


@pytest.mark.parametrize(
    ("stored", "wanted", "same"),
    [
        (pa.list_(pa.field("item", pa.int32(), nullable=False)), pa.list_(pa.field("element", pa.int32())), True),
        (pa.large_string(), pa.string(), True),
        (pa.dictionary(pa.int8(), pa.string()), pa.string(), True),
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us", "UTC"), True),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), False),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), False),
        (pa.int32(), pa.int64(), False),
        (pa.uint32(), pa.int64(), False),
        (pa.binary(), pa.string(), False),
        (pa.binary(16), pa.binary(), False),
        (pa.decimal128(9, 2), pa.decimal128(10, 2), False),
        (pa.struct([("a", pa.int32()), ("b", pa.int32())]), pa.struct([("b", pa.int32()), ("a", pa.int32())]), False),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int32()), ("b", pa.int32())]), False),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64()), False),
    ],
)
def test_types_that_keep_every_value(stored: pa.DataType, wanted: pa.DataType, same: bool) -> None:
    assert same_values(stored, wanted) == same


@pytest.mark.parametrize(
    ("table", "keys", "corrected", "reason"),
    [
        (pa.table({"a": [1]}), {}, True, ""),
        (pa.table({"b": [1]}), {}, True, 'no column "a"'),
        (pa.table({"a": pa.array([1], pa.int32())}), {}, True, "is stored as int32"),
        (pa.table([[1], [2]], ["a", "a"]), {}, True, "same name"),
        (pa.table({"a": [1]}), {"org.apache.spark.version": "2.4.8"}, True, "old calendar"),
        (
            pa.table({"a": [1]}),
            {"org.apache.spark.version": "4.0.0", "org.apache.spark.legacyDateTime": ""},
            True,
            "old calendar",
        ),
        (pa.table({"a": [1]}), {}, False, ""),
    ],
)
def test_files_that_spark_reads_otherwise(
    tmp_path: Path, table: pa.Table, keys: dict[str, str], corrected: bool, reason: str
) -> None:
    pq.write_table(table.replace_schema_metadata(keys), tmp_path / "t.parquet")
    wanted = pa.schema([("a", pa.int64())])
    if not reason:
        check_file(pq.read_metadata(tmp_path / "t.parquet"), wanted, corrected=corrected)
        return
    with pytest.raises(NotArrow, match=reason):
        check_file(pq.read_metadata(tmp_path / "t.parquet"), wanted, corrected=corrected)


def test_days_without_a_calendar(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1], pa.date32())})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(NotArrow, match="by which calendar"):
        check_file(pq.read_metadata(tmp_path / "t.parquet"), table.schema, corrected=False)


@pytest.mark.parametrize(
    ("writer", "version", "reason"),
    [
        ("parquet-cpp-arrow version", "4.1.0", "Spark did not write"),
        ("parquet-mr version 1.15.2", None, "Spark did not write"),
        ("parquet-mr version 1.10.1", "3.0.3", "old calendar"),
        ("parquet-mr version 1.15.2", "4.1.0", None),
    ],
)
def test_int96_of_other_writers_is_not_for_arrow(
    tmp_path: Path, writer: str, version: str | None, reason: str | None
) -> None:
    table = pa.table({"a": pa.array([-1, None, 10**15 + 1], pa.timestamp("us", "UTC"))})
    metadata = {} if version is None else {"org.apache.spark.version": version}
    path = tmp_path / "t.parquet"
    pq.write_table(table.replace_schema_metadata(metadata), path, use_deprecated_int96_timestamps=True)
    path.write_bytes(path.read_bytes().replace(b"parquet-cpp-arrow version", writer.encode()))
    reader = Reader(DiskAccess(str(tmp_path)), table.schema, corrected=True)
    source = Source("t.parquet", path.stat().st_size, 0)
    if reason is None:
        assert pa.Table.from_batches(reader.batches(source)).equals(table)
    else:
        with pytest.raises(NotArrow, match=reason):
            list(reader.batches(source))


def test_a_damaged_file_is_left_to_spark(tmp_path: Path, source: pa.Table) -> None:
    path = tmp_path / "t" / "005.parquet"
    data = path.read_bytes()
    reader = Reader(DiskAccess(str(tmp_path)), source.schema, corrected=True)
    for content in (data[: len(data) // 2], b"", data[:4] + bytes(len(data) // 2) + data[len(data) // 2 + 4 :]):
        path.write_bytes(content)
        with pytest.raises(NotArrow):
            list(reader.batches(Source("t/005.parquet", len(content), 0)))
    path.unlink()
    with pytest.raises(NotArrow, match="005"):
        list(reader.batches(Source("t/005.parquet", len(data), 0)))


def test_a_full_disk_leaves_no_file(tmp_path: Path, source: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = shipped(tmp_path, source, fitted(source, 1))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DiskAccess, "publish", full)
    with pytest.raises(OSError, match="No space"):
        list(writer(options(tmp_path, source.schema), 1_000)(iter(batches)))
    assert not list((tmp_path / "out").iterdir())


def test_a_storage_that_executors_do_not_reach_is_left_to_spark(
    tmp_path: Path, source: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = shipped(tmp_path, source, fitted(source, 1))

    def refuse(*_: object) -> None:
        raise StorageError("no such role")

    monkeypatch.setattr(DiskAccess, "publish", refuse)
    with pytest.raises(NotArrow, match="cannot write to its storage: no such role"):
        list(writer(options(tmp_path, source.schema), 1_000)(iter(batches)))
    monkeypatch.setattr(DiskAccess, "open", refuse)
    with pytest.raises(NotArrow, match="no such role"):
        list(Reader(DiskAccess(str(tmp_path)), source.schema, corrected=True).batches(Source("t/001.parquet", 9, 0)))


def test_forms_are_those_of_the_types(source: pa.Table) -> None:
    kinds = {"h": "short", "l": "long", "g": "float", "d": "date", "t": "timestamp", "n": "timestamp_ntz"}
    more = {"m": "decimal(9,2)", "w": "decimal(30,1)", "b": "boolean", "y": "binary", "x": "binary", **BY, **kinds}
    for name, kind in more.items():
        column = source[name].combine_chunks()
        for part in (column, column.slice(7, 100)):
            values, nulls = column_values(part, DataType(kind))
            expected = {Form.INT: np.int64, Form.FLOAT: np.float64, Form.BYTES: object}[curve_form(DataType(kind))]
            assert values.dtype == expected, name
            assert nulls.tolist() == part.is_null().to_pylist()
            first = next(i for i, null in enumerate(nulls) if not null)
            assert values[first] == values[first] or name in ("f", "g")
    decimal = source["m"].combine_chunks()
    values, nulls = column_values(decimal, DataType("decimal(9,2)"))
    assert [v for v, n in zip(values.tolist(), nulls, strict=True) if not n] == [
        int(v.scaleb(2)) for v in decimal.to_pylist() if v is not None
    ]


def test_tasks_hold_every_part_once(tmp_path: Path) -> None:
    from zskip.records import Partition, ReadableFiles, Snapshot

    random = np.random.default_rng(5)
    for least in (1, 8):
        sizes = np.concatenate([random.integers(1, 1000, 200), random.integers(1 << 20, 1 << 30, 20)])
        snapshot = Snapshot(
            root="/t",
            version=0,
            fields=(),
            partition_fields=(),
            partitions=(Partition(directory=""),),
            paths=tuple(f"{i:04}" for i in range(len(sizes))),
            sizes=sizes.astype(np.int64),
            mtimes_ms=np.zeros(len(sizes), np.int64),
            partition_of=np.zeros(len(sizes), np.int32),
        )
        tasks = split_into_tasks(snapshot, ReadableFiles(columns=""), least)
        parts = [(s.path, s.part, s.parts) for task in tasks for s in task]
        assert len(tasks) >= least
        assert all(tasks)
        assert len(set(parts)) == len(parts)
        for path in snapshot.paths:
            mine = [(part, of) for name, part, of in parts if name == path]
            assert mine == [(i, len(mine)) for i in range(len(mine))]


def test_types_that_arrow_does_not_hold() -> None:
    with pytest.raises(NotArrow, match='column "v" holds values of type variant'):
        arrow_schema('{"fields": [{"name": "v", "type": "variant", "nullable": true, "metadata": {}}]}')
    nested = '{"type": "array", "elementType": "interval day", "containsNull": true}'
    with pytest.raises(NotArrow, match='column "v" holds values of type interval day'):
        arrow_schema(f'{{"fields": [{{"name": "v", "type": {nested}, "nullable": true, "metadata": {{}}}}]}}')


def test_files_hold_what_iceberg_asks_of_columns_and_their_parts(tmp_path: Path) -> None:
    by_name = MapType(6, StringType(), 7, UUIDType(), value_required=False)
    iceberg = Schema(
        NestedField(1, "u", UUIDType()),
        NestedField(2, "f", FixedType(4)),
        NestedField(3, "l", ListType(4, StructType(NestedField(5, "m", by_name)), element_required=False)),
    )
    schema = arrow_schema(stored_schema(iceberg))
    uuids = [b"%016d" % (i % 7) for i in range(1_000)]
    rows = pa.record_batch(
        {"a": uuids, "b": [u[-4:] for u in uuids], "c": [[{"m": [("k", u)]}] for u in uuids]},
        pa.schema([("a", pa.binary()), ("b", pa.binary()), ("c", pa.list_(nested(pa.map_(pa.string(), pa.binary()))))]),
    )
    (tmp_path / "staged").mkdir()
    options = FileOptions(
        reach=lambda: DiskAccess(str(tmp_path)),
        directory="staged",
        schema=schema,
        codec="zstd",
        level=None,
        page_rows=100,
        row_bytes=50.0,
        metadata={},
    )
    table = join_sorted([RowColumns(schema).convert(rows)], schema, options.sort)
    nothing = Origins(0, np.zeros(0, np.int64))
    written = write_parquet(options, options.reach(), 0, table, nothing).to_pylist()[0]
    path = tmp_path / "staged" / written["name"]
    assert pyarrow_to_schema(pq.read_schema(path)) == iceberg
    assert [u.bytes for u in pq.read_table(path)["u"].to_pylist()] == uuids


def nested(kind: pa.DataType) -> pa.DataType:
    return pa.struct([("m", kind)])


def test_texts_that_one_array_cannot_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = pa.table({"s": pa.array([f"text {i % 3}" if i % 50 else None for i in range(1_000)]).dictionary_encode()})
    real = writing.plain

    def plain(column: pa.DictionaryArray) -> pa.Array:
        decoded = real(column)
        if decoded.nbytes > 3_000:
            raise pa.ArrowInvalid("Take operation overflowed binary array capacity")
        return decoded

    monkeypatch.setattr(writing, "plain", plain)
    monkeypatch.setattr(writing, "_TEXT_BYTES", 1_000)
    given = options(tmp_path, pa.schema([("s", pa.string())]))
    report = writing.write_parquet(given, given.reach(), 0, texts, Origins(1_000, np.zeros(0, np.int64)))
    assert pq.read_table(tmp_path / "out" / report["name"][0].as_py())["s"].to_pylist() == texts["s"].to_pylist()
