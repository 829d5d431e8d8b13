"""What a block times: its threads, and nothing that loader workers do between two blocks."""

import math
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from hotlap.seam.gate import Gate, thread_times, time_limits_while_running
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
        self.address = "no-folder/control"

    def send(self, _: str, **report: Any) -> None:
        self.workers = report["workers"]

    def receive(self) -> dict[str, int]:
        time.sleep(0.1)  # a signal takes a moment
        before = self.count()
        time.sleep(0.3)
        self.grown = self.count() - before
        return {"go": 1, "also": {}}


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


class LimitOverError(Exception):
    """What a handler of a signal raises."""


def test_a_handler_that_raises_between_blocks_acts_behind_them_and_the_workers_go_on() -> None:
    context = multiprocessing.get_context("fork")
    count = context.Value("q", 0, lock=False)
    worker = context.Process(target=reads_on, args=(count,), daemon=True)
    worker.start()

    def over(*_: object) -> None:
        raise LimitOverError

    before = signal.signal(signal.SIGUSR1, over)
    wire = Waits(lambda: count.value)
    gate = Gate(wire, 1, dict)  # type: ignore[arg-type]
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(LimitOverError):
            gate.step()
        assert signal.getsignal(signal.SIGUSR1) is over
        stood = count.value
        time.sleep(0.2)
        assert count.value > stood
        wire.workers = []
        gate.step()
        assert wire.workers == [worker.pid], "the next block is reported as well"
    finally:
        signal.signal(signal.SIGUSR1, before)
        worker.kill()
        worker.join()


@pytest.mark.parametrize("interval", [0.0, 0.2])
def test_an_alarm_clock_stands_still_between_blocks(interval: float) -> None:
    """What guards a step of the program (`signal.alarm(60)` in each) sees the step's own time."""
    rung: list[float] = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(time.monotonic()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3, interval)
        Gate(Waits(lambda: 0), 1, dict).step()  # type: ignore[arg-type]
        assert not rung
        left, again = signal.getitimer(signal.ITIMER_REAL)
        assert 0.0 < left <= 0.3
        assert again == interval
        time.sleep(0.35)
        assert rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Late(Dataset[torch.Tensor]):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.zeros(1)


def loads(seconds: float) -> None:
    """Wait for a batch that comes after so long, for a second at the most."""
    try:
        with time_limits_while_running():
            list(DataLoader(Late(seconds), num_workers=1, timeout=1))
    except RuntimeError as error:
        assert "timed out" in str(error)
        os._exit(3)


@pytest.mark.parametrize(("seconds", "stopped", "code"), [(0.7, 2.0, 0), (9.0, 0.0, 3)])
def test_a_loaders_time_limit_counts_the_time_in_which_its_process_runs(
    seconds: float, stopped: float, code: int
) -> None:
    process = multiprocessing.get_context("fork").Process(target=loads, args=(seconds,))
    process.start()
    assert process.pid is not None
    time.sleep(0.3)
    if stopped:
        family = [process.pid, *children(process.pid)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in family:
                os.kill(pid, number)
            time.sleep(stopped if number == signal.SIGSTOP else 0)
    process.join()
    assert process.exitcode == code


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], check=False, capture_output=True, text=True)
    return [int(child) for child in found.stdout.split()]
