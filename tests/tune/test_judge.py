"""What a raced candidate has come to."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.trial.parity import Parity
from hotlap.trial.race import Race
from hotlap.trial.stats import Estimate, Verdict
from hotlap.tune.judge import judged
from hotlap.tune.result import Outcome, Status

PARITY = Parity(True, "bitwise", 100, 0.0, 0.0, "losses equal in all 100 steps")
RACE = Race(
    Estimate(4.26, 0.23, 77.0, 5, 0.95), Verdict.UNDECIDED, "step", True, 1, 1, 1, 1, 0, 0, 9
)


def fate(race: Race, parity: Parity = PARITY, *, held: bool = True) -> Outcome:
    trial: Any = SimpleNamespace(held={"tf32": []} if held else {}, inert={"tf32": "no matmul"})
    row = Outcome("tf32", Status.KEPT, race=race, parity=parity)
    return judged(row, SimpleNamespace(trial=trial))  # type: ignore[arg-type]


def test_a_gain_with_parity_is_kept() -> None:
    assert fate(replace(RACE, verdict=Verdict.FASTER)).status is Status.KEPT


def test_what_did_not_take_hold_or_broke_parity_is_not() -> None:
    found = fate(replace(RACE, verdict=Verdict.FASTER), held=False)
    assert (found.status, found.reason) == (Status.NOT_APPLICABLE, "no matmul")
    broken = replace(PARITY, kept=False, reason="off by 3 %")
    found = fate(replace(RACE, verdict=Verdict.FASTER), broken)
    assert (found.status, found.reason) == (Status.BROKE_PARITY, "off by 3 %")


@pytest.mark.parametrize(
    ("verdict", "unlikely", "status", "reason"),
    [
        (Verdict.SLOWER, True, Status.NO_GAIN, "slower"),
        (Verdict.SAME, False, Status.NO_GAIN, "not faster"),
        (Verdict.UNDECIDED, True, Status.NO_GAIN, "not faster"),
        (Verdict.UNDECIDED, False, Status.UNDECIDED, "the time it had did not tell"),
    ],
)
def test_no_gain_is_said_of_what_has_none_not_of_what_time_did_not_tell(
    verdict: Verdict, unlikely: bool, status: Status, reason: str
) -> None:
    found = fate(replace(RACE, verdict=verdict, gain_unlikely=unlikely))
    assert found.status is status
    assert found.reason.startswith(reason)


def test_a_gain_that_fresh_processes_did_not_repeat_is_none() -> None:
    found = fate(replace(RACE, gain_unlikely=True, launches=2))
    assert (found.status, found.reason) == (
        Status.NO_GAIN,
        "fresh processes did not repeat the gain",
    )
