"""Ratios are of samples per second, with the race's interval."""

import math

import pytest

import hotlap.batch.lockstep as module
from hotlap.batch.contestant import SizedCommand, TimedBlock
from hotlap.batch.lockstep import Lockstep
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting

BLOCKS: dict[int, TimedBlock] = {}


class Contestant:
    """Runs the same block again and again."""

    def __init__(self, _: SizedCommand, size: int) -> None:
        self.size, self.world, self.memory = size, 1, 0
        self.step, self.start_up = 0.1, 1.0
        self.report = None
        self.starts = 0

    def ready(self) -> None:
        pass

    def timed(self) -> TimedBlock:
        return BLOCKS[self.size]

    def close(self) -> None:
        self.starts += 1


@pytest.fixture
def lockstep(monkeypatch: pytest.MonkeyPatch) -> Lockstep:
    monkeypatch.setattr(module, "Contestant", Contestant)
    return Lockstep(SizedCommand(Setting(("python",), Mode.RACE)))


def test_a_constant_effective_batch_is_seen(lockstep: Lockstep) -> None:
    """Twice the micro-batch and half as many of them: the step has as many samples as before."""
    BLOCKS[16] = TimedBlock(samples=0, seconds=1.0, steps=5, elements=5 * 64 * 128)
    BLOCKS[32] = TimedBlock(samples=0, seconds=1.0, steps=5, elements=5 * 64 * 128)
    assert lockstep.raced(16, 4).rate == pytest.approx(80)
    assert lockstep.raced(32, 5).ratio == pytest.approx(1.0)


@pytest.mark.parametrize("elements", [0, 128])
def test_without_a_loader_the_option_gives_the_samples(lockstep: Lockstep, elements: int) -> None:
    for size in (16, 32):
        BLOCKS[size] = TimedBlock(0, seconds=1.0, steps=5, elements=5 * size * elements)
    assert lockstep.raced(16, 4).rate == pytest.approx(80)
    assert lockstep.raced(32, 5).ratio == pytest.approx(2.0)


def test_samples_of_loaders_come_first_and_launches_widen_the_interval(lockstep: Lockstep) -> None:
    BLOCKS[16] = TimedBlock(samples=70, seconds=1.0, steps=5, elements=9)
    BLOCKS[32] = TimedBlock(samples=105, seconds=1.0, steps=5, elements=9)
    lockstep.raced(16, 4)
    row = lockstep.raced(32, 5)
    assert row.ratio == pytest.approx(1.5)
    assert 1.0 < row.low < 1.45  # one launch of each: they may differ by some percent
    assert 1.55 < row.high < math.inf
    again = lockstep.raced(32, 10)  # launched anew
    assert row.low < again.low
