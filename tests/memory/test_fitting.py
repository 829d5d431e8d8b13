"""The cheapest measures under a limit: measured, not only predicted."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hotlap.memory import fit, fragmentation, offloaded
from hotlap.memory.fitting import _plans
from hotlap.memory.measuring import Fit, MakeOptimizer, Task, bf16_time
from hotlap.memory.measuring import measure as measure_task


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 256), nn.Linear(256, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(x)))


def task() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(4)))
    return model, (torch.randn(512, 16), torch.randn(512, 16))


def loss(model: nn.Module, batch: Any) -> Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters())


def measure(model: nn.Module, batch: Any, loss: Any, make: MakeOptimizer, plan: Fit) -> int:
    return measure_task(Task(model, batch, loss), make, plan)


def test_nothing_is_done_where_all_fits() -> None:
    model, batch = task()
    plain = measure(model, batch, loss, adam, Fit())
    found = fit(model, batch, loss, adam, plain)
    assert found.engine == {"accumulate": 1, "precision": "fp32", "recompute_every": 0}
    assert found.measured == plain
    assert 0.7 < found.predicted / found.measured < 1.4


@pytest.mark.parametrize("share", [0.7, 0.5])
def test_the_answer_is_measured_to_fit_and_the_model_is_left_alone(share: float) -> None:
    model, batch = task()
    before = [p.detach().clone() for p in model.parameters()]
    random = torch.get_rng_state()
    plain = measure(model, batch, loss, adam, Fit())
    found = fit(model, batch, loss, adam, int(share * plain))
    assert found.measured <= share * plain
    assert measure(model, batch, loss, adam, found) == found.measured
    assert found != Fit()
    assert all(map(torch.equal, model.parameters(), before))
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in model.parameters())


def test_each_measure_saves() -> None:
    model, batch = task()
    plain = measure(model, batch, loss, adam, Fit())
    for plan in (Fit(accumulate=4), Fit(precision="bf16"), Fit(recompute_every=1)):
        assert measure(model, batch, loss, adam, plan) < 0.9 * plain, plan


def test_a_smaller_optimizer_is_taken_where_nothing_else_will_do() -> None:
    torch.manual_seed(0)
    model, batch = nn.Linear(512, 512), (torch.randn(4, 512), torch.randn(4, 512))
    makers = [adam, lambda m: torch.optim.Adafactor(m.parameters())]
    plain, small = (measure(model, batch, loss, make, Fit()) for make in makers)
    assert small < 0.8 * plain  # two rows of state in the place of two matrices
    assert fit(model, batch, loss, makers, plain).optimizer == 0
    found = fit(model, batch, loss, makers, int(0.8 * plain), half=False)
    assert found.optimizer == 1
    assert found.measured <= 0.8 * plain
    with pytest.raises(ValueError, match="no set of measures"):
        fit(model, batch, loss, adam, int(0.8 * plain), half=False)


def test_without_16_bits_and_beyond_reach() -> None:
    model, batch = task()
    plain = measure(model, batch, loss, adam, Fit())
    found = fit(model, batch, loss, adam, int(0.6 * plain), half=False)
    assert found.precision == "fp32"
    with pytest.raises(ValueError, match="no set of measures fits 1000 bytes"):
        fit(model, batch, loss, adam, 1000)


def test_on_the_cpu_nothing_is_moved_and_nothing_fragmented() -> None:
    model, batch = task()
    plain = torch.autograd.grad(loss(model, batch), list(model.parameters()))
    with offloaded(0):
        value = loss(model, batch)
    assert all(map(torch.equal, torch.autograd.grad(value, list(model.parameters())), plain))
    if not torch.cuda.is_available():
        assert fragmentation() is None


@pytest.mark.gpu
def test_offloading_saves_device_memory() -> None:
    layers = [layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model, batch = nn.Sequential(*layers).cuda(), tuple(torch.randn(2, 8192, 512).cuda())
    away = measure(model, batch, loss, adam, Fit(offload=True))
    assert away < 0.8 * measure(model, batch, loss, adam, Fit())


@pytest.mark.gpu
def test_a_plan_measured_first_takes_no_more_than_measured_again() -> None:
    """The workspaces of cuBLAS are made once, and kept."""
    model, batch = task()
    model, batch = model.cuda(), tuple(t.cuda() for t in batch)
    first, again = (measure(model, batch, loss, adam, Fit()) for _ in range(2))
    assert first == pytest.approx(again, rel=0.01)


class Counted:
    """Counts the measurements, and the micro-batches that the loss sees."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plans: list[Fit] = []
        self.micro_batches = 0
        monkeypatch.setattr("hotlap.memory.fitting.measure", self.measure)

    def measure(self, task: Task, make: MakeOptimizer, plan: Fit) -> int:
        self.plans.append(plan)
        return measure_task(task, make, plan)

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        self.micro_batches += 1
        return loss(model, batch)


def test_an_impossible_limit_names_the_smallest_that_can_be_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, batch = task()
    state = 4 * sum(p.nbytes for p in model.parameters())
    counted = Counted(monkeypatch)
    with pytest.raises(ValueError, match=r"smallest measured total is \d+ bytes, with") as caught:
        fit(model, batch, counted.loss, adam, int(0.9 * state), half=False)
    assert len(counted.plans) == 1
    assert counted.micro_batches == 1 + 4  # two steps of two of the 512 micro-batches
    smallest = int(str(caught.value).split(" is ")[1].split()[0])
    found = fit(model, batch, loss, adam, smallest, half=False)
    assert found.measured <= smallest


@pytest.mark.parametrize("measurements", [1, 3])
def test_measurements_are_bounded(measurements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = task()
    plain = measure(model, batch, loss, adam, Fit())
    counted = Counted(monkeypatch)
    limit = int(0.45 * plain)
    found = fit(model, batch, counted.loss, adam, limit, half=False, measurements=measurements)
    assert found.measured <= limit
    assert len(counted.plans) <= measurements
    with pytest.raises(ValueError, match="at least 1"):
        fit(model, batch, loss, adam, limit, measurements=0)


@pytest.mark.parametrize(("time", "precision"), [(0.8, "bf16"), (1.5, "fp32")])
def test_slow_bf16_is_not_chosen(
    time: float, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = task()
    plain = measure(model, batch, loss, adam, Fit())
    monkeypatch.setattr("hotlap.memory.fitting.bf16_time", lambda *_: time)
    found = fit(model, batch, loss, adam, int(0.8 * plain))
    assert found.precision == precision
    assert found.bf16_time == (time if precision == "bf16" else 0.0)


def test_bf16_that_saves_nothing_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few activations and large weights: autocast's copies of the weights cost more."""
    torch.manual_seed(0)
    model, batch = nn.Linear(512, 512), (torch.randn(8, 512), torch.randn(8, 512))
    monkeypatch.setattr("hotlap.memory.fitting.bf16_time", lambda *_: 0.5)
    plain = measure(model, batch, loss, adam, Fit())
    with pytest.raises(ValueError, match=r"'precision': 'fp32'"):
        fit(model, batch, loss, adam, int(0.8 * plain))


def test_bf16_is_timed_against_float32() -> None:
    model, batch = task()
    assert 0.05 < bf16_time(Task(model, batch, loss), adam, Fit(accumulate=2)) < 20


def test_recomputation_comes_before_many_micro_batches() -> None:
    model, batch = task()
    plans = sorted(_plans(Task(model, batch, loss), half=True), key=lambda plan: plan.cost)
    first = next(plan for plan in plans if plan.recompute_every)
    assert max(p.accumulate for p in plans[: plans.index(first)]) <= 8
