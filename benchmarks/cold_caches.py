"""What a phase costs the others of a step through the CPU's caches.

`python -m benchmarks.cold_caches [--seconds 3]`: a small training step runs by turns with and
without other work before it (interpreted Python, or a pass over an array), on one thread. The step
is slower behind that work, since the work evicts the step's code and data: without the work, the
step would save that time as well. `bound` in hotlap.profile.model allows for it. Times are CPU time
of the thread, so that other programs disturb them little.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import record

SIZE = 20
TURN = 8
Row = dict[str, float | str]


def python_work(images: int) -> Callable[[], object]:
    """A box blur of so many images of SIZE x SIZE in interpreted Python."""
    rows = np.random.default_rng(0).random((SIZE + 2, SIZE)).tolist()

    def blur() -> list[float]:
        out: list[float] = []
        for _ in range(images):
            for y in range(SIZE):
                column = [sum(three) for three in zip(*rows[y : y + 3], strict=True)]
                out += [sum(column[x : x + 3]) / 9.0 for x in range(SIZE)]
            out = np.clip(np.asarray(out), *np.percentile(out, (2, 98))).tolist()[: SIZE * SIZE]
        return out

    return blur


def array_work(megabytes: int) -> Callable[[], object]:
    """A pass over an array of float64 of that size."""
    array = np.ones(megabytes * 2**17)

    def add() -> float:
        return float((array + 1.0).sum())

    return add


def small_cnn() -> tuple[nn.Module, Tensor]:
    """A model of few operations a step, like that of examples/digits, and its batch."""
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return model, torch.rand(32, 1, SIZE, SIZE)


def mlp(width: int) -> tuple[nn.Module, Tensor]:
    """Two hidden layers of that width, and a batch."""
    model = nn.Sequential(
        nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    return model, torch.rand(64, 64)


def training_step(model: nn.Module, batch: Tensor) -> Callable[[], object]:
    """A step of Adam on the batch."""
    labels = torch.randint(0, 10, (len(batch),))
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def timed(call: Callable[[], object]) -> float:
    """Seconds of CPU time that this thread takes for a call."""
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def race(work: Callable[[], object], step: Callable[[], object], seconds: float) -> Row:
    """Medians in seconds: the work, a step behind it, and a step behind a step."""
    before, cold, warm = [], [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(cold) < 4 * TURN:
        for _ in range(TURN):
            before.append(timed(work))
            cold.append(timed(step))
        step()
        warm += [timed(step) for _ in range(TURN)]
    return {"work": median(before), "cold step": median(cold), "warm step": median(warm)}


def main(seconds: float) -> None:
    """Run each kind of work before each model's step, and write the record."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    works = {f"python {n}": python_work(n) for n in (1, 4, 16, 64)}
    works |= {f"array of {size} MB": array_work(size) for size in (1, 8, 64)}
    models = {"cnn": small_cnn()} | {f"mlp {width}": mlp(width) for width in (64, 512, 2048)}
    rows: list[Row] = []
    for model, made in models.items():
        step = training_step(*made)
        for _ in range(20):
            step()
        for name, work in works.items():
            rows.append({"model": model, "before": name, **race(work, step, seconds)})
            print(rows[-1], flush=True)
    saved = [float(r["cold step"]) - float(r["warm step"]) for r in rows]
    small = [(s, r) for s, r in zip(saved, rows, strict=True) if r["model"] != "mlp 2048"]
    summary = {
        "most seconds a step": max(s for s, _ in small),
        "most over the work's time": max(s / float(r["work"]) for s, r in small),
        "most times a warm step": max(float(r["cold step"]) / float(r["warm step"]) for r in rows),
    }
    record.write("cold_caches", "python -m benchmarks.cold_caches", rows, summary)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    main(parser.parse_args().seconds)
