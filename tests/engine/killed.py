"""A run that writes down each loss and can be taken up again: `killed.py FOLDER [--tight]`.

With `--tight` it saves after each step, as fast as it can, so that most kills hit a save.
"""

import os
import sys
from pathlib import Path

import torch

from engine.engine_loops import criterion, task
from hotlap.engine import Engine, EngineConfig

folder, tight = Path(sys.argv[1]), "--tight" in sys.argv
model, optimizer, scheduler, loader = task(11, samples=200)
config = EngineConfig(
    precision="bf16", accumulate=1 if tight else 2, clip=1.0, seed=1,
    folder=str(folder / "checkpoints"), save_every=1 if tight else 5,
)  # fmt: skip
log = os.open(folder / "losses", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
with Engine(model, optimizer, scheduler=scheduler, config=config) as engine:
    engine.resume()
    for _ in engine.epochs(1000 if tight else 12):
        for x, y in engine.steps(loader):
            with engine.forward():
                loss = criterion(engine.model(x), y)
            place = f"{engine.global_step} {engine.stepper.pending}"
            engine.step(loss)
            os.write(log, f"{place} {loss.item().hex()}\n".encode())
        with engine.evaluating():
            torch.rand(2)
(folder / "finished").touch()
