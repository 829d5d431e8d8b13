"""Spots in the terminal."""

from pathlib import Path

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
