"""A training that can be taken up again: `training.py FOLDER [ddp|fsdp] [SAVE_EVERY] [PAUSE]`.

The global batch is the same for any number of ranks. The first rank notes after each step: steps,
ranks, attempt, and the sum of all parameters.
"""

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from hotlap.data import Loader
from hotlap.engine import Engine, EngineConfig

GLOBAL_BATCH, SAMPLES, EPOCHS = 8, 64, 6  # 48 steps


class Points:
    """Points and what they are worth."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return x, x.prod().reshape(1)


def model_of(layout: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    return fully_shard(model) if layout == "fsdp" else DistributedDataParallel(model)


def total(model: nn.Module) -> float:
    whole = (p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters())
    return sum(float(p.detach().double().abs().sum()) for p in whole)


def train(folder: Path, layout: str, every: int, pause: float) -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    (folder / f"pid-{rank}").write_text(str(os.getpid()))
    model = model_of(layout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = Loader(Points(), GLOBAL_BATCH // world, shuffle=True, seed=3, workers=0)
    config = EngineConfig(folder=str(folder / "checkpoints"), save_every=every, clip=1.0)
    with Engine(model, optimizer, config=config) as engine:
        engine.resume()
        for _ in engine.epochs(EPOCHS):
            for x, y in engine.steps(loader):
                engine.step((engine.model(x) - y).square().mean())
                note(folder, rank, engine.global_step, world, total(model))
                time.sleep(pause)
    if rank == 0:
        (folder / "finished").touch()
    del engine, model, optimizer
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


def note(folder: Path, rank: int, *values: Any) -> None:
    if rank == 0:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        line = " ".join([*map(str, values[:2]), attempt, values[2].hex()])
        with (folder / "steps").open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    words = [*sys.argv[2:], *["ddp", "4", "0.02"][len(sys.argv) - 2 :]]
    train(Path(sys.argv[1]), words[0], int(words[1]), float(words[2]))
