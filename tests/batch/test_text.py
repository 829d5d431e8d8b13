"""What a search prints."""

import io

from rich.console import Console

from hotlap.batch.result import Found, Row, Script
from hotlap.report.batch_text import show


def printed(found: Found) -> str:
    out = Console(file=io.StringIO(), width=100)
    show(out, found, brief=False)
    text = out.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def rows(*found: Row) -> dict[int, Row]:
    return {row.size: row for row in found}


def test_rates_are_written_out() -> None:
    known = rows(Row(32, True, 17_012.3, 1.0, 1.0, 1.0, 0.004), Row(64, True, 25.25, 0.0015))
    text = printed(Found(Script(32), known, fastest=32, largest=64, bound="the data set's size"))
    assert "17,012" in text
    assert "25.2" in text
    assert "largest that fits: 64 (bound by the data set's size)" in text


def test_an_interrupt_before_and_after_the_first_figure() -> None:
    text = printed(Found(Script(32), interrupted=True))
    assert text.strip() == "interrupted before any batch size was timed"
    known = rows(Row(32, True, 100.0, 1.0, 1.0, 1.0, 0.004))
    text = printed(Found(Script(32), known, fastest=32, largest=32, interrupted=True))
    assert "interrupted: what is known so far" in text
    assert "bound by" not in text
