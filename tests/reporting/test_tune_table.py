"""The rows of a tune, at any width."""

import math
from dataclasses import replace

import pytest

from hotlap.reporting.tune_table import UNKNOWN_TIME, plain, reason, table
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune.result import Outcome, Status

LOSSES = "losses agree over 1129 steps, at most 0.02 % off (limit 0.1 %)"


def race(ratio: float, warmup: float = 0.0) -> RaceResult:
    estimate = Estimate(ratio, ratio * 0.95, ratio * 1.05, 12, 0.95)
    return RaceResult(
        estimate, Verdict.FASTER, "epoch", True, 0.02, 0.02 / ratio, ratio, 1.0, 0.0, warmup, 9.0
    )


ROWS = [
    Outcome("cached_dataset", Status.KEPT, LOSSES, {}, race(3.2)),
    Outcome("async_copy", Status.KEPT, LOSSES, {}, race(1.1, 4.0), joined=("pinned_memory",)),
    Outcome("fused_pointwise", Status.CRASHED, "RuntimeError: " + "no compiler " * 12, {"m": "x"}),
    Outcome("channels_last", Status.NOT_FASTER, "the same", {}, race(1.0)),
]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_every_reason_stands_below_its_row_where_it_does_not_fit(width: int) -> None:
    lines = table(ROWS, width).plain.splitlines()
    assert max(map(len, lines)) <= width
    begins = [index for index, line in enumerate(lines) if line[:1] not in {"", " "}]
    assert [lines[index].split()[0] for index in begins] == [
        "technique", "cached_dataset", "async_copy", "fused_pointwise(x)", "channels_last",
    ]  # fmt: skip
    words = " ".join(" ".join(lines).split())
    assert LOSSES in words
    assert "no compiler " * 11 in words
    heads = [lines[index] for index in begins[1:]]
    assert {head.index("x  ") for head in heads if "x  " in head} == {heads[0].index("x  ")}


def test_reasons_stand_beside_their_rows_where_there_is_room() -> None:
    lines = table(ROWS, 1000).plain.splitlines()
    assert len(lines) == 1 + len(ROWS)
    assert lines[1].endswith(f"kept: {LOSSES}")


def test_what_the_final_race_did_not_confirm_is_not_called_kept() -> None:
    unsure = replace(race(1.4), verdict=Verdict.INCONCLUSIVE)
    row = Outcome("async_copy", Status.KEPT, "why", {}, unsure)
    assert "not confirmed: why" in plain(row)
    assert "not confirmed" in table([row], 100).plain
    assert "kept" not in plain(row)


def test_columns_without_a_figure_are_left_out() -> None:
    rows = [Outcome("tf32", Status.NOT_APPLICABLE, "the model is not on a CUDA device")]
    head, row = table(rows, 100).plain.splitlines()
    assert head == "technique"
    assert row == "tf32       not applicable: the model is not on a CUDA device"


def test_a_reason_tells_of_companions_and_of_a_later_start() -> None:
    words = reason(ROWS[1])
    assert words.startswith("with pinned_memory; losses agree")
    assert "adds 4.0 s of start-up; pays off after" in words
    assert "start-up" not in reason(ROWS[0])
    assert plain(ROWS[3]) == "channels_last 1.00x [0.95, 1.05] memory same not faster: the same"


def test_a_ratio_whose_interval_is_unknown_is_not_printed() -> None:
    unknown = replace(race(4.71), estimate=Estimate(4.71, 0.0, math.inf, 1, 0.95), memory=0.89)
    row = Outcome("tf32", Status.INCONCLUSIVE, "no verdict", {}, unknown)
    assert plain(row) == "tf32 - - memory 12% more inconclusive: no verdict"
    less = Outcome("tf32", Status.INCONCLUSIVE, "", {}, replace(unknown, memory=1.25))
    assert "memory 20% less" in plain(less)


@pytest.mark.parametrize("pairs", [2, 12])
def test_hours_of_racing_are_never_advised(pairs: int) -> None:
    few = replace(race(1.0), estimate=Estimate(1.0, 0.5, 2.0, pairs, 0.95))
    row = Outcome("tf32", Status.INCONCLUSIVE, "no verdict", {}, few, seconds_needed=15000.0)
    assert "more than 15 min at this noise: race it on a calmer machine" in reason(row)
    assert reason(replace(row, seconds_needed=290.0)) == f"no verdict; {UNKNOWN_TIME}"
    close = replace(race(1.0), estimate=Estimate(1.1, 0.9, 1.4, pairs, 0.95))
    known = reason(replace(row, race=close, seconds_needed=290.0))
    assert known == "no verdict; about 5 min more would settle it"


def test_a_technique_that_changed_nothing_has_no_figure() -> None:
    row = Outcome("tf32", Status.NOT_APPLICABLE, "nothing to change", {}, race(0.71))
    assert plain(row) == "tf32 not applicable: nothing to change"


def test_a_row_says_that_both_were_launched_again() -> None:
    row = Outcome("tf32", Status.INCONCLUSIVE, "no verdict within its time", {}, race(1.4))
    assert "starts of" not in reason(row)
    again = replace(row, race=replace(race(1.4), launches=2))
    assert reason(again) == "no verdict within its time; over 2 starts of both programs"
