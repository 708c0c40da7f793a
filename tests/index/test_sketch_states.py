"""The states of sketches in an index, with what builds them in plain Python."""

from __future__ import annotations

import os
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zskip
from zskip.errors import InputError, ZskipWarning
from zskip.index import Index, refresh, refresh_sketches
from zskip.predicate import Columns, parse
from zskip.sketch import BuiltState, parse_sketch_on
from zskip.sketch.guard import StateBuilder

FIELDS = {"key": "long"}


def write(root, name, *keys):
    pq.write_table(pa.table({"key": pa.array(keys, pa.int64())}), root / name)


def builder(root, calls=None, held="int64", broken=()):
    """Builds states from the files themselves; notes the files of each call."""

    def build(sketches, zones, lacking):
        results = []
        for on, files in zip(sketches, lacking, strict=True):
            places = np.flatnonzero(files).tolist()
            if calls is not None:
                calls.append([build.paths[place] for place in places])
            states = {}
            for place in places:
                builder = StateBuilder(on.sketch, on.type)
                values = pq.read_table(root / build.paths[place])["key"].combine_chunks().cast(held)
                builder.feed(lambda values=values: values)
                states[place] = BuiltState(None, "broken") if build.paths[place] in broken else builder.finish()
            results.append(states)
        return results

    return build


def sketch(storage, snapshot, build, specs=("bloom(0.001):key",), **options):
    index = refresh(storage, snapshot)
    build.paths = snapshot.paths
    add = [parse_sketch_on(spec, Columns(snapshot.fields)) for spec in specs]
    return refresh_sketches(index, snapshot, build, np.ones(len(snapshot), np.bool_), add=add, **options)


def kept(index, snapshot, where):
    result = index.bind(snapshot).prune(parse(where, Columns(snapshot.fields)))
    return {path for path, keep in zip(snapshot.paths, result.kept, strict=True) if keep}


def test_files_whose_names_are_not_utf8_have_no_states(storage, snap, tmp_path):
    write(tmp_path, "a.parquet", 1, 9)
    shutil.copy(tmp_path / "a.parquet", os.fsencode(tmp_path) + b"/bad-\xff.parquet")
    snapshot, calls = snap(storage, FIELDS), []
    with pytest.warns(ZskipWarning, match="not UTF-8"):
        index = sketch(storage, snapshot, builder(tmp_path, calls))
    assert calls == [["a.parquet"]]
    assert kept(index, snapshot, "key = 9") == set(snapshot.paths)
    assert kept(index, snapshot, "key = 5") == {path for path in snapshot.paths if path != "a.parquet"}


def test_what_is_said_of_states(storage, snap, tmp_path):
    for name in "abc":
        write(tmp_path, f"{name}.parquet", 1, 9)
    snapshot = snap(storage, FIELDS)
    index = sketch(storage, snapshot, builder(tmp_path, broken=("b.parquet",)), ("bloom(0.001):key", "values(5):key"))
    bloom, values = index.bind(snapshot).info().sketches
    assert (bloom.spec, bloom.files, bloom.left_out, bloom.reason) == ("bloom(0.001):key", 2, 1, "broken")
    assert (values.files, values.left_out) == (2, 1)
    states = [table["state"].to_pylist() for table in map(pq.read_table, tmp_path.glob("_zskip/index/sketch-*"))]
    assert sorted([bloom.bytes, values.bytes]) == sorted(
        sum(len(s) for s in sketch_states if s is not None) for sketch_states in states
    )
    (tmp_path / "b.parquet").unlink()
    (tmp_path / "c.parquet").unlink()
    bloom, values = index.bind(snap(storage, FIELDS)).info().sketches
    assert (bloom.files, bloom.left_out, bloom.reason) == (1, 0, "")


