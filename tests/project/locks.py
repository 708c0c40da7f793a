"""Check that requirements/*.txt say what uv.lock says, and uv.lock what pyproject.toml asks for.

Run by `python3 dev.py lint`; with `--write` it makes all three anew.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"dev": ["--group", "dev"], "spark35": ["--group", "spark35"]}
"""Name of a file in requirements/ to what it holds."""
PLAIN = ["--no-hashes", "--no-emit-project", "--no-annotate", "--no-header", "--no-default-groups"]


def uv(*arguments: str) -> str:
    """What a call of uv prints; exits where it fails."""
    done = subprocess.run([sys.executable, "-m", "uv", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("uv.lock does not answer pyproject.toml: run python tests/project/locks.py --write")
    return done.stdout


def main(write: bool) -> int:
    """Compare, and name each file that differs, or write them."""
    if write:
        uv("lock")
    wrong = []
    for name, part in PARTS.items():
        path = ROOT / "requirements" / f"{name}.txt"
        exported = uv("export", "-q", "--locked", *([] if write else ["--offline"]), *PLAIN, *part)
        if write:
            path.write_text(exported)
        elif path.read_text() != exported:
            wrong.append(path.relative_to(ROOT).as_posix())
    for path in wrong:
        print(f"{path} is not what uv.lock says: run python tests/project/locks.py --write")
    if not wrong:
        print("the locks agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main("--write" in sys.argv[1:]))
