"""Spots in the terminal."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from hotlap.reporting.lint_text import show
from hotlap.source.lint import Spot


def spot(path: str, line: int) -> Spot:
    return Spot(Path(path), line, 1, "item_in_step", f"says {line}", "remedy", "host_sync")


def test_a_file_has_one_heading_whatever_the_order_of_its_spots() -> None:
    out = Console(width=100, force_terminal=False, highlight=False)
    with out.capture() as capture:
        show(out, [spot("b.py", 9), spot("a.py", 3), spot("b.py", 1)], brief=False)
    lines = capture.get().splitlines()
    assert [line for line in lines if line in {"a.py", "b.py"}] == ["b.py", "a.py"]
    order = [line.split()[0] for line in lines if "says" in line]
    assert order == ["9:1", "1:1", "3:1"]
    assert lines[-1] == "3 findings"


@pytest.mark.parametrize("gpu", [True, False])
def test_hints_for_gpus_come_last_where_there_is_none(*, gpu: bool) -> None:
    hints = [
        replace(spot("a.py", 1), hint=True),
        replace(spot("a.py", 2), hint=True, technique="loader_workers"),
        spot("a.py", 3),
    ]
    out = Console(width=100, force_terminal=False, highlight=False)
    with out.capture() as capture:
        show(out, hints, brief=False, gpu=gpu)
    text = capture.get()
    order = [line.split()[0] for line in text.splitlines() if "says" in line]
    assert order == (["1:1", "2:1", "3:1"] if gpu else ["2:1", "3:1", "1:1"])
    assert text.count("With a GPU") == (not gpu)
    assert text.splitlines()[-1] == "1 finding, 2 hints"
