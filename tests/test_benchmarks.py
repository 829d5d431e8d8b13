"""`make bench` takes hours: here only that it calls each benchmark as it is."""

import ast
import importlib
import runpy
import sys
from pathlib import Path
from unittest.mock import create_autospec

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # benchmarks are no part of the package
from benchmarks import moves  # noqa: E402

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


def of_round(plain, move, by_hand, said="a"):
    times = dict(zip(moves.WAYS, (plain, move, by_hand), strict=True))
    return {way: moves.Epochs(seconds, 1.0, said) for way, seconds in times.items()}


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([of_round(2.0, 1.05, 1.0)] * 3, "meets the bar"),
        ([of_round(2.0, 1.2, 1.0)] * 3, "misses the bar"),
        ([of_round(1.0, 1.0, 0.99)] * 3, "by hand the change saves nothing here"),
        ([of_round(2.0, 1.0, 1.0), of_round(2.0, 1.0, 1.0, "b")], "changes what the script"),
    ],
)
def test_a_moves_part_of_the_gain_by_hand_is_held_against_the_bar(rounds, verdict):
    assert verdict in moves.judged(rounds)["verdict"]


def test_a_slow_round_moves_the_part_within_its_range():
    rounds = [of_round(2.0, 1.05, 1.0)] * 4 + [of_round(2.0, 1.9, 1.0)]
    part, low, high = moves.judged(rounds)["part"]
    assert low < part < high == 0.95
    assert "inconclusive" in moves.judged(rounds)["verdict"]


def test_what_pays_on_a_gpu_alone_is_not_measured_without_one(monkeypatch, capsys):
    monkeypatch.setattr(moves.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(moves, "run", None)
    moves.measure("deferred_logging", [], 2, 1, "")
    assert "not measured: it pays only where reading a number waits" in capsys.readouterr().out


FIRST, *OTHERS = moves.MOVES["deferred_logging"][1]


@pytest.mark.parametrize(
    "case", [FIRST, *(pytest.param(case, marks=pytest.mark.slow) for case in OTHERS)]
)
def test_numbers_printed_late_by_hand_are_the_same_numbers(tmp_path, case):
    small = {**moves.MOVES["deferred_logging"][1][case], "width": 8, "depth": 2, "steps": 3}
    plain, by_hand = (
        moves.run(tmp_path, "deferred_logging", small, way, 2).said for way in ("plain", "by hand")
    )
    assert plain == by_hand
