"""Check that no folder is crowded, no modules import in a circle, Java refers down, and `table/` names no format.

Run by `python3 dev.py lint`. Every import statement counts, also under `TYPE_CHECKING` and inside functions.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
PACKAGE = "zskip"
MOST_MODULES = 14
SUFFIXES = (".py", ".java")
FORMATS = ("parquet", "delta", "iceberg", "hudi")
"""What `format=` takes."""
JAVA_ROOMS = (
    "formats/delta/apart",
    "scan/rule",
    "scan/counts",
    "scan/conditions",
    "scan/first_rows",
    "scan/joins",
    "formats/iceberg",
    "scan/query",
    "scan/keys",
    "formats/hudi",
    "formats/delta",
    "scan/listings",
    "scan/bridge",
    "jvm/compiled",
)
"""The folders of Java below `spark/`, which is in one package: a class refers to its own folder and those below."""
JAVA_UPWARD = {
    "Delta -> ZskipFiles",
    "ListedFiles -> Delta",
    "Listing -> Hudi",
    "Listing -> HudiFiles",
    "PrunedScan -> RuntimeKeys",
    "Relations -> IndexedTables",
    "Relations -> QueryMark",
    "ScanQuery -> JoinCandidate",
    "ScanQuery -> JoinCandidates",
    "ScanRelations -> IndexedTables",
    "ZskipFiles -> Joins",
}
"""What still refers up, to be untangled; nothing else may."""


def crowded_folders(source: Path) -> Iterator[str]:
    """Name the folders with too many modules."""
    root = source / PACKAGE
    for folder in sorted([root, *(path for path in root.rglob("*") if path.is_dir())]):
        modules = sum(path.suffix in SUFFIXES for path in folder.iterdir())
        if modules > MOST_MODULES:
            yield f"{folder.relative_to(source)} holds {modules} modules, more than {MOST_MODULES}: divide it"


def import_circles(source: Path) -> Iterator[str]:
    """Name modules that import each other, in circles that share no module."""
    graph = import_graph(source)
    reported: set[str] = set()
    for module in graph:
        circle = shortest_circle(graph, module)
        if circle and not reported.intersection(circle):
            reported.update(circle)
            yield f"a circle of imports: {' -> '.join(circle)}"


def import_graph(source: Path) -> dict[str, list[str]]:
    """The modules of the package, each with those that it imports, both in order of their names."""
    files = {_dotted(path, source): path for path in sorted((source / PACKAGE).rglob("*.py"))}
    return {module: sorted(_imports(path, module, files) - {module}) for module, path in files.items()}


def named_formats(source: Path) -> Iterator[str]:
    """Name the places in `table/` that ask for a table's format by its name; defaults of public arguments may."""
    for path in sorted((source / PACKAGE / "table").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        defaults = {id(value) for node in functions for value in (*node.args.defaults, *node.args.kw_defaults)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and node.value in FORMATS and id(node) not in defaults:
                place = f"{path.relative_to(source)}:{node.lineno}"
                yield f"{place} names the format {node.value}: ask its reader or creation"


def java_upward(source: Path) -> Iterator[str]:
    """Name the Java that refers to a class of a room above its own, and exceptions from this that nothing needs."""
    root = source / PACKAGE / "spark"
    rooms = {path.stem: path.parent.relative_to(root).as_posix() for path in root.rglob("*.java")}
    yield from (f"{room} is not in JAVA_ROOMS" for room in sorted({*rooms.values()} - {*JAVA_ROOMS}))
    upward = set()
    for path in sorted(root.rglob("*.java")):
        text = re.sub(r'(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|^import [^\n]*', "", path.read_text(encoding="utf-8"))
        others = {name for name in re.findall(r"(?<![\w.$])[A-Z]\w*", text) if rooms.get(name) in JAVA_ROOMS}
        level = JAVA_ROOMS.index(rooms[path.stem]) if rooms[path.stem] in JAVA_ROOMS else 0
        upward |= {f"{path.stem} -> {name}" for name in others if JAVA_ROOMS.index(rooms[name]) < level}
    yield from (f"Java refers to a room above: {arrow}" for arrow in sorted(upward - JAVA_UPWARD))
    gone = sorted(JAVA_UPWARD - upward) if rooms else []
    yield from (f"JAVA_UPWARD allows {arrow}, which is gone" for arrow in gone)


def shortest_circle(graph: dict[str, list[str]], start: str) -> list[str]:
    """The shortest way of imports from a module back to itself, with the module at both ends; empty if there is none.

    >>> shortest_circle({"a": ["b", "c"], "b": ["c"], "c": ["a"]}, "a")
    ['a', 'c', 'a']
    """
    paths, visited = [[start]], {start}
    while paths:
        path = paths.pop(0)
        for module in graph[path[-1]]:
            if module == start:
                return [*path, start]
            if module not in visited:
                visited.add(module)
                paths.append([*path, module])
    return []


def _dotted(path: Path, source: Path) -> str:
    return ".".join(part for part in path.relative_to(source).with_suffix("").parts if part != "__init__")


def _imports(path: Path, module: str, files: dict[str, Path]) -> set[str]:
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else []
            origin = ".".join([*parents, *([node.module] if node.module else [])])
            names += [f"{origin}.{alias.name}" for alias in node.names]
    # The last part of a name may be a class or a function: then its module is meant.
    candidates = ((name, name.rpartition(".")[0]) for name in names)
    return {next(name for name in pair if name in files) for pair in candidates if any(name in files for name in pair)}


def main(source: Path) -> int:
    """Print what is wrong, and return 1 where anything is."""
    problems = [*crowded_folders(source), *import_circles(source), *java_upward(source), *named_formats(source)]
    fine = f"no folder holds more than {MOST_MODULES} modules, no circles, Java refers down, table/ names no format"
    print("\n".join(problems) or fine)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(SOURCE))
