"""A small task, a loop written by hand, and the same loop with an Engine."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from hotlap.engine import Engine, EngineConfig

criterion = nn.CrossEntropyLoss()


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.line, self.drop = nn.Linear(width, width), nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(torch.tanh(self.line(x)))


class Net(nn.Module):
    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.first = nn.Linear(6, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.last = nn.Linear(width, 3)
        self.again = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
        return self.last(x)


def task(seed: int, samples: int = 70, batch: int = 8) -> tuple[Net, Any, Any, DataLoader[Any]]:
    torch.manual_seed(seed)
    data = TensorDataset(torch.randn(samples, 6), torch.randint(0, 3, (samples,)))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    return model, optimizer, scheduler, DataLoader(data, batch, shuffle=True)


def by_hand(seed: int, steps: int, config: EngineConfig) -> tuple[list[Tensor], Net]:
    """What a careful person writes; groups of an epoch's end are smaller."""
    model, optimizer, scheduler, loader = task(seed)
    model.again = bool(config.recompute_every)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.precision)
    scaler = torch.amp.GradScaler("cpu") if config.precision == "fp16" else None
    losses: list[Tensor] = []
    for group in groups(loader, config.accumulate, steps):
        for x, y in group:
            with torch.autocast("cpu", half) if half else nullcontext():
                loss = criterion(model(x), y)
            losses.append(loss.detach())
            scaled = loss / len(group)
            (scaler.scale(scaled) if scaler else scaled).backward()
        if config.clip:
            if scaler:
                scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), config.clip)
        if stepped(optimizer, scaler):
            scheduler.step()
        optimizer.zero_grad()
    return losses, model


def groups(loader: Any, size: int, steps: int) -> Iterator[list[Any]]:
    while True:
        batches = list(loader)
        for start in range(0, len(batches), size):
            yield batches[start : start + size]
            steps -= 1
            if not steps:
                return


def stepped(optimizer: Any, scaler: Any) -> bool:
    if scaler is None:
        optimizer.step()
        return True
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    return bool(scaler.get_scale() >= before)


def by_engine(seed: int, steps: int, config: EngineConfig) -> tuple[list[Tensor], Net]:
    model, optimizer, scheduler, loader = task(seed)
    losses: list[Tensor] = []
    with Engine(model, optimizer, scheduler=scheduler, config=config) as engine:
        while True:
            for x, y in engine.steps(list(loader)):
                with engine.forward():
                    loss = criterion(engine.model(x), y)
                losses.append(loss.detach())
                engine.step(loss)
                if engine.global_step == steps:
                    return losses, model
