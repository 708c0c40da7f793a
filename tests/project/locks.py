"""Check that requirements/dev.txt says what uv.lock says; run by `python3 dev.py lint`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Compare, and name each package whose versions differ."""
    lock = (ROOT / "uv.lock").read_text()
    locked = set(re.findall(r'\[\[package\]\]\nname = "([^"]+)"\nversion = "([^"]+)"', lock))
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    wrong = []
    for line in lines:
        found = re.match(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;]+)", line)
        if found and (found[1].lower().replace("_", "-"), found[2]) not in locked:
            wrong.append(line)
    for line in wrong:
        print(f"requirements/dev.txt: {line!r} is not in uv.lock; run the export that CONTRIBUTING.md names")
    print(f"{len(lines)} requirements, {len(wrong)} not as in uv.lock")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
