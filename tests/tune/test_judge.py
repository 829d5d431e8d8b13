"""What a raced candidate has come to."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.trial.parity import Parity
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Estimate, Verdict
from hotlap.trial.stopping import StopReason
from hotlap.tune.judge import judged
from hotlap.tune.result import Outcome, Status

PARITY = Parity(True, "bitwise", 100, 0.0, 0.0, "losses equal in all 100 steps")
RACE = RaceResult(
    Estimate(4.26, 0.23, 77.0, 5, 0.95), Verdict.INCONCLUSIVE, "step", True, 1, 1, 1, 1, 0, 0, 9
)


def fate(race: RaceResult, parity: Parity = PARITY, *, held: bool = True) -> Outcome:
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
    ("verdict", "not_faster", "stopped", "status", "reason"),
    [
        (Verdict.SLOWER, True, StopReason.DECIDED, Status.NO_GAIN, "slower"),
        (Verdict.SAME, False, StopReason.DECIDED, Status.NO_GAIN, "not faster"),
        (Verdict.INCONCLUSIVE, True, StopReason.DECIDED, Status.NO_GAIN, "not faster"),
        (Verdict.INCONCLUSIVE, False, StopReason.FUTILE, Status.INCONCLUSIVE, "dropped early"),
        (Verdict.INCONCLUSIVE, False, StopReason.TIME, Status.INCONCLUSIVE, "inconclusive within"),
    ],
)
def test_no_gain_is_said_only_where_the_interval_excludes_one(
    verdict: Verdict, not_faster: bool, stopped: StopReason, status: Status, reason: str
) -> None:
    found = fate(replace(RACE, verdict=verdict, not_faster=not_faster, stopped=stopped))
    assert found.status is status
    assert found.reason.startswith(reason)
