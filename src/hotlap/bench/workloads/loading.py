"""Epochs over MNIST-sized images: how they are loaded and how they get to the device."""

import os
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from hotlap.bench.workloads import Sides

IMAGES, BATCH, MOST_WORKERS = 2048, 64, 8


class _Digits(Dataset[tuple[Tensor, int]]):
    """Images of bytes that are turned, shifted and normalised sample by sample."""

    def __init__(self) -> None:
        self.images = torch.randint(0, 256, (IMAGES, 28, 28), dtype=torch.uint8)

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index].float().div(255).sub(0.1307).div(0.3081)
        image = torch.roll(image, index % 5 - 2, dims=-1).clamp(-3, 3)
        return image.unsqueeze(0), index % 10


def _network(device: str) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 13 * 13, 10)
    ).to(device)


def _epoch(
    model: nn.Module, batches: Iterable[Sequence[Tensor]], *, non_blocking: bool = False
) -> None:
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for images, labels in batches:
        x, y = (part.to(device, non_blocking=non_blocking) for part in (images, labels))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def loader_workers(device: str) -> Sides:
    """Samples made in the training process, or in workers (a core each, 8 at most)."""
    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)))
    model, data = _network(device), _Digits()
    plain = DataLoader(data, BATCH)
    served = DataLoader(data, BATCH, num_workers=workers, persistent_workers=True)
    return Sides(lambda _: _epoch(model, plain), lambda _: _epoch(model, served))


def _large() -> TensorDataset:
    images = torch.randn(8 * IMAGES, 1, 28, 28)
    return TensorDataset(images, torch.arange(len(images)) % 10)


def pinned_memory(device: str) -> Sides:
    """Batches in pageable and in pinned memory."""
    model, data = _network(device), _large()
    sides = [DataLoader(data, 512, num_workers=2, persistent_workers=True, pin_memory=pinned)
             for pinned in (False, True)]  # fmt: skip
    return Sides(lambda _: _epoch(model, sides[0]), lambda _: _epoch(model, sides[1]))


def non_blocking(device: str) -> Sides:
    """Copies from pinned memory that the program waits for, or not."""
    model = _network(device)
    loader = DataLoader(_large(), 512, num_workers=2, persistent_workers=True, pin_memory=True)
    return Sides(
        lambda _: _epoch(model, loader, non_blocking=False),
        lambda _: _epoch(model, loader, non_blocking=True),
    )


def prefetcher(device: str) -> Sides:
    """The next batch copied on a side stream while this one computes."""
    model = _network(device)
    loader = DataLoader(_large(), 512, num_workers=2, persistent_workers=True, pin_memory=True)
    return Sides(lambda _: _epoch(model, loader), lambda _: _epoch(model, _ahead(loader, device)))


def _ahead(loader: Iterable[Sequence[Tensor]], device: str) -> Iterator[list[Tensor]]:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    following = None
    for batch in loader:
        with torch.cuda.stream(stream):
            coming = [part.to(device, non_blocking=True) for part in batch]
        if following is not None:
            yield following
        torch.cuda.current_stream().wait_stream(stream)
        for part in coming:
            part.record_stream(torch.cuda.current_stream())
        following = coming
    if following is not None:
        yield following
