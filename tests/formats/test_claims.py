"""Claims: who counts as dead, and how living owners renew their records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from owners import dead_owner, owner

from zskip.formats import claims, staging
from zskip.formats.claims import _renewal
from zskip.storage import FileInfo, LocalStorage

RECORD = "d/_owner.json"


def is_abandoned(root: Path, record: bytes, *, hours: float = 0) -> bool:
    """Whether a directory is abandoned whose owner has left a record, and renewed it so long ago."""
    storage = LocalStorage(str(root))
    storage.write(RECORD, record, overwrite=True)
    os.utime(root / RECORD, (time.time() - hours * 3600,) * 2)
    directory = storage.stat("d")
    assert directory is not None
    return claims.is_abandoned(storage, directory)


def test_processes_of_this_machine(tmp_path: Path) -> None:
    assert is_abandoned(tmp_path, dead_owner())
    assert not is_abandoned(tmp_path, owner(), hours=1000), "it lives"
    assert is_abandoned(tmp_path, owner(started=1)), "its number has been given to another process"


@pytest.mark.parametrize("name", ["host", "boot", "namespace"])
@pytest.mark.parametrize("value", ["another", None])
def test_processes_of_which_this_machine_knows_nothing(tmp_path: Path, name: str, value: str | None) -> None:
    for record in (owner(**{name: value}), owner(**{name: value, "pid": 2**22 + 1})):
        assert not is_abandoned(tmp_path, record)
        assert not is_abandoned(tmp_path, record, hours=23)
        assert is_abandoned(tmp_path, record, hours=25)


def test_a_system_that_tells_processes_apart_by_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise FileNotFoundError("/proc")

    monkeypatch.setattr(os, "readlink", refuse)
    for record in (owner(), dead_owner()):
        assert not is_abandoned(tmp_path, record, hours=23)
        assert is_abandoned(tmp_path, record, hours=25)


@pytest.mark.parametrize(
    "record", [b"", b"{", b"[]", b"7", b"{}", b'{"pid": "x"}', dead_owner()[:-1], owner(pid=10**30), owner(pid=None)]
)
def test_damaged_records(tmp_path: Path, record: bytes) -> None:
    assert not is_abandoned(tmp_path, record, hours=23)
    assert is_abandoned(tmp_path, record, hours=25)


def test_a_process_in_another_container_of_this_host(tmp_path: Path) -> None:
    """It has the same host name, and this machine has no process of its number, or another one."""
    storage = LocalStorage(str(tmp_path))
    script = (
        "from zskip.formats import staging; from zskip.storage import LocalStorage; "
        f"staging.begin(LocalStorage({str(tmp_path)!r}), print)"
    )
    mine = staging.begin(storage, pytest.fail)
    command = ["unshare", "--fork", "--pid", "--mount-proc", sys.executable, "-c", script]
    can_run = shutil.which("unshare") is not None
    if not can_run or subprocess.run([*command[:4], "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs unshare, and the right to make a namespace")
    swept = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert swept == "", "the process of this test lives"
    (other,) = (file for file in storage.list_dir(staging.STAGING) if file.path != mine)
    assert not claims.is_abandoned(storage, other), "nobody here can tell"


def test_records_are_renewed_until_the_directory_is_gone(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    directories = [staging.begin(storage, pytest.fail) for _ in range(3)]
    records = [tmp_path / directory / "_owner.json" for directory in directories]
    for record in records:
        os.utime(record, (0, 0))
    staging.end(storage, directories[0])
    storage.delete(directories[1])
    _renewal.renew_all()
    assert [record.exists() for record in records] == [False, False, True]
    assert time.time() - records[2].stat().st_mtime < 60
    assert json.loads(records[2].read_bytes())["pid"] == os.getpid()
    assert not any(name in directories[:2] for _, name in _renewal._claims)


def test_a_record_that_cannot_be_renewed_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(str(tmp_path))
    one, two = (staging.begin(storage, pytest.fail) for _ in range(2))
    for directory in (one, two):
        os.utime(tmp_path / directory / "_owner.json", (0, 0))
    write = LocalStorage.write

    def fail(self: LocalStorage, path: str, data: bytes, **options: Any) -> None:
        if path.startswith(one):
            raise ZeroDivisionError
        write(self, path, data, **options)

    monkeypatch.setattr(LocalStorage, "write", fail)
    _renewal.renew_all()
    assert (tmp_path / two / "_owner.json").stat().st_mtime > 0
    assert not claims.is_abandoned(storage, FileInfo(one, 0, 0, True))
