"""What a block times: its threads, and nothing that loader workers do between two blocks."""

import math
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotlap.seam.gate import Gate, thread_times
from hotlap.trial.trial import Block

pytestmark = pytest.mark.clock


def test_all_threads_are_summed_up(tmp_path: Path) -> None:
    for number, line in enumerate(("1000000000 500000000 3", "2000000000 250000000 9")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "schedstat").write_text(line)
    (tmp_path / "ended").mkdir()
    assert thread_times(str(tmp_path)) == (3.0, 0.75)


@pytest.mark.parametrize("line", ["", "none of this", None])
def test_where_nothing_is_counted_the_times_are_zero(tmp_path: Path, line: str | None) -> None:
    if line is not None:
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "schedstat").write_text(line)
    assert thread_times(str(tmp_path)) == (0.0, 0.0)
    assert thread_times(str(tmp_path / "absent")) == (0.0, 0.0)


def test_a_thread_that_computes_is_seen_to_run_and_one_that_sleeps_is_not() -> None:
    before = thread_times()[0]
    if not before:
        pytest.skip("this kernel does not count the times of threads")
    time.sleep(0.2)
    asleep = thread_times()[0]
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        pass
    assert asleep - before < 0.15
    assert thread_times()[0] - asleep > 0.15


def test_the_stretch_of_a_block_leaves_sleep_as_it_is() -> None:
    """1 s of computing and 1 s of sleep took 4 s: without the wait for a core it takes 2 s."""
    block = Block(1, 1, 4.0, 1.0, (), 0, 0, ran=1.0, waited=2.0)
    assert block.wall / block.stretch == pytest.approx(2.0)
    two = Block(1, 1, 4.0, 1.0, (), 0, 0, ran=2.0, waited=4.0, threads=2)
    assert two.wall / two.stretch == pytest.approx(2.0)
    assert Block(1, 1, 4.0, 1.0, (), 0, 0).stretch == 1.0
    assert Block(1, 1, 1.0, 1.0, (), 0, 0, ran=0.1, waited=9.0).stretch == pytest.approx(20)


@pytest.mark.parametrize(
    ("cpu", "others", "seconds"),
    [
        (1.0, 3.0, 2.0),  # one thread: all of its 2 s of waits are due to others
        (4.0, 0.0, 4.0),  # its own loader workers had the core
        (4.0, 3.0, 3.0),  # workers and others, 3 s each
        (1.0, math.inf, 2.0),
    ],
)
def test_waits_for_its_own_workers_are_no_wait_for_others(
    cpu: float, others: float, seconds: float
) -> None:
    block = Block(1, 1, 4.0, cpu, (), 0, 0, ran=1.0, waited=2.0, others=others)
    assert block.wall / block.stretch == pytest.approx(seconds)


class Waits:
    """A channel over which the word to go on comes only after a while."""

    def __init__(self, count: Callable[[], int]) -> None:
        self.count, self.grown, self.workers = count, 0, []

    def send(self, _: str, **report: Any) -> None:
        self.workers = report["workers"]

    def receive(self) -> dict[str, int]:
        time.sleep(0.1)  # a signal takes a moment
        before = self.count()
        time.sleep(0.3)
        self.grown = self.count() - before
        return {"go": 1}


def reads_on(count: Any) -> None:
    while True:
        count.value += 1
        time.sleep(0.002)


def test_loader_workers_stand_still_between_blocks_and_ranks_do_not() -> None:
    context = multiprocessing.get_context("fork")
    counts = [context.Value("q", 0, lock=False) for _ in range(2)]
    worker, rank = (
        context.Process(target=reads_on, args=(count,), daemon=daemon)
        for count, daemon in zip(counts, (True, False), strict=True)
    )
    for process in (worker, rank):
        process.start()
    try:
        for count, grows in zip(counts, (False, True), strict=True):
            wire = Waits(lambda count=count: count.value)  # type: ignore[misc]
            Gate(wire, 1, dict).step()  # type: ignore[arg-type]
            assert wire.workers == [worker.pid]
            assert (wire.grown > 0) is grows
            before = count.value
            time.sleep(0.2)
            assert count.value > before, "it goes on with the next block"
    finally:
        for process in (worker, rank):
            process.kill()
            process.join()