def test_a_refresh_reads_states_once_and_merges_many_segments(storage, snap, tmp_path, monkeypatch):
    read: Counter[str] = Counter()
    honest = type(storage).read
    monkeypatch.setattr(type(storage), "read", lambda self, path: (read.update([path]), honest(self, path))[1])
    for number in range(12):
        write(tmp_path, f"{number:02}.parquet", 1, 9 + number)
        snapshot, calls = snap(storage, FIELDS), []
        read.clear()
        index = sketch(storage, snapshot, builder(tmp_path, calls))
        assert calls == [[f"{number:02}.parquet"]]
        (record,) = index.manifest.sketches
        assert len(record.segments) <= 8
        if 0 < number < 8:
            assert [count for path, count in read.items() if "/sketch-" in path] == [1] * number
    assert kept(index, snapshot, "key = 20") == {"11.parquet"}
    for number in range(9):
        (tmp_path / f"{number:02}.parquet").unlink()
    snapshot = snap(storage, FIELDS)
    index = sketch(storage, snapshot, builder(tmp_path))
    assert [s.files for record in index.manifest.sketches for s in record.segments] == [3]
    assert kept(index, snapshot, "key = 20") == {"11.parquet"}


@pytest.mark.parametrize("spec", ["bloom(0.001):key", "values(5):key", "ranges(2):key"])
def test_a_state_of_another_type_says_nothing_and_is_built_anew(storage, snap, tmp_path, spec):
    write(tmp_path, "a.parquet", 1, 9)
    index = sketch(storage, snap(storage, FIELDS), builder(tmp_path), (spec,))
    assert kept(index, snap(storage, FIELDS), "key = 9") == {"a.parquet"}
    assert kept(index, snap(storage, FIELDS), "key = 5") == set()
    wider, calls = snap(storage, {"key": "double"}), []
    assert kept(index, wider, "key = 9") == kept(index, wider, "key = 5.0") == {"a.parquet"}
    index = sketch(storage, wider, builder(tmp_path, calls, "double"), (spec,))
    assert calls == [["a.parquet"]]
    assert kept(index, wider, "key = 9") == {"a.parquet"}
    assert kept(index, wider, "key = 5.0") == set()
    assert kept(index, snap(storage, FIELDS), "key = 5") == {"a.parquet"}


def test_states_of_one_time_zone_are_never_taken_for_those_of_another(storage, snap, tmp_path):
    write(tmp_path, "a.parquet", 1, 9)
    snapshot, inner, outer = snap(storage, FIELDS), builder(tmp_path), builder(tmp_path)
    sketched = {"add": [parse_sketch_on("bloom:key", Columns(snapshot.fields))]}
    index, files = refresh(storage, snapshot), np.ones(1, np.bool_)
    inner.paths = outer.paths = snapshot.paths

    def meanwhile(*args):
        refresh_sketches(index, snapshot, inner, files, timezone="Asia/Tokyo", **sketched)
        return outer(*args)

    (record,) = refresh_sketches(index, snapshot, meanwhile, files, timezone="UTC", **sketched).manifest.sketches
    assert (record.timezone, len(record.segments)) == ("Asia/Tokyo", 1)


def test_a_total_budget_leaves_out_the_largest_states(storage, snap, tmp_path):
    for number, distinct in enumerate((3, 400, 9, 200)):
        write(tmp_path, f"{number}.parquet", *range(-1, distinct), 10**6)
    calls, snapshot = [], snap(storage, FIELDS)
    specs = ("values(1000):key", "bloom(0.01):key")
    whole = sketch(storage, snapshot, builder(tmp_path), specs).bind(snapshot).info().sketches
    sizes = sorted(
        len(state)
        for record, on in Index.load(storage).bind(snapshot).sketches.sketches
        for state in Index.load(storage).bind(snapshot).sketches.blobs(record, on)
    )
    assert sum(info.bytes for info in whole) == sum(sizes)
    for room in range(len(sizes) + 1):
        shutil.rmtree(tmp_path / "_zskip")
        budget = sum(sizes[:room]) + 1
        index = sketch(storage, snapshot, builder(tmp_path, calls), specs, total_budget=budget)
        sketches = index.bind(snapshot).info().sketches
        assert sum(info.files for info in sketches) == room
        assert sum(info.left_out for info in sketches) == len(sizes) - room
        assert sum(info.bytes for info in sketches) == budget - 1
        assert all(f"budget of all states is {budget}" in info.reason for info in sketches if info.left_out)
        for number in range(4):
            assert f"{number}.parquet" in kept(index, snapshot, "key = 1")
    calls.clear()
    assert sketch(storage, snapshot, builder(tmp_path, calls), specs).version == index.version
    assert calls == [], "what was left out is not built again"


