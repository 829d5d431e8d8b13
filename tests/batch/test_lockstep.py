"""Ratios are of samples per second, with the race's interval."""

import math

import pytest

import hotlap.batch.lockstep as module
from hotlap.batch.contestant import SizedCommand, TimedBlock, TooLarge
from hotlap.batch.lockstep import Lockstep
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting

BLOCKS: dict[int, TimedBlock] = {}


class Contestant:
    """Runs the same block again and again."""

    def __init__(self, sized: SizedCommand, size: int) -> None:
        self.size, self.world, self.memory, self.threads = size, 1, 0, 2
        self.sized, self.live = sized, False
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


def test_once_the_machine_is_busy_all_threads_sleep(
    lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    busy = [False]
    lockstep._busy = lambda: busy[0]
    for size, seconds in ((16, 40.0), (32, 40.0), (64, 1.0)):
        BLOCKS[size] = TimedBlock(samples=5 * size, seconds=seconds, steps=5)
    assert lockstep.raced(16, 4).rate == pytest.approx(2)
    assert lockstep.raced(32, 4).rate == pytest.approx(4)
    assert not lockstep.asleep
    busy[0] = True
    BLOCKS[16] = TimedBlock(samples=80, seconds=1.0, steps=5)
    found = lockstep.raced(64, 4)
    assert lockstep.asleep
    assert lockstep.sized.setting.passive_wait
    assert (lockstep.reference_rate, found.ratio) == pytest.approx((80, 4.0))


def test_what_is_timed_alone_on_a_busy_machine_is_not_compared(
    lockstep: Lockstep, monkeypatch: pytest.MonkeyPatch
) -> None:
    lockstep._busy = lambda: True
    for size in (16, 32):
        BLOCKS[size] = TimedBlock(samples=5 * size, seconds=1.0, steps=5)
    lockstep.raced(16, 4)

    def too_large(*_: object) -> None:
        raise TooLarge("out of memory")

    monkeypatch.setattr(lockstep, "_beside", too_large)
    found = lockstep.raced(32, 4)
    assert found.fits
    assert (found.rate, found.ratio) == (0.0, 0.0)
