import subprocess
import sys

import numpy as np
import pytest

import zskip
from zskip.layout.fit import fit
from zskip.records import Field, Sample
from zskip.types import DataType

cloudpickle = pytest.importorskip("pyspark.cloudpickle")

EXECUTOR = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "zskip":
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from pyspark import cloudpickle
import numpy as np
layout = cloudpickle.loads(sys.stdin.buffer.read())
columns = [np.arange(0, 1000, 7)] * 3
print(layout.place(columns, [np.zeros(143, bool)] * 3, 0, np.zeros(143, np.uint64))[0].tolist())
"""


@pytest.mark.parametrize(("curve", "build"), [("zorder", "sample"), ("hilbert", "sample"), ("hilbert", "direct")])
def test_a_layout_places_rows_where_zskip_is_not_installed(curve, build):
    columns = tuple(np.random.default_rng(0).integers(0, 1000, (3, 5000)))
    sample = Sample(
        fields=tuple(Field(name=name, type=DataType("long")) for name in "abc"),
        columns=columns,
        nulls=(np.zeros(5000, bool),) * 3,
        partition=np.zeros(5000, np.int32),
        weights=np.ones(5000),
    )
    layout = fit(sample, np.array([8]), partition_rows=np.array([5000]), curve=curve, build=build)
    cloudpickle.register_pickle_by_value(zskip)
    try:
        shipped = cloudpickle.dumps(layout)
    finally:
        cloudpickle.unregister_pickle_by_value(zskip)
    assert len(shipped) < 500_000
    there = subprocess.run([sys.executable, "-c", EXECUTOR], input=shipped, capture_output=True, check=True)
    rows = [np.arange(0, 1000, 7)] * 3
    here, _ = layout.place(rows, [np.zeros(143, bool)] * 3, 0, np.zeros(143, np.uint64))
    assert there.stdout.decode().strip() == str(here.tolist())
