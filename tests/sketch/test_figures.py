"""What sketches save, measured, and that hashes are those of xxHash64."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from states_of_sketches import ask, build_state

from zskip.predicate import Column, Compare, Contains, In
from zskip.sketch import Bloom, Geo, Ngram, Ranges, Sketch, geo_distance, read_states
from zskip.sketch.hashing import hash_bytes, hash_fixed
from zskip.sketch.kinds import geo
from zskip.sketch.kinds.bloom import blocks_for, expected_fpp
from zskip.sketch.kinds.geo import GeoStack, least_distance
from zskip.types import DataType

LONG = Column(("c",), DataType("long"))
TEXT = Column(("c",), DataType("string"))

VECTORS = {
    0: 0xEF46DB3751D8E999,
    1: 0x8A4127811B21E730,
    3: 0xC2A6ACF0D3953850,
    4: 0x5081036A254A1858,
    7: 0xF231211AFA447833,
    8: 0xD111378EB35E60C7,
    12: 0x6C01F012083D4E28,
    31: 0x91E7C2DC915E5B5E,
    32: 0xC7C714F9E9867C47,
    33: 0x9CB6B8928C66E2A7,
    63: 0x48473C8241838712,
    64: 0x552C59A0A598E269,
    100: 0x182AB6E89CC6F7CF,
}
"""XXH64 with seed 0, by the reference implementation, of so many bytes `37 i + length`."""


def near(sketch, latitude, longitude, meters, stack):
    return sketch._answer(geo._near(latitude, longitude, meters, stack), stack)


def within(sketch, box, stack):
    return sketch._answer(geo._inside(box, stack), stack)


def test_hashes_are_those_of_the_reference() -> None:
    texts = [bytes((i * 37 + n) % 256 for i in range(n)) for n in VECTORS]
    random.Random(1).shuffle(texts)
    offsets = np.cumsum([0, *map(len, texts)])
    hashes = hash_bytes(np.frombuffer(b"".join(texts), np.uint8), offsets)
    assert hashes.tolist() == [VECTORS[len(text)] for text in texts]
    assert hash_bytes(np.frombuffer(b"spark", np.uint8), np.array([0, 5])).tolist() == [slow_hash(b"spark")]
    numbers = np.array([0, 1, -1, 2**63 - 1], np.int64)
    assert hash_fixed(numbers).tolist() == [slow_hash(n.tobytes()) for n in numbers]


def slow_hash(text: bytes) -> int:
    """XXH64 of at most 31 bytes, step by step as its specification has it."""
    p1, p2, p3, p4, p5 = (
        11400714785074694791,
        14029467366897019727,
        1609587929392839161,
        9650029242287828579,
        2870177450012600261,
    )
    mask = 2**64 - 1

    def turned(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (64 - bits))) & mask

    total, rest = (p5 + len(text)) & mask, text
    while len(rest) >= 8:
        lane = turned(int.from_bytes(rest[:8], "little") * p2 & mask, 31) * p1 & mask
        total, rest = (turned(total ^ lane, 27) * p1 + p4) & mask, rest[8:]
    if len(rest) >= 4:
        total = (turned(total ^ (int.from_bytes(rest[:4], "little") * p1 & mask), 23) * p2 + p3) & mask
        rest = rest[4:]
    for byte in rest:
        total = turned(total ^ (byte * p5 & mask), 11) * p1 & mask
    total = (total ^ (total >> 33)) * p2 & mask
    total = (total ^ (total >> 29)) * p3 & mask
    return total ^ (total >> 32)


@pytest.mark.parametrize("fpp", [0.1, 0.01, 0.001])
@pytest.mark.parametrize("distinct", [10, 3000, 50_000])
def test_bloom_finds_no_more_by_mistake_than_promised(fpp: float, distinct: int) -> None:
    sketch = Bloom(fpp)
    states = [
        sketch.build(pa.array(np.arange(i * 10**6, i * 10**6 + distinct)), LONG.type)
        for i in range(max(20 if distinct < 100 else 4, 1))
    ]
    stack, rng = sketch.stack(states), np.random.default_rng(1)
    probes = [int(v) for v in rng.integers(10**9, 10**15, 20_000 if distinct < 100 else 40_000)]
    answers = [sketch.might_match(Compare("=", LONG, v), stack) for v in probes[:4000]]
    rate = float(np.mean([answer.may_match for answer in answers if answer is not None]))
    assert len(answers) == 4000
    tolerance = 4 * math.sqrt(fpp / (4000 * len(states)))
    assert rate <= 1.5 * fpp + tolerance
    assert rate <= expected_fpp(blocks_for(distinct, fpp), distinct) * 1.5 + tolerance


def test_bloom_is_sized_by_the_values_of_each_file() -> None:
    sizes = {n: Bloom(0.01).size(Bloom(0.01).build(pa.array(np.arange(n)), LONG.type)) for n in (10, 1000, 100_000)}
    assert sizes[10] < 120
    assert sizes[1000] < 1_400
    assert 8 * sizes[100_000] / 100_000 < 11


def test_bloom_filters_of_different_sizes_are_merged() -> None:
    sketch, rng = Bloom(0.01), np.random.default_rng(2)
    sets = [rng.integers(0, 2**62, n) for n in (3, 40, 500, 7000, 0, 20_000)]
    merged = sketch.merge([sketch.build(pa.array(values), LONG.type) for values in sets])
    stack = sketch.stack([merged])
    for values in sets:
        for value in values[:200].tolist():
            answer = sketch.might_match(Compare("=", LONG, value), stack)
            assert answer is not None
            assert answer.may_match[0]
    absent = [sketch.might_match(Compare("=", LONG, int(v)), stack) for v in rng.integers(2**62, 2**63 - 1, 3000)]
    assert np.mean([answer.may_match[0] for answer in absent if answer]) < 6 * 0.015


def test_bloom_answers_for_keys_that_are_spread_over_all_files() -> None:
    """64 files that hold every 64th key: by their bounds all would be read."""
    sketch = Bloom(0.01)
    keys = np.random.default_rng(3).permutation(64 * 2000)
    states = [sketch.build(pa.array(keys[i::64]), LONG.type) for i in range(64)]
    stack = sketch.stack(states)
    read_files = [sketch.might_match(Compare("=", LONG, k), stack) for k in range(0, 128_000, 640)]
    assert np.mean([answer.may_match.sum() for answer in read_files if answer]) <= 2
    listed = sketch.might_match(In(LONG, (5, 700_000_000)), stack)
    assert listed is not None
    assert listed.may_match.sum() <= 5
    assert listed.reason.startswith("bloom(0.01): ")


def test_ranges_read_less_than_bounds_where_there_are_outliers() -> None:
    rng = np.random.default_rng(4)
    files = []
    for i in range(64):
        values = rng.integers(i * 1000, i * 1000 + 1000, 2000)
        values[:5] = rng.integers(0, 10**6, 5)
        files.append(np.append(values, np.array([-1] * (i % 3 == 0), np.int64)))
    shares = {}
    for k in (1, 8):
        sketch = Ranges(k)
        stack = sketch.stack([sketch.build(pa.array(values), LONG.type) for values in files])
        answers = [sketch.might_match(Compare("=", LONG, int(v)), stack) for v in rng.integers(0, 64_000, 300)]
        shares[k] = float(np.mean([answer.may_match.mean() for answer in answers if answer]))
    assert shares[8] <= 0.2 * shares[1]


def test_a_range_of_values_in_a_gap_is_told() -> None:
    """Each side of a BETWEEN alone has values in every file."""
    sketch = Ranges(4)
    files = [np.concatenate([np.arange(i, i + 50), np.arange(i + 1000, i + 1050)]) for i in range(0, 500, 50)]
    states = read_states(sketch, [build_state(sketch, [pa.array(file)], LONG.type).data for file in files])
    answer = ask(sketch, [Compare(">=", LONG, 60), Compare("<=", LONG, 70)], [LONG], states, 10)
    assert answer is not None
    assert answer.may_match.tolist() == [False, True] + [False] * 8


def test_ranges_need_little_memory_for_many_batches() -> None:
    sketch, state, rng = Ranges(4), None, np.random.default_rng(5)
    for i in range(50):
        state = sketch.add(state, pa.array(rng.integers(i % 4 * 10**6, i % 4 * 10**6 + 1000, 5000)), LONG.type)
        assert len(state.arrays[0]) <= 4 * 64
    lows, highs = sketch.finish(state).arrays
    assert len(lows) == 4
    assert (highs - lows < 1000).all()


def test_ngrams_skip_files_for_rare_words() -> None:
    rng = random.Random(6)
    syllables = [a + b for a in "bcdfglmnprst" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(400)]
    rare = [f"{rng.choice('qxz')}{''.join(rng.choices('qxzwvkj', k=5))}" for _ in range(30)]
    files = [[" ".join(rng.choices(words, k=6)) for _ in range(400)] for _ in range(120)]
    for word in rare:
        files[rng.randrange(120)][0] += f" {word} "
    sketch = Ngram(3)
    states = [sketch.build(pa.array(file), TEXT.type) for file in files]
    stack = sketch.stack(states)
    for word in rare:
        answer = sketch.might_match(Contains(TEXT, word.encode()), stack)
        assert answer is not None
        assert answer.may_match.mean() < 0.1
        assert all(answer.may_match[i] for i, file in enumerate(files) if any(word in text for text in file))
    assert np.mean([sketch.size(state) for state in states]) < 8_000
    assert sketch.might_match(Contains(TEXT, b"qx"), stack) is None


def random_places(count: int, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Files along roads: each follows a line, so that its bounds hold far more than it does."""
    files = []
    for _ in range(count):
        (lat, lon), (to_lat, to_lon) = rng.uniform((-60, -170), (60, 170), (2, 2))
        along = rng.random(500)
        files.append((lat + along * (to_lat - lat), lon + along * (to_lon - lon)))
    return files


