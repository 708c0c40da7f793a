"""The tutorial as a notebook, and its pictures.

`python tests/project/tutorial.py` writes docs/tutorial.ipynb; with `--pictures` it also runs it, and takes pictures of
the reports that it makes, which needs Chromium.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
PAGE, NOTEBOOK, PICTURES = (ROOT / "docs" / name for name in ("tutorial.md", "tutorial.ipynb", "pictures"))
_PART = re.compile(r"```(\w*)\n(.*?)```\n", re.DOTALL)


def notebook() -> nbformat.NotebookNode:
    """The page as cells: its Python runs, what it says that is printed is left to the notebook."""
    cells, text, at = [], PAGE.read_text("utf-8"), 0
    for match in _PART.finditer(text):
        cells += _words(text[at : match.start()])
        at = match.end()
        if match[1] == "python":
            cells.append(nbformat.v4.new_code_cell(match[2].rstrip()))
        elif not match[1]:
            cells += _words(match[0])
    cells += _words(text[at:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=kernel)


def _words(text: str) -> list[nbformat.NotebookNode]:
    shown = re.sub(r"!\[[^]]*\]\([^)]*\)\n*", "", text).strip()
    return [nbformat.v4.new_markdown_cell(shown)] if shown else []


def expected() -> list[str]:
    """What each Python block of the page prints, as the page says; empty where it says nothing."""
    found: list[str] = []
    for match in _PART.finditer(PAGE.read_text("utf-8")):
        if match[1] == "python":
            found.append("")
        elif match[1] == "text":
            found[-1] = match[2]
    return found


def run(directory: Path) -> list[str]:
    """Run the notebook in a directory, with the server of SPARK_REMOTE if there is one; what its code cells print."""
    made = notebook()
    if "SPARK_REMOTE" in os.environ:
        for cell in made["cells"]:
            cell["source"] = cell["source"].replace('.master("local[2]")', "")  # PySpark takes one of the two.
    NotebookClient(made, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(directory)}}).execute()
    return [
        "".join(out["text"] for out in cell["outputs"] if out["output_type"] == "stream" and out["name"] == "stdout")
        for cell in made["cells"]
        if cell["cell_type"] == "code"
    ]


def take_pictures(directory: Path) -> None:
    """Pictures of the two reports, and of their layouts side by side."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from chromium import browser

    PICTURES.mkdir(exist_ok=True)
    with browser() as opened:
        for name in ("before", "after"):
            opened.size(900)
            opened.open(directory / f"{name}.html")
            opened.draw()
            opened.driver.execute_script("document.getElementById('picture').scrollIntoView()")
            opened.driver.find_element("id", "picture").screenshot(str(PICTURES / f"{name}.png"))
        opened.driver.execute_script("window.scrollTo(0, 0)")
        opened.picture(PICTURES / "report.png", height=1400)
        sides = "".join(f"<img src='{(PICTURES / name).as_uri()}.png' width=620>" for name in ("before", "after"))
        page = directory / "both.html"
        page.write_text(f"<body style='margin:0;display:flex;background:#fff'>{sides}</body>")
        opened.size(1240, 320)
        opened.open(page)
        opened.driver.save_screenshot(str(PICTURES / "before-after.png"))


def main() -> None:
    """Write the notebook, and the pictures if asked for."""
    NOTEBOOK.write_text(nbformat.writes(notebook()) + "\n", "utf-8")
    if "--pictures" in sys.argv[1:]:
        from zskip.spark.jvm.java import ensure_java

        ensure_java()
        os.environ.setdefault("PYTHONPATH", str(ROOT / "src"))
        with tempfile.TemporaryDirectory() as name:
            for said, printed in zip(expected(), run(Path(name)), strict=True):
                if said != printed:
                    print(f"the page says {said!r}, printed is {printed!r}", file=sys.stderr)
            take_pictures(Path(name))


if __name__ == "__main__":
    main()
