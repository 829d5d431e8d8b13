"""`make bench` takes hours: here only that it calls each benchmark as it is."""

import importlib
import runpy
from pathlib import Path
from unittest.mock import create_autospec

ROOT = Path(__file__).parent.parent
MODULES = (
    *("batch", "engine", "honesty", "launches", "lightness"),
    *("lint_speed", "optim", "patch_parity"),
    *("simulated", "techniques", "tune_load", "data.speed", "data.scale", "data.cold"),
    *("parallel.parity", "parallel.kills", "parallel.plan", "parallel.tune_ddp"),
)


def test_every_benchmark_is_called_with_arguments_that_it_takes(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    mains = {}
    for name in MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        mains[name] = create_autospec(module.main)
        monkeypatch.setattr(module, "main", mains[name])
    runpy.run_module("benchmarks.run")
    assert not [name for name, main in mains.items() if not main.called]
