"""What Engine costs a step, beside a loop written by hand, Accelerate and Lightning.

`python -m benchmarks.engine [ROUNDS]`: four loops over the same batches, the same model and the
same optimizer, in one process, in steps of about 0.5 ms. In each round every loop runs one block of
steps, the order turning; the figure is the median over the rounds of a loop's time over that of the
loop by hand, in the same round. Lightning's Trainer cannot be stopped between blocks: its blocks
are timed within one fit, by a callback, its loggers, bar and checkpoints switched off.
"""

import logging
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from statistics import median, quantiles
from typing import Any

import torch
from torch import nn

from benchmarks import record
from hotlap.engine import Engine, EngineConfig

BLOCK = 200
WIDTH, SAMPLES = 192, 64
criterion = nn.CrossEntropyLoss()
Block = Callable[[], float]


def task() -> tuple[nn.Module, torch.optim.Optimizer, list[Any]]:
    """A model of some 0.5 ms a step, and batches that cost nothing."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
    )
    batches = [(torch.randn(SAMPLES, 64), torch.randint(0, 10, (SAMPLES,))) for _ in range(BLOCK)]
    return model, torch.optim.SGD(model.parameters(), lr=0.01), batches


def by_hand() -> Block:
    """The loop as one writes it."""
    model, optimizer, batches = task()

    def block() -> float:
        begin = time.perf_counter()
        for x, y in batches:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return time.perf_counter() - begin

    return block


def by_engine() -> Block:
    """The loop with an Engine."""
    model, optimizer, batches = task()
    engine = Engine(model, optimizer, config=EngineConfig())

    def block() -> float:
        begin = time.perf_counter()
        for x, y in engine.steps(batches):
            with engine.forward():
                loss = criterion(engine.model(x), y)
            engine.step(loss)
        return time.perf_counter() - begin

    return block


def by_accelerate() -> Block:
    """The loop with Accelerate, as its guide has it."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, optimizer, batches = task()
    model, optimizer = accelerator.prepare(model, optimizer)

    def block() -> float:
        begin = time.perf_counter()
        for x, y in batches:
            loss = criterion(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        return time.perf_counter() - begin

    return block


class Turns:
    """Lets Lightning's one long fit, in a thread of its own, run a block at a time."""

    def __init__(self) -> None:
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._wall = 0.0
        self._steps = 0
        self._begin = 0.0
        threading.Thread(target=self._fit, daemon=True).start()

    def __call__(self) -> float:
        """Run one block."""
        self._go.release()
        self._done.acquire()
        return self._wall

    def step(self) -> None:
        """A step is over."""
        if self._steps == 0:
            self._go.acquire()
            self._begin = time.perf_counter()
        self._steps += 1
        if self._steps > BLOCK:
            self._wall = (time.perf_counter() - self._begin) * BLOCK / (self._steps - 1)
            self._steps = 0
            self._done.release()

    def _fit(self) -> None:
        import lightning

        model, optimizer, batches = task()
        turns = self

        class Module(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.inner = model

            def training_step(self, batch: Any, _: int) -> Any:
                x, y = batch
                return criterion(self.inner(x), y)

            def configure_optimizers(self) -> Any:
                return optimizer

        class Watch(lightning.Callback):
            def on_train_batch_start(self, *_: Any) -> None:
                turns.step()

        class Endless:
            def __iter__(self) -> Iterator[Any]:
                while True:
                    yield from batches

        trainer = lightning.Trainer(
            accelerator="cpu", max_steps=1 << 40, logger=False, callbacks=[Watch()],
            enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(Module(), Endless())


def main(rounds: int) -> None:
    """Measure, and write the record."""
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    blocks: dict[str, Block] = {
        "hand": by_hand(), "again": by_hand(), "engine": by_engine(),
        "accelerate": by_accelerate(), "lightning": Turns(),
    }  # fmt: skip
    for block in blocks.values():
        block()
    rows, draw = [], random.Random(0)
    for _ in range(rounds):
        order = draw.sample(list(blocks), len(blocks))
        rows.append({name: blocks[name]() / BLOCK for name in order})
    summary: dict[str, Any] = {"step by hand, ms": median(row["hand"] for row in rows) * 1e3}
    for name in ("again", "engine", "accelerate", "lightning"):
        ratios = [row[name] / row["hand"] for row in rows]
        quarters = quantiles(ratios, n=4)
        low, middle, high = (round(quarter, 4) for quarter in quarters)
        summary[f"{name} over hand"] = {"median": middle, "quartiles": [low, high]}
    record.write("engine", f"python -m benchmarks.engine {rounds}", rows, summary)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
