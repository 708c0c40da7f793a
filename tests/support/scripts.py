"""Scripts beside the package, such as dev.py, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load(path: Path) -> ModuleType:
    """Run a script as a module of its name, anew each time."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
