"""Races of a live process with itself."""

import math
import sys
from pathlib import Path

import pytest

from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting
from hotlap.trial.side import Side
from hotlap.trial.stats import Verdict
from hotlap.trial.stopping import StoppingRules
from hotlap.trial.switched import SWITCH_SD, race_switched, switched_evidence
from light import light

SCRIPT = """
import sys, time
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    if torch.get_float32_matmul_precision() != "highest":
        if "slow" in sys.argv:
            time.sleep(0.004)
        if "fails" in sys.argv:
            raise KeyError("precision")
    time.sleep(0.02 if "long" in sys.argv else 0.001)
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()
"""
LONG = "1000000"


@pytest.fixture
def side(tmp_path: Path, request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    words = getattr(request, "param", (LONG,))
    (tmp_path / "train.py").write_text(light(SCRIPT))
    command = (sys.executable, str(tmp_path / "train.py"), *words)
    made = Side(
        Setting(command, Mode.RACE, seed=0, scratch=tmp_path / "s", output=tmp_path / "log")
    )
    yield made
    made.close()


TF32 = {"tf32": {"precision": "high"}}  # which does nothing by itself on a CPU


@pytest.mark.clock
@pytest.mark.parametrize("side", [(LONG, "slow")], indirect=True)
def test_what_is_switched_on_shows_in_its_blocks_alone(side: Side) -> None:
    found = race_switched(side, TF32, StoppingRules(seconds=4, plain_steps=True))
    assert found.verdict is Verdict.SLOWER
    assert found.b_step > found.a_step + 0.003
    assert found.switched
    assert not found.same_steps
    assert "tf32" in side.held


def test_losses_end_with_the_first_switch_and_begin_anew_with_a_new_process(side: Side) -> None:
    side.ready()
    before = list(side.losses)
    assert before
    race_switched(side, TF32, StoppingRules(seconds=1, max_pairs=6))
    assert side.losses == before
    assert side.at > len(before)
    assert side.also == {}  # nothing is left on behind a race
    side.block(1)
    assert side.trial is not None
    assert side.trial.also == {}
    side.close()
    side.ready()
    side.block(2 * len(before))
    assert side.losses[: len(before)] == before
    assert len(side.losses) > len(before)


@pytest.mark.slow
@pytest.mark.parametrize("side", [("100", "long")], indirect=True)  # a block is a step or two
def test_a_program_that_ends_is_started_again_and_switched_again(side: Side) -> None:
    rules = StoppingRules(seconds=90, max_pairs=60, precision=0.0, launches=1)
    found = race_switched(side, TF32, rules)
    assert found.estimate.pairs == 60
    assert found.restarts > 0
    assert side.launches == 1 + found.restarts


@pytest.mark.parametrize("side", [(LONG, "fails")], indirect=True)
def test_a_program_that_fails_with_it_is_a_failure(side: Side) -> None:
    with pytest.raises(TrialFailedError, match="KeyError"):
        race_switched(side, TF32, StoppingRules(seconds=5))
    assert side.trial is None
    assert side.also == {}


@pytest.mark.slow
def test_a_race_goes_on_in_the_same_process_at_the_level_of_the_first(side: Side) -> None:
    rules = StoppingRules(seconds=20, max_pairs=8, precision=0.0, candidates=5, launches=1)
    evidence = switched_evidence(rules)
    first = race_switched(side, TF32, rules, evidence=evidence)
    second = race_switched(side, TF32, rules, evidence=evidence)
    assert (first.estimate.pairs, second.estimate.pairs) == (8, 16)
    assert second.launches == 1
    assert second.estimate.level == pytest.approx(0.99)
    side.close()
    third = race_switched(side, TF32, rules, evidence=evidence)
    assert third.launches == 2


@pytest.mark.slow
def test_what_launches_differ_by_is_part_of_the_interval(side: Side) -> None:
    rules = StoppingRules(seconds=4, max_pairs=40, precision=0.0, launches=1)
    evidence = switched_evidence(rules)
    found = race_switched(side, TF32, rules, evidence=evidence)
    half = math.log(found.estimate.high / found.estimate.low) / 2
    assert half > 2.7 * SWITCH_SD, "however many pairs there are"
    assert found.estimate.low < 1.0 < found.estimate.high
