"""Parity on real trainings: twelve that were changed are rejected, twelve correct ones pass.

Each is a small training of its own, run in this process; loader workers are processes.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from hotlap.core.technique import PERTURBED_AT, Numerics
from hotlap.seam.data_audit import DataAudit
from hotlap.seam.perturb import nudge
from hotlap.trial.data_parity import DataUse
from hotlap.trial.parity import Parity, compare, noise

SAMPLES, WIDTH, CLASSES, BATCH = 240, 16, 5, 32
ROUNDING, PRECISION, EXACT = Numerics.ROUNDING, Numerics.PRECISION, Numerics.EXACT


class FileWire:
    """Takes messages of this process and of its loader workers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_text("")

    def send(self, kind: str, **fields: Any) -> None:
        line = json.dumps(fields).encode() + b"\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        os.write(handle, line)
        os.close(handle)

    def use(self) -> DataUse:
        found = DataUse()
        for line in self._path.read_text().splitlines():
            found.add(json.loads(line))
        return found


@cache
def samples() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    x = torch.randn(SAMPLES, WIDTH)
    y = (x @ torch.randn(WIDTH, CLASSES) + torch.randn(SAMPLES, CLASSES)).argmax(1)
    return x, y


class Samples(Dataset):
    """Plain samples; options plant what may go wrong in a dataset."""

    def __init__(self, *, augment=0.0, curriculum=False, cached=False, mislabelled=False):
        self.x, self.y = samples()
        self.augment, self.curriculum, self.mislabelled = augment, curriculum, mislabelled
        self.cache = {} if cached else None
        self.count = 0
        self.epoch = 0

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if self.cache is not None and index in self.cache:
            return self.cache[index]
        x, y = self.x[index], self.y[index]
        if self.augment:
            x = x + self.augment * torch.randn(WIDTH)
        if self.curriculum:
            self.count += 1
            x = x * min(1.0, 0.2 + self.count / 400)
        if self.epoch:
            x = x.roll(self.epoch)
        if self.mislabelled:
            y = self.y[(index + 1) % SAMPLES]
        if self.cache is not None:
            self.cache[index] = (x, y)
        return x, y


class Stream(IterableDataset):
    """A stream with augmentation; `split` among the workers, or read by each in whole."""

    def __init__(self, *, split=True, own_seed=False):
        self.x, self.y = samples()
        self.split, self.own_seed = split, own_seed

    def __iter__(self):
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker and self.split else (0, 1)
        order = range(first, SAMPLES, step)
        if self.own_seed:  # each worker draws its own order, from the same seed
            generator = torch.Generator().manual_seed(7)
            order = torch.randint(0, SAMPLES, (len(order),), generator=generator).tolist()
        for index in order:
            yield self.x[index] + 0.1 * torch.randn(WIDTH), self.y[index]


class Model(nn.Module):
    """A residual classifier; options plant what may go wrong in a model."""

    def __init__(self, *, dropout=0.0, skip=False, norm=False, double=False):
        super().__init__()
        self.first, self.middle = nn.Linear(WIDTH, 32), nn.Linear(32, 32)
        self.norm = nn.BatchNorm1d(32) if norm else nn.Identity()
        self.drop, self.last = nn.Dropout(dropout), nn.Linear(32, CLASSES)
        self.skip, self.double = skip, double

    def forward(self, x):
        x = torch.tanh(self.norm(self.first(x)))
        if not self.skip:
            x = x + 0.3 * torch.tanh(_linear(self.middle, x, self.double))
        return self.last(self.drop(x))


def _linear(layer, x, double):
    """The layer; in double precision it rounds otherwise."""
    if not double:
        return layer(x)
    return functional.linear(x.double(), layer.weight.double(), layer.bias.double()).float()


def _nothing(*_: Any) -> None:
    """Leave it as it is."""


