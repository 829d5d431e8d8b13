"""The bookkeeping of the probe by itself, with made-up times."""

import random

import pytest

from hotlap.core.facts import STEP_PHASES
from hotlap.seam.probe import device, timeline
from hotlap.seam.probe.device import DeviceTimeline
from hotlap.seam.probe.evaluations import Evaluations
from hotlap.seam.probe.phases import (
    BACKWARD,
    CHECKING,
    DATA,
    EVALUATION,
    FORWARD,
    LOADER,
    LOSS,
    OPTIMIZER,
    OTHER,
    fold,
)
from hotlap.seam.probe.tally import BATCH, MOST_ROWS, Tally

pytestmark = pytest.mark.clock


def folded(codes, evaluations=()):
    """Phases of a step whose stretches last 1, 2, 4, 8 ... in the order of the codes."""
    stamps = [2**index - 1 for index in range(len(codes) + 1)]
    row = fold(codes, stamps, evaluations)
    assert sum(row) == stamps[-1]
    return {name: time for name, time in zip(STEP_PHASES, row, strict=True) if time}


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([OTHER, OPTIMIZER], {"other": 1, "optimizer": 2}),
        ([DATA, FORWARD, LOSS, BACKWARD], {"data": 1, "forward": 6, "backward": 8}),
        (
            [FORWARD, LOSS, OPTIMIZER, LOSS, BACKWARD],
            {"forward": 11, "optimizer": 4, "backward": 16},
        ),
        ([FORWARD, LOSS, DATA], {"forward": 1, "other": 2, "data": 4}),
        ([LOADER, DATA, EVALUATION, CHECKING], {"loader": 1, "data": 2, "forward": 4, "other": 8}),
    ],
)
def test_fold(codes, expected):
    assert folded(codes) == expected


def test_fold_of_an_evaluation():
    codes = [OPTIMIZER, LOADER, DATA, EVALUATION, CHECKING, DATA, OTHER]
    found = folded(codes, [(1, 6)])
    assert found == {"optimizer": 1, "evaluation_data": 2 + 4 + 32, "evaluation": 24, "other": 64}


class Loop:
    """Drives `Evaluations` as the boundaries do."""

    def __init__(self):
        self.codes = [OTHER]
        self.evaluations = Evaluations(self.codes)

    def data(self, code=DATA, last=False):
        self.evaluations.asked(code)
        self.codes.append(code)
        if last:
            self.evaluations.exhausted()
        self.codes.append(CHECKING if self.evaluations.going_on else OTHER)
        return self

    def check(self, root=1):
        self.evaluations.forward(root)
        self.codes.append(EVALUATION)
        self.codes.append(CHECKING)
        self.evaluations.reached()
        return self

    def train(self):
        self.evaluations.training()
        self.codes += [FORWARD, LOSS]
        return self

    def back(self):
        self.trains = self.evaluations.backward()
        self.codes += [BACKWARD, OTHER]
        return self


def test_loader_start_belongs_to_the_evaluation_it_feeds():
    loop = Loop().data(LOADER).data().check().data(last=True).data().train().back()
    assert loop.evaluations.close() == [(1, 8)]


def test_evaluation_that_was_broken_off_ends_with_its_last_forward():
    loop = Loop().data().check().data().check().data(LOADER).data().train().back()
    assert loop.evaluations.close() == [(1, 8)]


def test_training_in_eval_mode_after_an_evaluation_is_not_part_of_it():
    loop = Loop().data().check().data().check().data(last=True).data().check().back()
    assert loop.trains
    assert loop.evaluations.close() == [(1, 10)]


def test_training_in_eval_mode_after_an_evaluation_that_was_broken_off():
    loop = Loop().data().check().data().check().back()
    assert loop.trains
    assert loop.evaluations.close() == [(1, 4)]


@pytest.mark.parametrize(
    "loop",
    [
        Loop().data().check().train().back(),
        Loop().data().train().check().back(),
        Loop().data().check().data().train().back() and Loop().data().train().back(),
        Loop().check().train().back(),
        Loop().data().check().back(),
    ],
)
def test_no_evaluation(loop):
    assert loop.evaluations.close() == []


def test_tally_stays_small_and_its_sums_exact():
    tally = Tally()
    steps = 3 * MOST_ROWS + BATCH // 2
    for index in range(steps):
        tally.add(([OTHER, FORWARD], [0, 10, 10 + (index % 11)], []))
    assert len(tally._ordinary.rows) <= MOST_ROWS + BATCH
    phases = tally.phases()
    assert phases["other"].mean == pytest.approx(10e-9)
    assert phases["other"].steps == steps
    assert phases["forward"].p50 == pytest.approx(5e-9, abs=1.1e-9)
    assert phases["forward"].p10 == pytest.approx(1e-9, abs=1.1e-9)
    assert tally.step().mean == pytest.approx(15e-9, rel=0.01)


