"""Small tasks with a held-out part, each a few seconds of training on scikit-learn's own data."""

import contextlib
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import Optimizer
from torch.utils.data import DataLoader, TensorDataset

from hotlap.optim import LAMB


@dataclass(frozen=True)
class Task:
    """A model, its optimizer, training data, and what is held out."""

    model: nn.Module
    optimizer: Optimizer
    loader: Any
    held: tuple[Tensor, Tensor]
    measure: Callable[[Tensor, Tensor], Tensor]
    epochs: int

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The loss of one batch."""
        x, y = batch
        return self.measure(model(x), y)


def trained(name: str, lr: float, seed: int) -> float:
    """Held-out loss after training at a fixed rate; a large number if it diverged."""
    task = TASKS[name]()
    torch.manual_seed(seed)
    for group in task.optimizer.param_groups:
        group["lr"] = lr
    for _ in range(task.epochs):
        for batch in task.loader:
            task.optimizer.zero_grad()
            task.loss(task.model, batch).backward()
            task.optimizer.step()
    task.model.eval()
    with torch.no_grad():
        loss = task.loss(task.model, task.held).item()
    return loss if math.isfinite(loss) else 1e9


def _task(x: Tensor, y: Tensor, model: nn.Module, optimizer: Optimizer, measure: Any, batch: int,
          epochs: int) -> Task:  # fmt: skip
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    train, held = order[: len(x) * 3 // 4], order[len(x) * 3 // 4 :]
    loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=batch, shuffle=True)
    return Task(model, optimizer, loader, (x[held], y[held]), measure, epochs)


def _data(name: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    found = getattr(import_module("sklearn.datasets"), f"load_{name}")()
    x, y = torch.tensor(found.data, dtype=torch.float32), torch.tensor(found.target, dtype=dtype)
    return (x - x.mean(0)) / (x.std(0) + 1e-6), y


def _mlp(*sizes: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for one, two in pairwise(sizes):
        layers += [nn.Linear(one, two), act()]
    return nn.Sequential(*layers[:-1])


def _digits_mlp_sgd() -> Task:
    x, y = _data("digits", torch.long)
    model = _mlp(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return _task(x, y, model, optimizer, functional.cross_entropy, 64, 8)


def _digits_cnn_adamw() -> Task:
    x, y = _data("digits", torch.long)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters())
    return _task(x.view(-1, 1, 8, 8), y, model, optimizer, functional.cross_entropy, 64, 4)


def _diabetes_mlp_adam() -> Task:
    x, y = _data("diabetes")
    y = ((y - y.mean()) / y.std())[:, None]
    model = _mlp(10, 32, 1, act=nn.Tanh)
    return _task(x, y, model, torch.optim.Adam(model.parameters()), functional.mse_loss, 32, 15)


def _cancer_logistic_sgd() -> Task:
    x, y = _data("breast_cancer")
    model = _mlp(30, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    measure = functional.binary_cross_entropy_with_logits
    return _task(x, y[:, None], model, optimizer, measure, 32, 10)


class _Characters(nn.Module):
    def __init__(self, letters: int) -> None:
        super().__init__()
        self.table = nn.Embedding(letters, 32)
        self.gru = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, letters)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(self.table(x))[0]).transpose(1, 2)


def _text_gru_adamw() -> Task:
    with contextlib.redirect_stdout(io.StringIO()):
        zen: Any = import_module("this")
    text = "".join(zen.d.get(letter, letter) for letter in zen.s)
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(letter) for letter in text])
    windows = ids.unfold(0, 25, 1)
    torch.manual_seed(0)
    model = _Characters(len(letters))
    optimizer = torch.optim.AdamW(model.parameters())
    return _task(windows[:, :-1], windows[:, 1:], model, optimizer, functional.cross_entropy, 32, 4)


def _digits_mlp_lamb() -> Task:
    x, y = _data("digits", torch.long)
    model = _mlp(64, 64, 10)
    return _task(x, y, model, LAMB(model.parameters()), functional.cross_entropy, 128, 12)


def _wine_mlp_adamw() -> Task:
    x, y = _data("wine", torch.long)
    model = _mlp(13, 32, 32, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    return _task(x, y, model, optimizer, functional.cross_entropy, 16, 12)


TASKS: dict[str, Callable[[], Task]] = {
    "digits, MLP, SGD": _digits_mlp_sgd,
    "digits, CNN, AdamW": _digits_cnn_adamw,
    "diabetes, MLP, Adam": _diabetes_mlp_adam,
    "breast cancer, logistic, SGD": _cancer_logistic_sgd,
    "text, GRU, AdamW": _text_gru_adamw,
    "digits, MLP, LAMB": _digits_mlp_lamb,
    "wine, MLP, AdamW": _wine_mlp_adamw,
}
