"""Several CUDA devices in one process, or a process for each."""

import os
from multiprocessing.connection import Connection

import torch
from torch import distributed, multiprocessing, nn

from hotlap.bench.workloads import Sides

BATCH, WIDTH, STEPS = 4096, 2048, 10


def _model() -> nn.Module:
    layers = [layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 10))


def _steps(model: nn.Module, batch: int, device: str) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(batch, WIDTH, device=device)).sum().backward()
        optimizer.step()
    torch.cuda.synchronize(device)


def _rank(rank: int, world: int, pipe: Connection) -> None:
    torch.cuda.set_device(rank)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    distributed.init_process_group("nccl", rank=rank, world_size=world)
    model = nn.parallel.DistributedDataParallel(_model().cuda(), device_ids=[rank])
    while pipe.recv():
        _steps(model, BATCH // world, f"cuda:{rank}")
        pipe.send(True)
    distributed.destroy_process_group()


def ddp(_: str) -> Sides:
    """The same global batch through DataParallel, and through a rank for each device."""
    world = torch.cuda.device_count()
    single = nn.DataParallel(_model().cuda())
    context = multiprocessing.get_context("spawn")
    pipes = []
    for rank in range(world):
        ours, theirs = context.Pipe()
        context.Process(target=_rank, args=(rank, world, theirs), daemon=True).start()
        pipes.append(ours)

    def ranks(_: int) -> None:
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()

    return Sides(lambda _: _steps(single, BATCH, "cuda"), ranks)