@pytest.mark.parametrize(
    ("longer", "names"),
    [
        (lambda at: at, {"other", "forward", "step"}),
        (lambda at: at % 50, set()),
        (lambda at: 300 * (at > 170), set()),
        (lambda at: 300 * (at % 200 > 100), set()),
    ],
)
def test_steps_that_take_longer_and_longer_are_told(longer, names):
    tally = Tally()
    for index in range(400):
        tally.add(([OTHER, FORWARD], [0, 50, 150 + longer(index)], []))
        if index % 10 == 3:
            tally.add(([OTHER, FORWARD], [0, 9000, 9100], []), special=True)
    grown = tally.grown()
    assert grown.keys() == names
    if names:
        assert grown["other"] == pytest.approx((50e-9, 50e-9))
        assert grown["forward"] == pytest.approx((125e-9, 475e-9), rel=0.05)
    assert Tally().grown() == {}


def test_few_ordinary_steps_in_detail_stand_for_all():
    """One ordinary step in ten, one that hangs in ten, all with an evaluation: as if all were."""
    sampled, whole = Tally(), Tally()
    draw = random.Random(7)
    for index in range(40_000):
        rest, forward = draw.randint(5, 15), draw.randint(80, 120)
        odd, hangs = index % 100 == 99, index % 1000 == 7
        marks = ([OTHER, FORWARD], [0, rest, rest + forward + 5_000 * hangs], [])
        if odd:
            marks = ([OTHER, EVALUATION, OTHER], [0, rest, rest + 900, rest + 1000], [(1, 2)])
        whole.add(marks, odd)
        lasted = marks[1][-1]
        if index < BATCH + 1 or odd or draw.random() < 0.1:
            sampled.add(marks, odd)
        else:
            sampled.clock([lasted])
    assert sampled.steps == whole.steps == 40_000
    assert sampled.detailed < 0.15 * whole.detailed
    assert sampled.step().mean == pytest.approx(whole.step().mean, rel=1e-9)
    found, true = sampled.phases(), whole.phases()
    assert set(found) == set(true)
    for name, phase in true.items():
        assert found[name].mean == pytest.approx(phase.mean, rel=0.05)
        assert found[name].steps == pytest.approx(phase.steps, rel=0.05)
        for quantile in ("p10", "p50", "p90"):
            mine, theirs = (getattr(each, quantile) for each in (found[name], phase))
            assert mine == pytest.approx(theirs, rel=0.2, abs=1e-9)
    assert found["evaluation"].steps == 400


class Event:
    """A CUDA event of a device whose clock is set by hand, in milliseconds."""

    clock = 0.0
    passed = False

    def record(self):
        self.at = Event.clock

    def query(self):
        return Event.passed

    def synchronize(self):
        pass

    def elapsed_time(self, other):
        return other.at - self.at


class FakePool(device.Pool):
    made = 0

    def record(self):
        if not self._free:
            FakePool.made += 1
        event = self._free.pop() if self._free else Event()
        event.record()
        return event


class Host:
    """A host's clock set by hand, in milliseconds."""

    clock = 0.0

    def nanoseconds(self):
        return round(Host.clock * 1e6)


@pytest.fixture
def on_device(monkeypatch):
    """A timeline of a device and a host whose clocks are set by hand."""
    Event.clock, Event.passed, FakePool.made, Host.clock = 0.0, False, 0, 0.0
    monkeypatch.setattr(device, "_in_use", lambda: True)
    monkeypatch.setattr(device, "SHORT_STEP", 0.0)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    for module in (device, timeline):
        monkeypatch.setattr(module, "perf_counter_ns", Host().nanoseconds)
    line = DeviceTimeline()
    line._pool = FakePool()
    return line


def test_device_times_come_later_and_from_the_devices_clock(on_device):
    line = on_device
    line.reopen()
    for step in range(4):
        for code, lasts in ((FORWARD, 3.0), (BACKWARD, 6.0), (OTHER, 1.0)):
            line.mark(code)
            Event.clock += lasts
        line.close()
        if step == 1:
            assert line.tally.steps == 0
        Event.passed = step >= 2
        line.reopen()
    assert line.tally.steps == 4
    found = line.device_results()
    assert found.phases["forward"].mean == pytest.approx(3e-3)
    assert found.phases["backward"].mean == pytest.approx(6e-3)
    assert found.scaled(20e-3).phases["forward"].mean == pytest.approx(6e-3)
    made = FakePool.made
    for code in (FORWARD, BACKWARD):
        line.mark(code)
    assert FakePool.made == made


def test_copy_that_was_none_leaves_no_event(on_device):
    line, Event.passed = on_device, True
    line.reopen()
    for _ in range(3):
        line.mark(FORWARD)
        line.unmark()
        line.mark(BACKWARD)
        line.close()
        line.reopen()
    assert line.tally.steps == 3
    assert "forward" not in line.device_results().phases


