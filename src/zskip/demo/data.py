"""TPC-H tables for the demo, made by tpchgen-cli."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from zskip.errors import InputError, MissingDependencyError, ZskipError

TABLES = ("lineitem", "orders")
_PARTS = 16


def check(scale: float) -> str:
    """Check that data of this scale can be made, and return the generator's path.

    scale: TPC-H's scale factor, 1 being 6 million lines. Raises InputError for a scale that makes no sense and
    MissingDependencyError where tpchgen-cli is not installed.
    """
    if not 0.001 <= scale <= 1000:
        raise InputError(f"--scale {scale:g} is not between 0.001 and 1000; 1 is 6 million rows")
    beside = Path(sys.executable).with_name("tpchgen-cli.exe" if os.name == "nt" else "tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise MissingDependencyError('the demo needs tpchgen-cli; run: pip install "zskip[demo]"')
    return found


def generate(scale: float, directory: Path) -> None:
    """Write lineitem and orders as directories of 16 Parquet files each; raises what `check` raises."""
    parts = ["--parts", str(_PARTS), "-o", str(directory)]
    command = [check(scale), "parquet", "-s", str(scale), "-T", ",".join(TABLES), *parts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ZskipError(f"tpchgen-cli failed: {(done.stderr or done.stdout).strip()[-500:]}")
