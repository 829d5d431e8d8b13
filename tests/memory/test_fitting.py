"""The cheapest measures under a limit: measured, not only predicted."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hotlap.memory import fit, fragmentation, offloaded
from hotlap.memory.fitting import Fit, _plans, measure


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
    model, batch = task()
    model, batch = model.cuda(), tuple(t.cuda() for t in batch)
    away = measure(model, batch, loss, adam, Fit(offload=True))
    assert away <= measure(model, batch, loss, adam, Fit())


def test_a_limit_below_the_state_is_refused_without_a_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, batch = task()
    state = 4 * sum(p.nbytes for p in model.parameters())

    def measured(*_: Any) -> int:
        raise AssertionError("nothing is to be run")

    monkeypatch.setattr("hotlap.memory.fitting.measure", measured)
    with pytest.raises(ValueError, match=r"optimizer state and batch alone take \d+"):
        fit(model, batch, loss, adam, int(0.9 * state))


def test_recomputation_comes_before_many_micro_batches() -> None:
    model, batch = task()
    plans = sorted(_plans(model, batch, half=True), key=lambda plan: plan.cost)
    first = next(plan for plan in plans if plan.recompute_every)
    assert max(p.accumulate for p in plans[: plans.index(first)]) <= 8