@dataclass(frozen=True)
class Run:
    """One training."""

    dataset: Callable[[], Any] = Samples
    model: Callable[[], nn.Module] = Model
    loader: dict[str, Any] = field(default_factory=lambda: {"shuffle": True})
    optimizer: Callable[[Any], Any] = lambda parameters: torch.optim.SGD(parameters, lr=0.3)
    before_step: Callable[[nn.Module], Any] = _nothing
    on_epoch: Callable[[Any, int], Any] = _nothing
    before_training: Callable[[nn.Module], Any] = _nothing
    after_epoch: Callable[[nn.Module], Any] = _nothing
    autocast: bool = False
    set_to_none: bool = True
    steps: int = 48
    seed: int = 0
    perturbed: bool = False

    def losses(self, path: Path) -> tuple[list[float], DataUse]:
        wire = FileWire(path)
        audit = DataAudit(wire)  # type: ignore[arg-type]
        with audit.watching():
            losses = self._train()
            audit.flush()
        return losses, wire.use()

    def _train(self) -> list[float]:
        dataset = self.dataset()
        torch.manual_seed(self.seed)
        model = self.model()
        self.before_training(model)
        optimizer = self.optimizer(model.parameters())
        loader = DataLoader(dataset, BATCH, **self.loader)
        losses: list[float] = []
        epoch = 0
        while len(losses) < self.steps:
            self.on_epoch(dataset, epoch)
            for x, y in loader:
                with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
                    loss = functional.cross_entropy(model(x), y)
                optimizer.zero_grad(self.set_to_none)
                loss.backward()
                self.before_step(model)
                optimizer.step()
                losses.append(loss.item())
                if self.perturbed and len(losses) == PERTURBED_AT:
                    nudge(model.parameters())
            self.after_epoch(model)
            epoch += 1
        return losses


def with_workers(run: Run, count: int = 2) -> Run:
    return replace(run, loader={**run.loader, "num_workers": count})


def verdict(
    reference: Run, candidate: Run, numerics: Numerics, folder: Path, *, layout: bool = False
) -> Parity:
    before, use = reference.losses(folder / "a")
    again, _ = replace(reference, perturbed=True).losses(folder / "b")
    after, used = candidate.losses(folder / "c")
    own = noise(before, again, perturbed=True)
    return compare(before, after, numerics, own, (use, used) if layout else None)


def scaled(model):
    for parameter in model.parameters():
        parameter.grad.mul_(1.1)


def underflow(model):
    for parameter in model.parameters():  # as if 16 bits had been given the unscaled gradients
        parameter.grad.copy_((parameter.grad * 1e-7).half().float() * 1e7)


def set_epoch(dataset, epoch):
    dataset.epoch = epoch


def augmented(**options):
    return Samples(augment=0.3, **options)


