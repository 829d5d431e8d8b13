"""Which sizes a search tries and answers, on a track that is made up."""

from collections.abc import Callable
from typing import Any

import pytest

import hotlap.batch.search as module
from hotlap.batch.contender import Plan
from hotlap.batch.result import Found, Row, Script
from hotlap.batch.search import MORE_PAIRS, PAIRS, Orders, Search
from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode
from hotlap.trial.launch import Setting


class Track:
    """Fits up to `room`, holds for longer up to `lasting`, at the rate that `rate` gives."""

    def __init__(self, room: int, rate: Callable[[int], float], lasting: int = 1 << 30) -> None:
        self.room, self.rate, self.lasting = room, rate, lasting
        self.raced_sizes: list[int] = []
        self.held_sizes: list[int] = []
        self.first = 0
        self.interrupt_at = -1

    def raced(self, size: int, _: int) -> Row:
        if size == self.interrupt_at:
            raise KeyboardInterrupt
        self.raced_sizes.append(size)
        if size > self.room:
            return Row(size, fits=False, why="out of memory")
        self.first = self.first or size
        ratio = self.rate(size) / self.rate(self.first)
        return Row(size, True, self.rate(size), ratio, ratio, ratio)

    def held(self, size: int, _: int, *, warm: bool = False) -> Row:
        self.held_sizes.append(size)
        if size > self.room or (warm and size > self.lasting):
            return Row(size, fits=False, why="out of memory")
        return Row(size, fits=True)

    def paired(self, size: int) -> bool:
        return size != self.first

    def close(self) -> None:
        pass


class Silent:
    def stage(self, _: str) -> None:
        pass

    def row(self, _: Row) -> None:
        pass


def search(monkeypatch: pytest.MonkeyPatch, track: Track, *, own: int = 32, samples: int = 0,
           most: int = 0, seconds: float = 60.0) -> Found:  # fmt: skip
    monkeypatch.setattr(module, "look", lambda _: Script(own, samples=samples))
    monkeypatch.setattr(module, "Track", lambda _: track)
    plan: Any = Plan(Setting(("python",), Mode.RACE))
    return Search(Orders(plan, most, seconds), Silent()).run()


def saturating(size: int) -> float:
    return size / (size + 40)


def peaked(size: int) -> float:
    return 1.0 - abs(size - 100) / 500


@pytest.mark.parametrize("room", [200, 511, 800, 1000])
def test_the_largest_is_found_by_multiples_of_8(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track(room, saturating)
    found = search(monkeypatch, track)
    assert room - max(16, room // 24) <= found.largest <= room
    assert found.largest % 8 == 0
    assert found.bound == "memory: out of memory"
    best = max(saturating(row.size) for row in found.rows.values() if row.rate)
    assert saturating(found.fastest) >= 0.98 * best
    assert set(found.confirmed) == {found.largest, found.fastest}


def test_the_fastest_need_not_be_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(monkeypatch, Track(1 << 20, peaked), samples=500)
    assert found.largest == 500
    assert found.bound == "the data set's size"
    assert found.fastest in {96, 128}


def test_smaller_sizes_are_tried_where_the_smallest_is_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = search(monkeypatch, Track(1 << 20, lambda size: 1 / (size + 5)), most=64)
    assert found.fastest == 1
    assert found.bound == "--max"


def test_an_own_size_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track(100, saturating)
    found = search(monkeypatch, track, own=256)
    assert track.raced_sizes[:3] == [256, 128, 64]
    assert found.largest == 96
    assert not found.rows[256].fits


def test_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrialFailedError, match="not even 1: out of memory"):
        search(monkeypatch, Track(0, saturating))


def test_an_answer_that_does_not_last_is_stepped_down(monkeypatch: pytest.MonkeyPatch) -> None:
    found = search(monkeypatch, Track(500, saturating, lasting=450))
    assert 400 <= found.largest <= 450
    assert found.fastest <= 450
    assert set(found.confirmed) == {found.largest, found.fastest}


def test_an_interrupt_keeps_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track(1 << 20, saturating)
    track.interrupt_at = 128
    found = search(monkeypatch, track)
    assert found.interrupted
    assert found.largest == 64
    assert found.confirmed == ()


def test_some_time_is_left_to_compare_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    track = Track(1 << 20, saturating)
    asked: list[tuple[int, int]] = []

    def raced(size: int, pairs: int) -> Row:
        now[0] += pairs
        asked.append((size, pairs))
        return Track.raced(track, size, pairs)

    monkeypatch.setattr(track, "raced", raced)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    found = search(monkeypatch, track, seconds=30.0)
    assert "--budget" in found.bound
    explored = [size for size, pairs in asked if pairs == PAIRS]
    assert len(explored) * PAIRS < 30
    assert (explored[-1], MORE_PAIRS) in asked


def test_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    track = Track(1 << 20, saturating)
    found = search(monkeypatch, track, seconds=0.0)
    assert track.raced_sizes == [32]
    assert found.largest == found.fastest == 32
    assert "--budget" in found.bound