def test_states_that_are_there_count_in_a_total_budget_and_stay(storage, snap, tmp_path):
    write(tmp_path, "0.parquet", *range(100))
    first = sketch(storage, snap(storage, FIELDS), builder(tmp_path)).bind(snap(storage, FIELDS)).info().sketches[0]
    write(tmp_path, "1.parquet", *range(50))
    snapshot = snap(storage, FIELDS)
    [found] = sketch(storage, snapshot, builder(tmp_path), total_budget=first.bytes).bind(snapshot).info().sketches
    assert (found.files, found.left_out, found.bytes) == (1, 1, first.bytes)
    write(tmp_path, "2.parquet", *range(50))
    snapshot = snap(storage, FIELDS)
    [found] = sketch(storage, snapshot, builder(tmp_path), total_budget=2 * first.bytes).bind(snapshot).info().sketches
    assert (found.files, found.left_out) == (2, 1)


@pytest.mark.parametrize(
    "size", ["", "64 parsecs", "-1", -1, 0, True, "0.1", 1.5e300, "9" * 400, "nan", "1e9", [], b"1"]
)
@pytest.mark.parametrize("name", ["budget", "total_budget"])
def test_sizes_that_are_none_are_refused_before_anything_is_written(tmp_path, name, size):
    write(tmp_path, "0.parquet", 1)
    with pytest.raises(InputError, match=f"^{name}=.* is not a size; write bytes"):
        zskip.open(str(tmp_path)).index(**{name: size})
    assert not (tmp_path / "_zskip").exists()


@pytest.mark.parametrize("size", [1, "1", "64kB", "1.5 GiB", 10**9])
def test_sizes_are_numbers_or_text_with_a_unit(tmp_path, size):
    write(tmp_path, "0.parquet", 1)
    assert zskip.open(str(tmp_path)).index(budget=size, total_budget=size).files == 1


def test_a_sketch_that_is_dropped_and_added_at_once_is_built_anew(storage, snap, tmp_path):
    for number in range(3):
        write(tmp_path, f"{number}.parquet", *range(50 * number + 2))
    calls, snapshot = [], snap(storage, FIELDS)
    tight = sketch(storage, snapshot, builder(tmp_path, calls), total_budget=100).bind(snapshot)
    assert tight.info().sketches[0].left_out > 0
    again = sketch(storage, snapshot, builder(tmp_path, calls), drop=["bloom(0.001):key"]).bind(snapshot)
    assert [(info.files, info.left_out) for info in again.info().sketches] == [(3, 0)]
    assert [len(files) for files in calls] == [3, 3]


@pytest.mark.parametrize("spec", ["values(5):hash(key)", "ranges(1):pmod(xxhash64(key), 7L)"])
def test_hashes_of_numbers_of_another_type_are_others(storage, snap, tmp_path, spec):
    write(tmp_path, "a.parquet", 1, 9)
    narrow, wide, calls = snap(storage, {"key": "integer"}), snap(storage, FIELDS), []
    build = builder(tmp_path, calls, held="int32" if "values" in spec else "int64")
    index = sketch(storage, narrow, build, (spec,))
    assert index.bind(narrow).info().sketches[0].files == 1
    assert index.bind(wide).info().sketches[0].files == 0
    refresh_sketches(index, wide, build, np.ones(1, np.bool_))
    assert len(calls) == 2