def geo_files(sketch: Sketch, files: list[tuple[np.ndarray, np.ndarray]]) -> list[bytes]:
    data_type = DataType("nested", (("lat", DataType("double")), ("lon", DataType("double"))))
    states = [
        build_state(sketch, [pa.StructArray.from_arrays([*map(pa.array, file)], ["lat", "lon"])], data_type)
        for file in files
    ]
    assert all(m.data is not None for m in states), states[0].reason
    return [m.data for m in states if m.data is not None]


LAT, LON = Column(("lat",), DataType("double")), Column(("lon",), DataType("double"))


def test_geo_reads_less_than_two_ranges_and_hides_nothing() -> None:
    rng = np.random.default_rng(7)
    files = random_places(150, rng)
    sketch = Geo(64)
    blobs = geo_files(sketch, files)
    states = read_states(sketch, blobs)
    kept, by_bounds = 0, 0
    for _ in range(300):
        south, west = rng.uniform((-60, -170), (58, 165))
        north, east = south + 2, west + 5
        leaves = [
            Compare(">=", LAT, south),
            Compare("<=", LAT, north),
            Compare(">", LON, west),
            Compare("<", LON, east),
        ]
        answer = ask(sketch, leaves, [LAT, LON], states, len(files))
        assert answer is not None
        for i, (lat, lon) in enumerate(files):
            assert answer.may_match[i] or not ((lat >= south) & (lat <= north) & (lon > west) & (lon < east)).any()
        kept += int(answer.may_match.sum())
        by_bounds += sum(
            lat.max() >= south and lat.min() <= north and lon.max() >= west and lon.min() <= east for lat, lon in files
        )
    assert kept <= 0.35 * by_bounds, (kept, by_bounds)
    assert max(map(len, blobs)) <= 64 * 8 + 64


