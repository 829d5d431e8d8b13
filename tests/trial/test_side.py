"""How a side settles: steady, and the length of its epoch where that may be a block."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.protocol import BlockReport
from hotlap.core.spec import Mode
from hotlap.trial import side as module
from hotlap.trial.launch import PASSIVE_WAIT, Setting, child_environment
from hotlap.trial.side import LONGEST_BLOCK, Pace, Patience, Side, block_size, settle
from hotlap.trial.trial import Block


@dataclass
class Training:
    """A trial that only pretends to run: `epoch` steps of `step` seconds, then `between` seconds.

    The loader says that it has `batches`. The threads wait `waits[i]` times as long as they run in
    block i. 0 steps: no loader. `filling`: seconds more that each step of the first epoch takes.
    `kind`: what happens at the start of an epoch.
    """

    epoch: int
    step: float
    between: float = 0.0
    batches: int = 0
    waits: list[float] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    filling: float = 0.0
    kind: str = "epoch"

    def __post_init__(self) -> None:
        self.run(1)

    def run(self, steps: int) -> Block:
        at = self.blocks[-1].at if self.blocks else 0
        index = len(self.blocks)
        stretch = 1 + (self.waits[index] if index < len(self.waits) else 0.0)
        starts = [n for n in range(at + 1, at + steps + 1) if self.epoch and n % self.epoch == 1]
        special = tuple((n, self.kind, (self.step + self.between) * stretch) for n in starts)
        ran = steps * self.step + len(starts) * self.between
        ran += self.filling * max(0, min(at + steps, self.epoch) - at)
        reports = (BlockReport(0, 1, 0.0, batches=self.batches),)
        self.blocks.append(
            Block(
                steps, at + steps, ran * stretch, ran, special, 0, 0, reports, ran,
                ran * (stretch - 1),
            )
        )  # fmt: skip
        return self.blocks[-1]


def settled(training: Training, **patience: Any) -> Pace:
    return settle(training, Patience(**patience))  # type: ignore[arg-type]


def seconds(training: Training) -> float:
    return sum(block.wall for block in training.blocks)


@pytest.mark.parametrize("epoch_seconds", [0.5, 1.0, 2.0, 3.5])
def test_an_epoch_that_fits_into_a_block_is_found(epoch_seconds: float) -> None:
    training = Training(100, epoch_seconds / 100, between=0.3, batches=100)
    pace = settled(training)
    assert pace.epoch == 100
    assert pace.epoch_seconds == pytest.approx(epoch_seconds + 0.3, rel=0.02)
    assert pace.whole is (epoch_seconds + 0.3 < LONGEST_BLOCK)


def test_one_that_does_not_is_not_waited_for() -> None:
    long = Training(100_000, 0.01, batches=100_000)
    assert settled(long).epoch == 0
    assert seconds(long) < 1.0, "the loader says how long an epoch is"
    none = Training(0, 0.01)
    assert settled(none).epoch == 0
    assert seconds(none) < 1.0, "there is no loader"
    unknown = Training(100_000, 0.01)
    assert settled(unknown).epoch == 0
    assert 4.0 < seconds(unknown) < 8.0, "the loader does not know"


def test_an_epoch_of_many_micro_batches_is_found() -> None:
    """An epoch of 400 batches has but 100 steps."""
    assert settled(Training(100, 0.02, batches=400)).epoch == 100


def test_without_a_loader_what_lies_between_two_evaluations_is_an_epoch() -> None:
    pace = settled(Training(40, 0.02, between=0.3, kind="eval"))
    assert (pace.epoch, pace.whole) == (40, True)
    assert pace.epoch_seconds == pytest.approx(1.1)


def test_with_a_loader_an_evaluation_ends_no_epoch() -> None:
    class Evaluating(Training):
        def run(self, steps: int) -> Block:
            block = super().run(steps)
            at = range(block.at - steps + 1, block.at + 1)
            more = tuple((n, "eval", self.step) for n in at if n % 10 == 5)
            self.blocks[-1] = replace(block, special=(*block.special, *more))
            return self.blocks[-1]

    assert settled(Evaluating(100, 0.01, batches=100)).epoch == 100


def test_no_epoch_is_looked_for_where_the_other_side_has_none_that_is_short() -> None:
    training = Training(100_000, 0.01)
    assert settled(training, epochs=False).epoch == 0
    assert seconds(training) < 1.0


def test_a_later_launch_need_not_look_again() -> None:
    known = Pace(0.02, 100, 2.3, 1.5)
    training = Training(100, 0.02, between=0.3, batches=100)
    pace = settled(training, known=known)
    assert (pace.epoch, pace.epoch_seconds, pace.warmup) == (100, 2.3, 1.5)
    assert seconds(training) < 1.0


def test_a_step_is_told_without_the_waits_for_a_core() -> None:
    busy = Training(0, 0.02, waits=[0, 3, 1, 4, 2, 3, 1, 5, 2, 3, 4, 1, 2])
    assert settled(busy).step == pytest.approx(0.02)
    assert len(busy.blocks) < 10, "that others come and go does not make it unsteady"


def test_what_an_epoch_has_once_is_told_without_the_waits_for_a_core() -> None:
    """A burst of load in the one epoch that is seen is not taken for a long evaluation."""
    for waits in ([], [1.0] * 40):
        pace = settled(Training(50, 0.02, between=0.1, batches=50, waits=waits))
        assert pace.epoch == 50
        assert pace.once_an_epoch == pytest.approx(0.1 / 50, rel=0.05)


def test_the_first_epoch_is_run_through_where_it_is_asked_for() -> None:
    training = Training(1000, 0.02, batches=1000)
    assert settled(training, whole_epoch=True).epoch == 1000
    assert training.blocks[-1].at > 1000


def test_the_pace_is_that_behind_the_epoch_that_fills_a_cache() -> None:
    pace = settled(Training(45, 0.002, between=0.02, batches=45, filling=0.015), whole_epoch=True)
    assert pace.step == pytest.approx(0.002)
    assert pace.epoch_seconds == pytest.approx(45 * 0.002 + 0.02)
    assert pace.warmup == pytest.approx(45 * 0.015, rel=0.3)


def test_an_epoch_lasts_as_long_as_the_last_one_that_was_seen() -> None:
    """The evaluation behind the first epoch may fill a cache as well."""

    class Evaluating(Training):
        def run(self, steps: int) -> Block:
            block = super().run(steps)
            special = tuple(
                (at, kinds, seconds + (0.2 if at == self.epoch + 1 else 0.0))
                for at, kinds, seconds in block.special
            )
            self.blocks[-1] = replace(block, special=special)
            return self.blocks[-1]

    pace = settled(Evaluating(20, 0.004, between=0.01, batches=20))
    assert pace.epoch_seconds == pytest.approx(20 * 0.004 + 0.01)


def pace_of(step: float, epoch: int = 0, epoch_seconds: float = 0.0) -> Pace:
    return Pace(step, epoch, epoch_seconds, 0.0)


def test_blocks_are_long_enough_by_the_geometric_mean_of_both_sides() -> None:
    assert block_size(pace_of(0.016), pace_of(0.0025)) == ("step", 16, pytest.approx(16 * 0.0185))
    assert block_size(pace_of(0.01), pace_of(0.01)).steps == 10
    slow, fast = pace_of(0.016, 45, 0.8), pace_of(0.0025, 45, 0.1)
    assert block_size(slow, fast) == ("epoch", 45, pytest.approx(0.9))
    assert block_size(slow, fast, longest=5.0).unit == "step"
    assert block_size(slow, pace_of(0.0025, 46, 0.14)).unit == "step", "not the same epochs"
    assert block_size(slow, pace_of(1.0, 45, 45.0)).unit == "step", "too long for a block"


def test_passive_waiting_reaches_the_program_and_leaves_the_users_own_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in PASSIVE_WAIT:
        monkeypatch.delenv(name, raising=False)
    setting = Setting(("python",), Mode.RACE, passive_wait=True)
    env = child_environment(setting, tmp_path / "spec.json")
    assert env["OMP_WAIT_POLICY"] == "passive"
    assert env["KMP_BLOCKTIME"] == "0"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    env = child_environment(setting, tmp_path / "spec.json")
    assert env["OMP_WAIT_POLICY"] == "active"
    plain = Setting(("python",), Mode.RACE)
    assert "KMP_BLOCKTIME" not in child_environment(plain, tmp_path / "spec.json")


def test_a_side_hands_its_policy_to_what_it_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Setting] = []

    def trial(setting: Setting, patience: float) -> Any:
        made.append(setting)
        return SimpleNamespace(blocks=[], close=lambda: None)

    monkeypatch.setattr(module, "Trial", trial)
    side = Side(Setting(("python",), Mode.RACE), passive_wait=True)
    side.start()
    side.start()
    assert [setting.passive_wait for setting in made] == [True]
    side.close()
    side.passive_wait = False
    side.start()
    assert not made[-1].passive_wait


@dataclass
class Live(Training):
    """One that a side may run on."""

    losses: list[float] = field(default_factory=list)
    held: dict[str, list[str]] = field(default_factory=dict)
    inert: dict[str, str] = field(default_factory=dict)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    deadline: float = 0.0
    switched: bool = False

    def pause(self) -> None: ...


def raced(training: Live) -> Side:
    side = Side(Setting(("python", "t.py"), Mode.RACE))
    side.trial, side._settled = training, True  # type: ignore[assignment]
    side.pace = Pace(training.step, 0, 0.0, 0.0)
    return side


def test_an_epoch_that_was_too_long_to_settle_through_is_seen_when_it_is_wanted() -> None:
    side = raced(Live(125, 0.058, 0.5, 125))
    assert side.longest_epoch == pytest.approx(125 * 0.058)
    side.see_epoch()
    assert side.pace is not None
    assert (side.pace.epoch, side.happened["epoch"]) == (125, 2)
    assert side.pace.epoch_seconds == pytest.approx(125 * 0.058 + 0.5)
    assert side.longest_epoch == side.pace.epoch_seconds
    size = block_size(side.pace, side.pace, whole=True)
    assert (size.unit, size.steps) == ("epoch", 125)
    assert block_size(side.pace, side.pace).unit == "step"


def test_without_an_epoch_in_sight_none_is_waited_for() -> None:
    side = raced(Live(0, 0.058))
    side.see_epoch()
    assert side.at == 1
    unseen = raced(Live(0, 0.058, batches=100))
    unseen.see_epoch()
    assert unseen.at < 300
