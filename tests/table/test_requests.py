"""The arguments of verbs, checked before anything is read: each alone, and all together."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zskip.errors import ColumnError, InputError
from zskip.formats import open_format
from zskip.options import options_of
from zskip.records import Field
from zskip.storage import LocalStorage
from zskip.table import Table
from zskip.table.optimize_request import OptimizeRequest, check_arguments, check_request
from zskip.table.predicates import clustering_fields
from zskip.table.rewrite.maintenance_request import MaintenanceRequest
from zskip.types import DataType

BAD_OPTIMIZE: list[tuple[dict[str, Any], str]] = [
    ({"by": []}, '"by" names no column'),
    ({"files": 0}, "files=0 is not a number of files"),
    ({"files": True}, "files=True is not"),
    ({"files": 2.0}, "files=2.0 is not"),
    ({"target_file_size": "big"}, '"big" is not a file size.*128MB'),
    ({"files": 2, "target_file_size": 5}, "not both"),
    ({"sampling": "guess"}, 'unknown sampling "guess"; choose "bernoulli" or "reservoir"'),
    ({"compression": "zstdd"}, 'did you mean "zstd"'),
    ({"compression": "zstd:23"}, "1 to 22"),
    ({"compression": "snappy:1"}, "no levels"),
    ({"compression": 3}, "compression=3"),
    ({"unseen": 2}, "unseen=2 is not a share"),
    ({"unseen": True}, "unseen=True is not a share"),
    ({"unseen": None}, "unseen=None is not a share of queries; give a number"),
    ({"unseen": "0.2"}, "unseen='0.2' is not a share"),
    ({"unseen": float("nan")}, "unseen=nan is not a share"),
    ({"jobs": 0}, "jobs=0 is not a number of jobs"),
    ({"jobs": 2}, "jobs=2 needs batches.*give max_batch"),
    ({"max_batch": "1GB", "jobs": True}, "jobs=True"),
    ({"max_batch": 0}, "max_batch=0"),
    ({"max_batch": "-2GB"}, "max_batch='-2GB'"),
    ({"max_batch": "x"}, "max_batch='x' is not a size"),
    ({"max_batch": "1MB"}, "max_batch='1MB' is less than one file of 128.0 MB"),
    ({"curve": "fitted", "build": "direct"}, 'curve="fitted" works only with build="sample"'),
]
BAD_MAINTENANCE: list[tuple[dict[str, Any], str]] = [
    ({"budget": 0}, "budget=0 is not a size"),
    ({"budget": "-1GB"}, "-1GB"),
    ({"target_file_size": "x"}, "target_file_size='x' is not a size"),
    ({"seconds": 0}, "seconds=0 is not a number of seconds"),
    ({"seconds": float("nan")}, "seconds=nan is not a number of seconds"),
    ({"by": ["a", "a"]}, '"a" is named twice'),
    ({"unseen": -0.1}, "unseen=-0.1 is not a share"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD_OPTIMIZE, ids=[str(arguments) for arguments, _ in BAD_OPTIMIZE])
def test_what_optimize_refuses(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_request(**{"by": ["a", "b"], "curve": "zorder"} | arguments)


@pytest.mark.parametrize(
    ("arguments", "says"), BAD_MAINTENANCE, ids=[str(arguments) for arguments, _ in BAD_MAINTENANCE]
)
def test_what_maintain_refuses(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_arguments(MaintenanceRequest, **arguments)


def test_what_is_read_of_arguments() -> None:
    request = check_request(by="a", curve="zorder", files=None, target_file_size=None, compression="keep", unseen=1)
    assert (request.by, request.files, request.target_file_size, request.compression) == (
        ("a",),
        None,
        128_000_000,
        None,
    )
    assert request.unseen == 1.0
    assert check_request(by="auto", curve="auto", files=3).by == ()
    assert check_request(by=["auto"], curve="auto", files=3).by == ("auto",)
    assert check_request(by=iter("ab"), curve="zorder", max_batch="1GB", jobs=4).max_batch == 10**9
    upkeep = check_arguments(MaintenanceRequest, budget="2kB", seconds=0.5, by="a")
    assert (upkeep.budget, upkeep.seconds, upkeep.by) == (2000, 0.5, ("a",))
    assert check_arguments(MaintenanceRequest) == MaintenanceRequest()


def test_a_request_has_the_options_of_its_verb_with_the_same_defaults() -> None:
    for verb, record in ((Table.optimize, OptimizeRequest), (Table.maintain, MaintenanceRequest)):
        defaults = {field.name: field.default for field in dataclasses.fields(record)}
        for option in options_of(verb, without=("by", "curve", "compression", "exclusive")).values():
            assert defaults[option.name] == option.default, option.name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rot13(s)", r'"rot13\(s\)" is no column, and no expression.*store its values as a column'),
        ("js:a.b", '"js:a.b" is no column'),
        ("c", '"c" of type string collate UNICODE_CI: .* UTF8_LCASE, or store'),
    ],
)
def test_what_is_no_key_is_refused(tmp_path: Path, name: str, message: str) -> None:
    pq.write_table(pa.table({"s": ["x"], "js": ["{}"]}), tmp_path / "a.parquet")
    snapshot = open_format(LocalStorage(str(tmp_path))).snapshot()
    collated = Field(name="c", type=DataType("string collate UNICODE_CI"))
    snapshot = dataclasses.replace(snapshot, fields=(*snapshot.fields, collated))
    with pytest.raises(ColumnError, match=message):
        clustering_fields([name], snapshot, case_sensitive=False, timezone="UTC")