def test_no_circle_hides_a_place() -> None:
    rng = np.random.default_rng(8)
    roads = random_places(60, rng)
    files = [*roads, *((rng.uniform(-90, 90, 50), rng.uniform(-180, 180, 50)) for _ in range(20))]
    files += [(np.array([90.0, -90.0, 0.0]), np.array([0.0, 10.0, 180.0])), (np.array([0.0]), np.array([-180.0]))]
    sketch = Geo(32)
    states = read_states(sketch, geo_files(sketch, files))
    edges = [np.array([end(file[axis]) for file in roads]) for axis in (0, 1) for end in (np.min, np.max)]
    bounds = GeoStack(np.ones(60, np.bool_), np.zeros(60, np.bool_), np.arange(60), *edges)
    kept = by_bounds = 0
    for _ in range(300):
        lat, lon = rng.choice([-90.0, 90.0, rng.uniform(-90, 90)]), rng.choice([-180.0, 180.0, rng.uniform(-180, 180)])
        meters = float(10 ** rng.uniform(3, 6.5))
        answer = near(sketch, lat, lon, meters, states)
        truth = [bool((geo_distance(*file, lat, lon) <= meters).any()) for file in files]
        assert all(answer.may_match | ~np.array(truth))
        kept += int(answer.may_match[:60].sum())
        by_bounds += int(near(sketch, lat, lon, meters, bounds).may_match.sum())
    assert kept <= 0.5 * by_bounds, (kept, by_bounds)
    stack = states
    nearest = least_distance(10.0, 20.0, stack)
    for i, (lat, lon) in enumerate(files):
        assert nearest[stack.file == i].min() <= geo_distance(lat, lon, 10.0, 20.0).min() + 1e-3


