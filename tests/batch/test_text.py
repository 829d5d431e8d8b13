"""What a search prints."""

import io
from dataclasses import replace

from rich.console import Console

from hotlap.batch.batch_result import OUT_OF_BUDGET, BatchFacts, BatchResult, SizeResult
from hotlap.reporting.batch_text import show


def printed(found: BatchResult) -> str:
    out = Console(file=io.StringIO(), width=100)
    show(out, found, brief=False)
    text = out.file
    assert isinstance(text, io.StringIO)
    return text.getvalue()


def rows(*found: SizeResult) -> dict[int, SizeResult]:
    return {row.size: row for row in found}


def test_rates_are_written_out() -> None:
    known = rows(
        SizeResult(32, True, 17_012.3, 1.0, 1.0, 1.0, 0.004), SizeResult(64, True, 25.25, 0.0015)
    )
    text = printed(
        BatchResult(BatchFacts(32), known, fastest=32, largest=64, bound="the data set's size")
    )
    assert "17,012" in text
    assert "25.2" in text
    assert "largest that fits: 64 (limited by the data set's size)" in text


def test_a_size_that_was_compared_with_none_is_not_called_fastest() -> None:
    known = rows(
        SizeResult(32, True, 5.0, 1.0, 1.0, 1.0, 6.0, samples=32), SizeResult(64, True, step=3.5)
    )
    text = printed(BatchResult(BatchFacts(32), known, 0, 64, OUT_OF_BUDGET))
    assert "fastest: not known (only batch 32 was timed within the budget" in text
    assert "6.4 s" in text  # 32 samples at 5 a second, as the column beside it says
    assert "3.5 s" not in text  # of steps that were not timed
    assert "background load: 0.0 of" in text


def test_an_interrupt_before_and_after_the_first_figure() -> None:
    text = printed(BatchResult(BatchFacts(32), interrupted=True))
    assert text.strip() == "interrupted before any batch size was timed"
    known = rows(SizeResult(32, True, 100.0, 1.0, 1.0, 1.0, 0.004))
    text = printed(BatchResult(BatchFacts(32), known, fastest=32, largest=32, interrupted=True))
    assert "interrupted: these are the sizes measured so far" in text
    assert "limited by" not in text


def test_ratios_have_their_interval_and_untried_sizes_are_named() -> None:
    reference = SizeResult(32, True, 100.0, 1.0, 1.0, 1.0, 0.004)
    known = rows(reference, SizeResult(64, True, 131.0, 1.31, 1.22, 1.40, 0.006))
    text = printed(BatchResult(BatchFacts(32), known, 64, 64, OUT_OF_BUDGET, confirmed=(64,)))
    assert "fastest: 64, 1.31x (1.22 to 1.40) the samples per second of batch 32" in text
    assert "largest tried: 64 (larger sizes were not tried within the budget" in text
    assert "largest that fits" not in text
    assert "not confirmed" not in text
    known = rows(reference, SizeResult(64, True, 104.0, 1.04, 0.97, 1.12, 0.006))
    text = printed(BatchResult(BatchFacts(32), known, 32, 64, "--max", promising=64))
    assert "batch 64 may be faster: 1.04x (0.97 to 1.12), inconclusive within the budget" in text
    assert "not confirmed by more steps within the budget: batch 32 and 64" in text


def test_only_a_size_that_was_timed_alone_needs_no_interval_to_be_faster() -> None:
    reference = SizeResult(32, True, 100.0, 1.0, 1.0, 1.0, 0.004)
    paired = SizeResult(64, True, 120.0, 1.2)  # of too few pairs for an interval
    alone = replace(paired, alone=True)
    assert (paired.faster, alone.faster) == (False, True)
    for row, words in ((paired, "1.20x (too few pairs)"), (alone, "1.20x (timed alone)")):
        found = BatchResult(BatchFacts(32), rows(reference, row), 32, 64, promising=64)
        assert words in printed(found)
