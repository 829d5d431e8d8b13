"""`make bench` takes hours: here only that it calls each benchmark as it is."""

import ast
import importlib
import runpy
from pathlib import Path
from unittest.mock import create_autospec

ROOT = Path(__file__).parent.parent
RUN = ROOT / "benchmarks" / "run.py"


def imported() -> list[str]:
    """The benchmarks that `run.py` imports."""
    found = [
        node for node in ast.walk(ast.parse(RUN.read_text())) if isinstance(node, ast.ImportFrom)
    ]
    return [f"{node.module}.{alias.name}" for node in found for alias in node.names]


def test_every_benchmark_is_called_with_arguments_that_it_takes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    mains = {}
    for name in imported():
        module = importlib.import_module(name)
        mains[name] = create_autospec(module.main)
        monkeypatch.setattr(module, "main", mains[name])
    runpy.run_module("benchmarks.run")
    assert not [name for name, main in mains.items() if not main.called]
