"""The range test leaves everything bitwise as it was, and reads known curves rightly."""

import copy
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from hotlap.optim import LAMB, Sweep, cosine, lr_range_test
from hotlap.optim.curve import drawn, write_png
from hotlap.optim.sweep import Divergence, geometric


class Noisy(torch.utils.data.Dataset[Tensor]):
    """Draws from every generator there is, and counts its reads."""

    def __init__(self) -> None:
        self.own = np.random.default_rng(3)
        self.reads = 0

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Tensor:
        self.reads += 1
        noise = self.own.normal() + np.random.normal() + random.gauss(0, 1)
        return torch.randn(6) + noise + index


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)
        self.drop = nn.Dropout(0.2)
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1  # replaced, not changed in place
        return self.two(self.drop(torch.relu(self.norm(self.one(x)))))


def loss(model: nn.Module, batch: Any) -> Tensor:
    return (model(batch) - batch.mean(1, keepdim=True)).square().mean()


def optimizer_of(kind: str, model: nn.Module) -> Any:
    if kind == "SGD":
        groups = [
            {"params": model.one.parameters(), "lr": 0.01},
            {"params": model.two.parameters()},
        ]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    if kind == "LBFGS":
        return torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
    if kind == "LAMB":
        return LAMB(model.parameters(), lr=torch.tensor(0.01))
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def everything(model: nn.Module, optimizer: Any, loader: Any) -> list[Any]:
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(
        [
            [t.detach() for t in tensors],
            [p.grad for p in model.parameters()],
            [module.training for module in model.modules()],
            optimizer.state_dict(),
            torch.get_rng_state(),
            random.getstate(),
            np.random.get_state(legacy=False),
            loader.generator.get_state() if loader.generator else None,
            getattr(loader.dataset, "reads", None),
        ]
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return bool((one == other).all())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def train(model: nn.Module, optimizer: Any, loader: Any, steps: int) -> list[float]:
    def batches() -> Iterator[Any]:
        while True:
            yield from loader

    found = []
    for _, batch in zip(range(steps), batches(), strict=False):

        def closure(batch: Any = batch) -> Tensor:
            optimizer.zero_grad()
            value = loss(model, batch)
            value.backward()
            return value

        found.append(float(optimizer.step(closure).detach()))
    return found


@pytest.mark.parametrize("kind", ["SGD", "AdamW", "LBFGS", "LAMB"])
@pytest.mark.parametrize("before", [0, 7])
@pytest.mark.parametrize("generator", [None, 5])
def test_everything_is_put_back_bitwise(kind: str, before: int, generator: int | None) -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model = Net()
    optimizer = optimizer_of(kind, model)
    own = None if generator is None else torch.Generator().manual_seed(generator)
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, generator=own)
    train(model, optimizer, loader, before)
    model.norm.eval()
    was = everything(model, optimizer, loader)
    identities = [id(t) for t in (*model.parameters(), *model.buffers())]
    rates = [group["lr"] for group in optimizer.param_groups]
    sweep = lr_range_test(model, optimizer, loader, loss, steps=16, end=1e-4)
    assert len(sweep.rates) == len(sweep.losses) == 16
    assert same(was, everything(model, optimizer, loader))
    assert identities == [id(t) for t in (*model.parameters(), *model.buffers())]
    assert all(a is g["lr"] for a, g in zip(rates, optimizer.param_groups, strict=True))


def test_training_goes_on_as_if_nothing_had_been() -> None:
    results = []
    for tested in (False, True):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)
        model = Net()
        optimizer = optimizer_of("AdamW", model)
        schedule = cosine(optimizer, steps=50)
        loader = DataLoader(Noisy(), batch_size=8, shuffle=True)
        losses = train(model, optimizer, loader, 3)
        if tested:
            lr_range_test(model, optimizer, loader, loss, steps=12)
        schedule.step()
        results.append(losses + train(model, optimizer, loader, 9))
    assert results[0] == results[1]


def test_it_is_put_back_when_the_loss_raises() -> None:
    model = Net()
    optimizer = optimizer_of("SGD", model)
    loader = DataLoader(Noisy(), batch_size=8)
    was = everything(model, optimizer, loader)

    def failing(model: nn.Module, batch: Any) -> Tensor:
        if loader.dataset.reads > 60:
            raise KeyboardInterrupt
        return loss(model, batch)

    with pytest.raises(KeyboardInterrupt):
        lr_range_test(model, optimizer, loader, failing, steps=30)
    assert same(was, everything(model, optimizer, loader))


def test_workers_that_persist_stay_where_they_are() -> None:
    def losses(*, tested: bool) -> list[float]:
        torch.manual_seed(2)
        model = Net()
        optimizer = optimizer_of("SGD", model)
        data = TensorDataset(torch.randn(32, 6))
        loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=1,
                            persistent_workers=True, collate_fn=jitter)  # fmt: skip
        found = train(model, optimizer, loader, 4)
        if tested:
            lr_range_test(model, optimizer, loader, loss, steps=8)
        return found + train(model, optimizer, loader, 4)

    assert losses(tested=False) == losses(tested=True)


def jitter(samples: list[tuple[Tensor]]) -> Tensor:
    """A collate function with noise from its worker's generator."""
    batch = torch.stack([sample[0] for sample in samples])
    return batch + torch.randn_like(batch)


