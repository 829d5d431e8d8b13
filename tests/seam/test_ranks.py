"""What the probe of each rank reports: when, what DDP logged, what its threads waited."""

import os
import statistics
import threading
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.flop_counter import FlopCounterMode

from hotlap.core.facts import STEP_PHASES
from hotlap.seam.probe import waits
from hotlap.seam.probe.ranks import FIRST_REPORT, LONGEST_INTERVAL, Schedule
from hotlap.seam.probe.tally import Tally
from hotlap.seam.probe.waits import Logged, Waits, _a_step, buffers_timed, logged, run_delays


@pytest.fixture(autouse=True, scope="module")
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def net():
    return DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8)))


def train(model, steps):
    for _ in range(steps):
        model(torch.randn(6, 4)).sum().backward()


def test_reports_come_at_growing_intervals_up_to_a_second():
    schedule = Schedule()
    due = [t / 100 for t in range(1000) if schedule.due(t / 100)]
    gaps = [round(after - before, 2) for before, after in pairwise(due)]
    assert due[0] == FIRST_REPORT
    assert all(after >= before - 0.02 for before, after in pairwise(gaps))
    assert max(gaps) == pytest.approx(LONGEST_INTERVAL, abs=0.02)


def test_what_ddp_has_logged_is_a_sum_again():
    model = net()
    model._set_ddp_runtime_logging_sample_rate(1)
    assert logged(model).exposed == 0
    train(model, 6)
    found = logged(model)
    assert found.timed == found.iterations == 5  # DDP logs one as the next begins
    assert found.exposed >= 0


@pytest.mark.parametrize(
    ("iterations", "rate", "timed"), [(5, 20, 5), (30, 20, 11), (60, 20, 13), (30, 1, 30)]
)
def test_how_many_iterations_ddp_has_timed(monkeypatch, iterations, rate, timed):
    log = {"iteration": iterations, "avg_backward_comm_time": 9}
    model = net()
    monkeypatch.setattr(model, "_get_ddp_logging_data", lambda: log)
    monkeypatch.setattr(waits, "sample_rate", lambda _: rate)
    assert logged(model) == Logged(iterations, timed, 9 * timed)


@pytest.mark.parametrize(
    ("begun", "now", "steps", "seconds"),
    [
        (Logged(10, 10, 1e9), Logged(20, 20, 3e9), 10, 0.2),
        (Logged(10, 10, 1e9), Logged(30, 30, 5e9), 10, 0.4),  # two micro-batches a step
        (None, Logged(10, 10, 1e9), 10, 0.1),
        (Logged(10, 10, 1e9), Logged(15, 10, 1e9), 5, None),
    ],
)
def test_waits_a_step_between_two_states_of_the_log(begun, now, steps, seconds):
    assert _a_step(begun, now, steps) == (seconds if seconds is None else pytest.approx(seconds))


def test_waits_before_the_timed_steps_do_not_count():
    found = Waits()
    found.spend(9.0)
    for _ in range(3):
        found.step([])
        found.spend(0.5)
    assert found.in_buffers(clocked=0) == pytest.approx(0.75)
    assert found.in_buffers(clocked=1) == pytest.approx(0.5)
    assert found.exposed([], 2, 0) is None
    found.restart()
    assert found.in_buffers(clocked=0) == 0.0


def test_the_log_of_a_group_of_some_ranks_says_nothing():
    found, model = Waits(), net()
    for _ in range(3):
        train(model, 1)
        found.step([model])
    assert found.exposed([model], 1, 0) is not None
    assert found.exposed([model], 2, 0) is None


def test_broadcasts_of_buffers_are_timed_but_not_those_of_an_evaluation():
    found, model = Waits(), net()
    before = DistributedDataParallel._sync_buffers
    with buffers_timed(found):
        with torch.no_grad():
            model._sync_buffers()
        assert found._spent == 0
        model._sync_buffers()
        assert found._spent > 0
    assert DistributedDataParallel._sync_buffers is before


def test_no_diagnosis_sees_what_a_broadcast_of_buffers_copies(monkeypatch):
    modes = []
    monkeypatch.setattr(
        DistributedDataParallel, "_sync_buffers",
        lambda _: modes.append(_get_current_dispatch_mode()),
    )  # fmt: skip
    with buffers_timed(Waits()), FlopCounterMode(display=False):
        net()._sync_buffers()
    assert modes == [None]


def test_every_thread_has_its_wait_for_a_core():
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    found = run_delays(os.getpid())
    end.set()
    thread.join()
    assert {str(os.getpid()), str(thread.native_id)} <= found.keys()


def test_the_longest_wait_for_a_core_counts(monkeypatch):
    found = Waits()
    monkeypatch.setattr(waits, "run_delays", lambda *_: {"1": 5_000_000_000, "2": 0})
    for _ in range(3):
        found.step([])
    now = {"1": 6_000_000_000, "2": 1_000_000, "3": 4_000_000_000}
    monkeypatch.setattr(waits, "run_delays", lambda *_: now)
    assert found.for_core(clocked=0) == pytest.approx(2.0)


def test_standard_errors_of_the_phases():
    tally, took = Tally(), [1000, 1200, 900, 1100, 1050]
    for time in took:
        tally.add(([1], [0, time], []))
    name = next(name for name, mean in tally.means().items() if mean)
    expected = 1e-9 * statistics.pstdev(took) / len(took) ** 0.5
    assert tally.errors()[name] == pytest.approx(expected)
    assert tally.errors().keys() == set(STEP_PHASES)