def test_too_few_steps_have_no_device_times(on_device):
    line, Event.passed = on_device, True
    line.reopen()
    for _ in range(2):
        line.close()
        line.reopen()
    assert line.device_results() is None


def run_ahead(line, work, host):
    """Some steps: for each phase the device's work and the host's time for handing it over (ms)."""
    ready = 0.0
    line.reopen()
    for _ in range(5):
        for code in (DATA, FORWARD, BACKWARD):
            Event.clock = max(Host.clock, ready)
            line.mark(code)
            begun = max(Host.clock, ready)
            Host.clock += host[code]
            ready = max(begun + work[code], Host.clock if work[code] else 0.0)
        Event.clock = max(Host.clock, ready)
        line.close()
        line.reopen()
    Event.passed = True
    line.reopen()
    return line.device_results()


def test_a_device_that_has_no_work_left_waits_for_the_host(on_device):
    """Launches take the host longer than the device computes."""
    found = run_ahead(
        on_device, {DATA: 0, FORWARD: 1, BACKWARD: 2}, {DATA: 2, FORWARD: 3, BACKWARD: 4}
    )
    assert found.phases["forward"].mean == pytest.approx(3e-3)
    assert sum(found.starved.values()) == pytest.approx(9e-3)


def test_a_device_with_work_left_waits_for_nobody(on_device):
    """The host hands over a step of 15 ms in 6 ms; the data is there in time."""
    found = run_ahead(
        on_device, {DATA: 0, FORWARD: 5, BACKWARD: 10}, {DATA: 2, FORWARD: 1, BACKWARD: 3}
    )
    assert found.phases["backward"].mean == pytest.approx(10e-3, rel=0.2)
    assert found.phases.get("data") is None or found.phases["data"].mean < 1e-3
    assert not {"forward", "backward"} & found.starved.keys()


def test_late_data_is_what_the_device_waits_for(on_device):
    found = run_ahead(
        on_device, {DATA: 0, FORWARD: 5, BACKWARD: 10}, {DATA: 30, FORWARD: 1, BACKWARD: 1}
    )
    assert found.starved["data"] == pytest.approx(found.phases["data"].mean)
    assert found.phases["data"].mean > 14e-3
    assert found.starved.keys() == {"data"}


def test_clocks_that_drift_apart_make_no_backlog(on_device):
    """By 20 parts in a million over a minute, which is more than a millisecond."""
    lag, behind = device.Lag(FakePool()), []
    for at in range(0, 60_000, 100):
        event, late = Event(), Event()
        event.at, late.at = at * 1.00002, at * 1.00002 + 8.0
        behind += [lag.of([at * 10**6] * 2, [event, late])]
        lag.rebased(event)
    assert max(idle for idle, _ in behind) < device.BEHIND_NS
    assert min(late for _, late in behind) > 7.9e6


class Node:
    """A graph's node, through which a backward pass may run."""

    def register_prehook(self, hook):
        self.hook = hook


@pytest.mark.parametrize("summed", [False, True])
def test_a_training_forward_without_a_backward_is_an_evaluation(summed):
    """But for losses that are summed over batches, whose backward comes later."""
    codes = [OTHER]
    evaluations, node = Evaluations(codes), Node()
    evaluations.asked(DATA)
    codes += [DATA, OTHER]
    evaluations.training()
    evaluations.made = node
    codes += [FORWARD, LOSS]
    evaluations.asked(DATA)
    codes += [DATA, OTHER]
    evaluations.training()
    codes += [FORWARD, LOSS]
    evaluations.backward()
    if summed:
        node.hook()
    codes += [BACKWARD]
    assert evaluations.special
    assert evaluations.close() == ([] if summed else [(1, 5)])


def test_the_quantiles_of_steps_in_detail_are_those_of_all():
    """To take a step's details takes time: those in detail last 1.2 times as long as the others."""
    tally = Tally()
    for index in range(50):
        tally.add(([OTHER, FORWARD], [0, 20, 115 + index % 11], []))
        tally.clock([95 + index % 11] * 9)
    step = tally.step()
    assert step.p10 < step.mean < step.p90
    assert step.p50 == pytest.approx(100e-9, rel=0.02)


def test_a_hiccup_is_in_the_mean_and_not_in_the_usual_time():
    tally = Tally()
    for index in range(200):
        every_other = [FORWARD, OPTIMIZER] if index % 2 else [FORWARD]
        took = 20_000 if index == 41 else 100 + index % 7
        times = [0, 100, 100 + took] if index % 2 else [0, 100]
        tally.add((every_other, times, []))
    phases = tally.phases()
    assert phases["optimizer"].mean == pytest.approx((99 * 103 + 20_000) / 200 * 1e-9, rel=0.01)
    assert phases["optimizer"].usual == pytest.approx(103 / 2 * 1e-9, rel=0.02)
    assert phases["forward"].usual == pytest.approx(phases["forward"].mean)
