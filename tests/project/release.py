"""Build what is published, the source and the wheel, into dist/: `python3 dev.py build [--tag v0.1.0]`.

With a tag, only if the package, the module and the changelog all speak of that version.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "src/zskip/version.py": r'^__version__ = "(.+)"$',
    "CHANGELOG.md": r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$",
}
"""Where the version stands; of the changelog, the newest one with a date that was released."""


def disagreements(tag: str, root: Path = ROOT) -> list[str]:
    """The places that speak of another version than a tag such as v0.1.0, in words."""
    wrong = []
    for place, pattern in PLACES.items():
        found = re.search(pattern, (root / place).read_text(encoding="utf-8"), re.MULTILINE)
        version = found[1] if found else "no version"
        if tag != f"v{version}":
            wrong.append(f"{place} says {version}, the tag is {tag}")
    return wrong


def main(arguments: list[str]) -> int:
    """Compare, then build."""
    parser = argparse.ArgumentParser(prog="dev.py build", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", help="the tag of the release, such as v0.1.0")
    tag = parser.parse_args(arguments).tag
    wrong = disagreements(tag) if tag else []
    for text in wrong:
        print(text, file=sys.stderr)
    if wrong:
        return 1
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    return subprocess.run([sys.executable, "-m", "build", "--no-isolation", str(ROOT)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
