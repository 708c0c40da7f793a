"""What is told of HDFS before anything is asked of it; tests/engines/hdfs asks HDFS itself."""

from __future__ import annotations

import sys

import pytest

import zskip
from zskip.cli.tables import can_open_without_spark
from zskip.errors import InputError, MissingDependencyError
from zskip.storage import is_remote


def test_a_setting_is_one_of_hadoop() -> None:
    with pytest.raises(InputError, match=r'"aws_region" is not a Hadoop setting, such as dfs\.'):
        zskip.open("hdfs://nn:8020/t", storage_options={"aws_region": "x"})


def test_without_its_package_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(MissingDependencyError, match=r'hdfs://nn:8020.*pip install "zskip\[hdfs\]".*zskip\.table'):
        zskip.open("hdfs://nn:8020/t")


@pytest.mark.parametrize("path", ["hdfs://nn/t", "HDFS://nn/t", "s3a://b/t"])
def test_places_across_a_network(path: str) -> None:
    assert is_remote(path)
    assert not is_remote(path.partition("://")[2])


def test_the_shell_goes_there_by_spark_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"pyspark"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in installed else None)
    assert not can_open_without_spark("hdfs://nn/t")
    assert can_open_without_spark("s3://b/t")
    # Without either, the error names the smaller one.
    installed.clear()
    assert can_open_without_spark("hdfs://nn/t")
