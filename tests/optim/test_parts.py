"""Parameter groups, schedules, scaling, and optimizers by name."""

import importlib
import math
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from hotlap.optim import (
    LAMB,
    LARS,
    NVLAMB,
    constant,
    cosine,
    create_optimizer,
    linear,
    muon_pair,
    no_decay_groups,
    polynomial,
    scale_lr,
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.hidden = nn.Linear(6, 6)
        self.norm = nn.LayerNorm([6, 6])
        self.batch = nn.BatchNorm1d(6)
        self.position = nn.Parameter(torch.zeros(6, 6))
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.table.weight


def names(model: nn.Module, groups: list[dict[str, Any]]) -> list[set[str]]:
    known = {id(p): name for name, p in model.named_parameters()}
    return [{known[id(p)] for p in group["params"]} for group in groups]


def test_bias_and_norms_do_not_decay() -> None:
    model = Net()
    groups = no_decay_groups(model, 0.1, lr=0.5)
    decayed, left = names(model, groups)
    assert decayed == {"table.weight", "hidden.weight", "position"}
    assert left == {"hidden.bias", "norm.weight", "norm.bias", "batch.weight", "batch.bias"}
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    assert all(group["lr"] == 0.5 for group in groups)
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def test_groups_can_skip_more_and_leave_frozen_out() -> None:
    model = Net()
    model.hidden.requires_grad_(requires_grad=False)
    decayed, left = names(model, no_decay_groups(model, 0.1, skip=["position"]))
    assert decayed == {"table.weight"}
    assert "position" in left
    assert "hidden.bias" not in left
    (left,) = names(model, no_decay_groups(model, 0.1, skip=["position"], embeddings=False))
    assert "table.weight" in left  # tied: spared at one place, spared at all


@pytest.mark.parametrize(
    ("how", "words"),
    [({"skip": ["posituon"]}, "'posituon'"), ({}, "no parameter of the model requires")],
)
def test_groups_that_cannot_be_made_are_refused(how: Any, words: str) -> None:
    model = Net().requires_grad_(requires_grad=bool(how))
    with pytest.raises(ValueError, match=words):
        no_decay_groups(model, 0.1, **how)


def rates(scheduler: Any, steps: int) -> list[float]:
    optimizer = scheduler.optimizer
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def sgd() -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=2.0)


def test_schedules_rise_and_fall() -> None:
    warm = [2 * (i + 1) / 5 for i in range(4)]
    assert rates(constant(sgd(), steps=8, warmup=4), 8) == pytest.approx([*warm, 2, 2, 2, 2])
    assert rates(constant(sgd(), warmup=4), 8) == pytest.approx([*warm, 2, 2, 2, 2])
    assert rates(linear(sgd(), steps=8, warmup=4), 10) == pytest.approx(
        [*warm, 2, 1.5, 1, 0.5, 0, 0]
    )
    assert rates(polynomial(sgd(), steps=4, power=2.0), 5) == pytest.approx(
        [2 * (1 - i / 4) ** 2 for i in range(4)] + [0]
    )
    half = [0.2 + 1.8 * 0.5 * (1 + math.cos(math.pi * i / 4)) for i in range(4)]
    assert rates(cosine(sgd(), steps=4, end=0.1), 6) == pytest.approx([*half, 0.2, 0.2])


def test_a_schedule_can_be_pickled_and_resumed() -> None:
    scheduler = polynomial(sgd(), steps=9, warmup=2, power=1.5)
    rates(scheduler, 4)
    state = pickle.loads(pickle.dumps(scheduler.state_dict()))
    other = polynomial(sgd(), steps=9, warmup=2, power=1.5)
    other.optimizer.load_state_dict(scheduler.optimizer.state_dict())
    other.load_state_dict(state)
    assert rates(other, 4) == rates(scheduler, 4)


@pytest.mark.parametrize(
    ("build", "how", "words"),
    [
        (linear, {"steps": 4, "warmup": 4}, "warmup is 4 and steps 4"),
        (cosine, {"steps": 0}, "steps 0"),
        (cosine, {"steps": 4, "end": 2.0}, "end is 2.0"),
        (constant, {"warmup": -1}, "warmup is -1"),
        (polynomial, {"steps": 4, "power": 0.0}, "power is 0.0"),
    ],
)
def test_schedules_refuse_what_cannot_be(build: Any, how: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build(sgd(), **how)


def test_rates_scale_with_the_batch() -> None:
    assert scale_lr(0.1, 1024, 256) == pytest.approx(0.4)
    assert scale_lr(0.1, 64, 256) == pytest.approx(0.025)
    assert scale_lr(0.1, 1024, 256, rule="sqrt") == pytest.approx(0.2)
    for bad in ({"batch": 0}, {"lr": -1.0}, {"rule": "cubic"}, {"lr": math.inf}):
        with pytest.raises(ValueError, match=r"must be|at least"):
            scale_lr(**({"lr": 0.1, "batch": 2, "base_batch": 1} | bad))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sgd", torch.optim.SGD),
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        ("lars", LARS),
        ("lamb", LAMB),
        ("nvlamb", NVLAMB),
    ],
)
def test_optimizers_by_name_train(name: str, kind: type) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = create_optimizer(name, model, lr=0.01, weight_decay=0.0)
    assert type(optimizer) is kind
    assert optimizer.defaults.get("fused", True)
    x = torch.randn(64, 4)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (model(x) - x[:, :1]).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["schedulefree_adamw", "schedulefree_sgd"])
def test_schedule_free_by_name(name: str) -> None:
    pytest.importorskip("schedulefree")
    model = nn.Linear(3, 1)
    optimizer: Any = create_optimizer(name, model, lr=0.1)
    optimizer.train()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    assert optimizer.param_groups[1]["weight_decay"] == 0.0


def test_what_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(3, 1)
    with pytest.raises(ValueError, match=r"'adamv'.*adamw, lars"):
        create_optimizer("adamv", model, lr=0.1)
    with pytest.raises(ValueError, match="muon_pair"):
        create_optimizer("muon", model, lr=0.1)

    def missing(name: str, *_: Any) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("hotlap.optim.factory.import_module", missing)
    with pytest.raises(RuntimeError, match="pip install schedulefree"):
        create_optimizer("schedulefree_sgd", model, lr=0.1)


def test_muon_gets_the_hidden_matrices_only() -> None:
    model = nn.Sequential(
        nn.Embedding(9, 6), nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 9)
    )
    muon, adamw = muon_pair(model, lr=0.01)
    known = {id(p): name for name, p in model.named_parameters()}
    mine = {known[id(p)] for group in muon.param_groups for p in group["params"]}
    rest = {known[id(p)] for group in adamw.param_groups for p in group["params"]}
    assert mine == {"1.weight", "3.weight"}
    assert rest == set(known.values()) - mine
    model(torch.arange(9)).square().sum().backward()
    muon.step()
    adamw.step()
    assert "4.weight" in {
        known[id(p)]
        for g in muon_pair(model, lr=0.1, head="1")[0].param_groups
        for p in g["params"]
    }
    with pytest.raises(ValueError, match="no module 'tail'"):
        muon_pair(model, lr=0.01, head="tail")
    with pytest.raises(ValueError, match="no hidden matrix"):
        muon_pair(nn.Linear(3, 3), lr=0.01)


def test_the_package_imports_lightly() -> None:
    package = importlib.import_module("hotlap.optim")
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="SGD"):
        package.SGD  # noqa: B018