class Stream(IterableDataset[Tensor]):
    """Goes on where it stopped, and says where that is."""

    def __init__(self) -> None:
        self.at: list[int] = [0]

    def __iter__(self) -> Iterator[Tensor]:
        for _ in range(24):
            self.at[0] += 1
            yield torch.full((6,), float(self.at[0]))

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at[0]}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at[0] = state["at"]


def test_a_data_set_with_a_state_is_put_back() -> None:
    data = Stream()
    loader = DataLoader(data, batch_size=4)
    list(loader)
    model = Net()
    lr_range_test(model, optimizer_of("SGD", model), loader, loss, steps=10)
    assert data.at == [24]


def test_groups_keep_their_proportion_and_a_short_loader_starts_anew() -> None:
    model = Net()
    optimizer = optimizer_of("SGD", model)
    seen: list[tuple[float, float]] = []

    def watching(model: nn.Module, batch: Any) -> Tensor:
        seen.append(tuple(group["lr"] for group in optimizer.param_groups))
        return loss(model, batch)

    batches = [torch.randn(8, 6) for _ in range(3)]
    lr_range_test(model, optimizer, batches, watching, start=1e-3, end=1e-2, steps=10)
    assert len(seen) == 11
    assert [high for _, high in seen[:10]] == pytest.approx(geometric(1e-3, 1e-2, 10))
    assert all(low == pytest.approx(high / 10) for low, high in seen)


def test_it_stops_when_the_loss_diverges() -> None:
    torch.manual_seed(0)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = [torch.randn(32, 6) for _ in range(4)]
    sweep = lr_range_test(model, optimizer, batches, loss, end=1e3, steps=200)
    assert sweep.ended == "diverged"
    assert 20 < len(sweep.rates) < 180
    assert len(sweep.losses) == len(sweep.rates)


@pytest.mark.parametrize(
    ("loader", "more", "words"),
    [
        (iter([torch.ones(2, 6)]), {}, "loader is an iterator"),
        ([], {}, "no batches"),
        ([torch.ones(2, 6)], {"start": 1.0, "end": 0.1}, "from 1 to 0.1"),
        ([torch.ones(2, 6)], {"start": 0.0}, "from 0 to 10"),
        ([torch.ones(2, 6)], {"steps": 3}, "3 steps are too few"),
    ],
)
def test_what_cannot_be_swept_is_refused(loader: Any, more: Any, words: str) -> None:
    model = Net()
    with pytest.raises(ValueError, match=words):
        lr_range_test(model, optimizer_of("SGD", model), loader, loss, **more)


def fall(at: float, rates: list[float], noise: float = 0.0, seed: int = 0) -> Sweep:
    """A loss that falls from 2 to 0.2 around `at` and explodes a decade and a half later."""
    random_ = random.Random(seed)
    losses = []
    for rate in rates:
        x = math.log10(rate / at)
        value = 0.2 + 1.8 / (1 + math.exp(4 * x)) + (10 ** (x - 1.5)) ** 2
        losses.append(value + random_.gauss(0, noise))
    return Sweep(2.0, tuple(rates), tuple(losses))


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("at", [1e-4, 1e-2])
def test_known_curves_are_read_rightly(at: float, noise: float) -> None:
    sweep = fall(at, geometric(1e-6, 10, 120), noise)
    steepest, valley, suggestion = sweep.steepest(), sweep.valley(), sweep.suggestion()
    assert steepest is not None
    assert valley is not None
    assert suggestion is not None
    assert at / 2 < steepest < at * 2
    assert at / 30 < valley < at * 10
    assert at / 2 < suggestion < at * 10


def test_a_curve_that_never_falls_suggests_nothing() -> None:
    rates = tuple(geometric(1e-6, 10, 40))
    rising = Sweep(1.0, rates, tuple(1.0 + 0.1 * i for i in range(40)))
    assert rising.readings() == dict.fromkeys(rising.readings())
    assert Sweep(1.0, rates[:3], (1.0, 0.9, 0.8)).suggestion() is None
    assert Sweep(math.nan, rates[:1], (math.nan,), "diverged").suggestion() is None


def test_divergence_needs_more_than_noise() -> None:
    noisy, negative = Divergence(), Divergence()
    random_ = random.Random(0)
    assert not any(noisy.add(1 + random_.gauss(0, 0.3)) for _ in range(300))
    assert not any(negative.add(-i / 10 + random_.gauss(0, 0.1)) for i in range(100))
    assert any(negative.add(i) for i in range(30))
    assert Divergence().add(math.nan)


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    sweep = fall(1e-3, geometric(1e-6, 10, 120), 0.02)
    lines = drawn(sweep, width=40, height=8)
    assert len(lines) == 10
    assert "^" in lines[-2]
    assert "1e-3" in lines[-1]
    assert any(character > "\u2800" for character in lines[0])
    assert drawn(Sweep(1.0, (), ())) == []
    cliff = [row[11:] for row in drawn(Sweep(1.0, (1.0, 2.0, 3.0), (9.0, 0.0, 0.0)), 40, 8)[:8]]
    assert all(any(cell > "\u2800" for cell in row) for row in cliff)  # steep, and in one piece
    pytest.importorskip("matplotlib")
    write_png(sweep, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_no_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("hotlap.optim.curve.import_module", missing)
    with pytest.raises(RuntimeError, match="pip install matplotlib"):
        write_png(fall(1e-3, geometric(1e-6, 1, 40)), tmp_path / "curve.png")
