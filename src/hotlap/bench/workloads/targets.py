"""Trainings to an accuracy: schedules and batch sizes, a seed for each pair."""

import time

import torch
from torch import Tensor, nn

from hotlap.bench.workloads import Sides

TARGET = 0.93
EPOCHS = 40
CLASSES, FEATURES, SAMPLES = 10, 64, 8192
RATE = 0.02
"""Of SGD with momentum 0.9 at batch 64; other batches scale it by the square root of their size."""


def _task(seed: int, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ten classes of noisy points, each around three centres."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES * 3, FEATURES, generator=generator)
    which = torch.randint(0, CLASSES * 3, (SAMPLES + 2048,), generator=generator)
    noise = torch.randn(len(which), FEATURES, generator=generator)
    x, y = (centres[which] + 1.6 * noise).to(device), (which % CLASSES).to(device)
    return x[:SAMPLES], y[:SAMPLES], x[SAMPLES:], y[SAMPLES:]


def _train(
    seed: int, device: str, batch: int, epochs: int, *, one_cycle: bool
) -> tuple[float, bool]:
    """Seconds until the accuracy on held-out points is reached, and whether it was."""
    x, y, held_x, held_y = _task(seed, device)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, CLASSES)).to(device)
    steps = SAMPLES // batch
    rate = RATE * (batch / 64) ** 0.5
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    schedule = None
    if one_cycle:
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4 * rate, epochs * steps)
    begin = time.perf_counter()
    for _ in range(epochs):
        order = torch.randperm(SAMPLES, device=device)
        for chosen in torch.split(order, batch)[:steps]:
            loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if schedule is not None:
                schedule.step()
        with torch.no_grad():
            accuracy = (model(held_x).argmax(1) == held_y).float().mean().item()
        if accuracy >= TARGET:
            return time.perf_counter() - begin, True
    return time.perf_counter() - begin, False


def one_cycle(device: str) -> Sides:
    """A constant rate, or one cycle over a quarter of the epochs, both with batch 64."""
    return Sides(
        lambda seed: _train(seed, device, 64, EPOCHS, one_cycle=False),
        lambda seed: _train(seed, device, 64, EPOCHS // 4, one_cycle=True),
    )


def batch_512(device: str) -> Sides:
    """Batch 64 at a constant rate, or batch 512 with one cycle and a larger rate."""
    return Sides(
        lambda seed: _train(seed, device, 64, EPOCHS, one_cycle=False),
        lambda seed: _train(seed, device, 512, EPOCHS // 4, one_cycle=True),
    )