NORMED, DROPPED = Run(model=lambda: Model(norm=True)), Run(model=lambda: Model(dropout=0.3))
STREAM = Run(dataset=Stream, loader={}, steps=40)
AUGMENTED = Run(dataset=augmented)
CURRICULUM = Run(dataset=lambda: Samples(curriculum=True))
CHANGED = {
    "curriculum counter": (CURRICULUM, with_workers(CURRICULUM), EXACT, True),
    "sampler seeded per worker": (
        STREAM, with_workers(replace(STREAM, dataset=lambda: Stream(own_seed=True))), EXACT, True,
    ),
    "duplicated samples": (
        STREAM, with_workers(replace(STREAM, dataset=lambda: Stream(split=False))), EXACT, True,
    ),
    "dropped last batch": (
        AUGMENTED,
        with_workers(replace(AUGMENTED, loader={"shuffle": True, "drop_last": True})),
        EXACT, True,
    ),
    "stale cache": (
        Run(on_epoch=set_epoch),
        Run(on_epoch=set_epoch, dataset=lambda: Samples(cached=True)),
        EXACT, False,
    ),
    "mislabelled shuffle": (
        AUGMENTED,
        with_workers(replace(AUGMENTED, dataset=lambda: augmented(mislabelled=True))),
        EXACT, True,
    ),
    "augmentation frozen by a cache": (
        AUGMENTED, replace(AUGMENTED, dataset=lambda: augmented(cached=True)), EXACT, True,
    ),
    "batch norm in eval": (
        NORMED, replace(NORMED, before_training=lambda model: model.eval()), ROUNDING, False,
    ),
    "gradient scaled": (Run(), Run(before_step=scaled), ROUNDING, False),
    "bf16 underflow": (Run(), Run(before_step=underflow), PRECISION, False),
    "a layer skipped": (Run(), Run(model=lambda: Model(skip=True)), ROUNDING, False),
    "dropout off": (DROPPED, Run(), PRECISION, False),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that wait for cores make these small operations a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_training_is_rejected(name: str, tmp_path: Path) -> None:
    reference, candidate, numerics, layout = CHANGED[name]
    found = verdict(reference, candidate, numerics, tmp_path, layout=layout)
    assert not found.kept, found.reason


def sgd(**options):
    return lambda parameters: torch.optim.SGD(parameters, lr=0.3, momentum=0.9, **options)


def adamw(**options):
    return lambda parameters: torch.optim.AdamW(parameters, lr=3e-3, **options)


def long(run: Run) -> Run:
    """Thousands of steps, in which rounding grows to another trajectory."""
    return replace(run, steps=3000)


def evaluated(model):
    with torch.no_grad():
        model(samples()[0])


def evaluated_with_gradients(model):
    model(samples()[0])


CORRECT = {
    "the same again": (Run(), Run(), EXACT, False),
    "workers": (Run(), with_workers(Run()), EXACT, True),
    "workers that augment": (AUGMENTED, with_workers(AUGMENTED), EXACT, True),
    "workers that share a stream": (STREAM, with_workers(STREAM), EXACT, True),
    "workers and dropout": (DROPPED, with_workers(DROPPED), EXACT, True),
    "samples cached": (Run(), Run(dataset=lambda: Samples(cached=True)), EXACT, False),
    "gradients zeroed": (Run(), Run(set_to_none=False), EXACT, False),
    "evaluation without gradients": (
        Run(after_epoch=evaluated_with_gradients), Run(after_epoch=evaluated), EXACT, False,
    ),
    "double precision inside, 3000 steps": (
        long(Run(optimizer=sgd())),
        long(Run(optimizer=sgd(), model=lambda: Model(double=True))),
        ROUNDING, False,
    ),
    "one kernel for all parameters, 3000 steps": (
        long(Run(optimizer=adamw(foreach=False))), long(Run(optimizer=adamw(fused=True))),
        ROUNDING, False,
    ),
    "foreach": (Run(optimizer=sgd(foreach=False)), Run(optimizer=sgd(foreach=True)),
                ROUNDING, False),
    "bfloat16, 3000 steps": (
        long(Run(optimizer=sgd())), long(Run(optimizer=sgd(), autocast=True)), PRECISION, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n.endswith("3000 steps") else ()) for n in CORRECT],
)
def test_a_correct_training_passes(name: str, tmp_path: Path) -> None:
    reference, candidate, numerics, layout = CORRECT[name]
    found = verdict(reference, candidate, numerics, tmp_path, layout=layout)
    assert found.kept, found.reason


def test_a_counter_is_named(tmp_path: Path) -> None:
    found = verdict(CURRICULUM, with_workers(CURRICULUM), EXACT, tmp_path, layout=True)
    assert "`count`" in found.reason
    assert found.reason.startswith("step 2: loss ") or "relative difference" in found.reason


def test_an_unseeded_script_is_compared_with_its_own_noise(tmp_path: Path) -> None:
    first, again, third = (replace(Run(), seed=seed).losses(tmp_path / "x")[0] for seed in range(3))
    own = noise(first, again)
    assert not own.deterministic
    assert compare(first, third, EXACT, own).rule == "statistical"
