"""What a task does to the Python worker that it runs in."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from pathlib import Path

import pytest

from zskip.spark.shipping import lighten_worker


def test_archives_of_pyspark_are_not_read_before_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    archives = [tmp_path / "pyspark.zip", tmp_path / "py4j-0.10.9-src.zip", tmp_path / "jobs.zip"]
    for number, path in enumerate(archives):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"archived_{number}/__init__.py", "")
            archive.writestr(f"archived_{number}/later.py", f"VALUE = {number}")
        monkeypatch.syspath_prepend(str(path))
        importlib.import_module(f"archived_{number}")
    try:
        lighten_worker()
        cached = [name for name in sys.path_importer_cache if name.startswith(str(tmp_path))]
        assert {Path(name).relative_to(tmp_path).parts[0] for name in cached} == {"jobs.zip"}
        for number in range(len(archives)):
            assert number == importlib.import_module(f"archived_{number}.later").VALUE
    finally:
        gc.unfreeze()


def test_what_was_imported_is_frozen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    freeze, calls = gc.freeze, []

    def count() -> None:
        calls.append(1)
        freeze()

    monkeypatch.setattr(gc, "freeze", count)
    try:
        lighten_worker()
        assert gc.get_freeze_count() > 0
        lighten_worker()
        # Not by the count of objects, which other threads may let go of.
        assert len(calls) == 1
    finally:
        gc.unfreeze()
