"""Which sizes a search tries and answers, with measurements that are made up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import hotlap.batch.batch_search as module
from hotlap.batch.batch_result import BatchFacts, BatchResult, SizeResult
from hotlap.batch.batch_search import MORE_PAIRS, PAIRS, BatchSearchConfig, Search
from hotlap.batch.contestant import OutOfTime, SizedCommand
from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting


class Lockstep:
    """Fits up to `room`, holds for longer up to `lasting`, at the rate that `rate` gives."""

    def __init__(self, room: int, rate: Callable[[int], float], lasting: int = 1 << 30) -> None:
        self.room, self.rate, self.lasting = room, rate, lasting
        self.raced_sizes: list[int] = []
        self.held_sizes: list[int] = []
        self.first = 0
        self.start_up = 0.0
        self.reference_live = True
        self.interrupt_at = -1
        self.asleep = False

    @property
    def reference_rate(self) -> float:
        return self.rate(self.first) if self.first else 0.0

    def raced(self, size: int, _: int) -> SizeResult:
        if size == self.interrupt_at:
            raise KeyboardInterrupt
        self.raced_sizes.append(size)
        if size > self.room:
            return SizeResult(size, fits=False, why="out of memory")
        self.first = self.first or size
        ratio = self.rate(size) / self.rate(self.first)
        return SizeResult(size, True, self.rate(size), ratio, ratio, ratio)

    def held(self, size: int, _: int, *, warm: bool = False) -> SizeResult:
        self.held_sizes.append(size)
        if size > self.room or (warm and size > self.lasting):
            return SizeResult(size, fits=False, why="out of memory")
        return SizeResult(size, fits=True)

    def paired(self, size: int) -> bool:
        return size != self.first

    def close(self) -> None:
        pass


class Silent:
    def stage(self, _: str) -> None:
        pass

    def row(self, _: SizeResult) -> None:
        pass


def search(monkeypatch: pytest.MonkeyPatch, track: Lockstep, *, own: int = 32, samples: int = 0,
           most: int = 0, seconds: float = 60.0) -> BatchResult:  # fmt: skip
    monkeypatch.setattr(module, "observe_script", lambda _: BatchFacts(own, samples=samples))
    monkeypatch.setattr(module, "Lockstep", lambda *_: track)
    plan: Any = SizedCommand(Setting(("python",), Mode.RACE))
    return Search(BatchSearchConfig(plan, most, seconds), Silent()).run()


def saturating(size: int) -> float:
    return size / (size + 40)


def peaked(size: int) -> float:
    return 1.0 - abs(size - 100) / 500


@pytest.mark.parametrize("room", [200, 511, 800, 1000])
def test_the_largest_is_found_by_multiples_of_8(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    track = Lockstep(room, saturating)
    found = search(monkeypatch, track)
    assert room - max(16, room // 24) <= found.largest <= room
    assert found.largest % 8 == 0
    assert found.bound.startswith("memory: at ")
    assert found.bound.endswith("out of memory")
    best = max(saturating(row.size) for row in found.rows.values() if row.rate)
    assert saturating(found.fastest) >= 0.98 * best
    assert set(found.confirmed) == {found.largest, found.fastest}


def test_the_fastest_need_not_be_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(monkeypatch, Lockstep(1 << 20, peaked), samples=500)
    assert found.largest == 500
    assert found.bound == "the data set's size"
    assert found.fastest in {96, 128}


def test_smaller_sizes_are_tried_where_the_smallest_is_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = search(monkeypatch, Lockstep(1 << 20, lambda size: 1 / (size + 5)), most=64)
    assert found.fastest == 1
    assert found.bound == "--max"


def test_an_own_size_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Lockstep(100, saturating)
    found = search(monkeypatch, track, own=256)
    assert track.raced_sizes[:3] == [256, 128, 64]
    assert found.largest == 96
    assert not found.rows[256].fits


def test_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrialFailedError, match="not even 1: out of memory"):
        search(monkeypatch, Lockstep(0, saturating))


def test_an_answer_that_does_not_last_is_stepped_down(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(monkeypatch, Lockstep(500, saturating, lasting=450))
    assert 400 <= found.largest <= 450
    assert found.fastest <= 450
    assert set(found.confirmed) == {found.largest, found.fastest}


def test_an_interrupt_keeps_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Lockstep(1 << 20, saturating)
    track.interrupt_at = 128
    found = search(monkeypatch, track)
    assert found.interrupted
    assert found.largest == 64
    assert found.confirmed == ()


def test_some_time_is_left_to_compare_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    track = Lockstep(1 << 20, saturating)
    asked: list[tuple[int, int]] = []

    def raced(size: int, pairs: int) -> SizeResult:
        now[0] += pairs
        asked.append((size, pairs))
        return Lockstep.raced(track, size, pairs)

    def held(size: int, steps: int, *, warm: bool = False) -> SizeResult:
        now[0] += 1.0
        return Lockstep.held(track, size, steps, warm=warm)

    monkeypatch.setattr(track, "raced", raced)
    monkeypatch.setattr(track, "held", held)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    found = search(monkeypatch, track, seconds=40.0)
    assert not found.largest_known
    explored = [size for size, pairs in asked if pairs == PAIRS]
    assert len(explored) * PAIRS < 40
    assert (explored[-1], MORE_PAIRS) in asked


def test_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Lockstep(1 << 20, saturating)
    found = search(monkeypatch, track, seconds=0.0)
    assert track.raced_sizes == [32]
    assert found.largest == 32
    assert found.fastest == 0  # compared with nothing
    assert not found.largest_known
    assert found.confirmed == ()


@pytest.mark.parametrize("step", [3.0, 6.0, 9.0])
def test_long_steps_are_compared_before_answers_are_confirmed(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty confirming steps of two sizes would take more than the whole budget."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    track = Timed(now, start_up=15.0, step=step / 32)
    track.deadline = 240.0
    found = search(monkeypatch, track, seconds=240.0)
    assert found.fastest
    assert len([row for row in found.rows.values() if row.rate]) > 1


class Timed(Lockstep):
    """A track whose trials take time: start-up and steps that grow with the size."""

    def __init__(self, now: list[float], start_up: float, step: float, room: int = 1 << 20) -> None:
        super().__init__(room, saturating)
        self.now, self.start, self.step = now, start_up, step
        self.deadline = 0.0

    def _pass(self, seconds: float) -> None:
        self.now[0] += seconds
        if self.now[0] > self.deadline:
            self.now[0] = self.deadline
            raise OutOfTime

    def raced(self, size: int, pairs: int) -> SizeResult:
        self._pass(self.start)
        self.start_up = self.start
        blocks = max(0.3, self.step * size) + max(0.3, self.step * 32)
        self._pass(pairs * blocks if size <= self.room else 0)
        return replace(super().raced(size, pairs), step=self.step * size)

    def held(self, size: int, steps: int, *, warm: bool = False) -> SizeResult:
        self._pass(self.start)
        self._pass(steps * self.step * size if size <= self.room else 0)
        return replace(super().held(size, steps, warm=warm), step=self.step * size)


@pytest.mark.parametrize("seconds", [5.0, 20.0, 40.0, 60.0, 120.0, 300.0])
@pytest.mark.parametrize(("start_up", "step"), [(2.0, 1e-4), (8.0, 0.001), (15.0, 0.03)])
@pytest.mark.parametrize("room", [100, 1 << 20])
def test_the_budget_is_kept_and_largest_is_not_said_without_trying(
    room: int, start_up: float, step: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    track = Timed(now, start_up, step, room)
    track.deadline = seconds
    try:
        found = search(monkeypatch, track, seconds=seconds)
    except TrialFailedError as error:
        assert "the budget of" in str(error)
        assert "--budget" in error.hint
        assert seconds < 3 * start_up + 20 * step * 32
        return
    assert now[0] <= seconds
    refused = [row.size for row in found.rows.values() if not row.fits]
    assert found.largest_known == any(size > found.largest for size in refused)
    if seconds > 6 * start_up + 100 * step * 64:
        assert found.largest > 32
        assert set(found.confirmed) == {found.largest, found.fastest}


def test_what_the_races_do_not_show_is_not_called_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Lockstep(1 << 20, lambda size: 1.0 if size == 32 else 1.05)
    plain = track.raced

    def raced(size: int, pairs: int) -> SizeResult:
        row = plain(size, pairs)
        return row if row.ratio == 1.0 else replace(row, low=0.95, high=1.16)

    monkeypatch.setattr(track, "raced", raced)
    found = search(monkeypatch, track, most=64)
    assert found.fastest == 32
    assert found.promising == 64