def test_distances_are_those_of_a_sphere() -> None:
    assert geo_distance(0, 0, 0, 180.0) == pytest.approx(math.pi * 6_371_008.8)
    assert geo_distance(90.0, 17.0, -90.0, 3.0) == pytest.approx(math.pi * 6_371_008.8)
    assert geo_distance(52.52, 13.405, 48.8566, 2.3522) == pytest.approx(877_465, rel=1e-4)
    assert geo_distance(10.0, 179.5, 10.0, -179.5) == pytest.approx(geo_distance(10.0, 0.0, 10.0, 1.0))


def test_a_place_without_one_coordinate_keeps_its_file() -> None:
    sketch = Geo(16)
    files = [
        (np.array([10.0, np.nan]), np.array([10.0, 10.0])),
        (np.array([10.0, 95.0]), np.array([10.0, 10.0])),
        (np.array([10.0]), np.array([10.0])),
    ]
    states = read_states(sketch, geo_files(sketch, files))
    answer = ask(sketch, [Compare(">", LAT, 80.0)], [LAT, LON], states, 3)
    assert answer is not None
    assert answer.may_match.tolist() == [True, True, False]
    data_type = DataType("nested", (("lat", DataType("double")), ("lon", DataType("double"))))
    nulls = pa.StructArray.from_arrays([pa.array([1.0, None]), pa.array([1.0, None])], ["lat", "lon"])
    assert not sketch.build(nulls, data_type).odd
    half = pa.StructArray.from_arrays([pa.array([1.0, None]), pa.array([1.0, 2.0])], ["lat", "lon"])
    assert sketch.build(half, data_type).odd
    assert ask(sketch, [Compare(">", TEXT, b"x")], [LAT, LON], states, 3) is None


def test_geo_merges_to_the_same_answers() -> None:
    rng = np.random.default_rng(9)
    sketch = Geo(32)
    states = [sketch.from_bytes(blob) for blob in geo_files(sketch, random_places(12, rng))]
    whole, parts = sketch.stack([sketch.merge(states)]), sketch.stack(states)
    assert len(sketch.merge(states).codes) <= 32
    for _ in range(100):
        south, west = rng.uniform((-60, -170), (58, 165))
        box = (south, south + 3, west, west + 3)
        assert within(sketch, box, whole).may_match[0] >= within(sketch, box, parts).may_match.any()
