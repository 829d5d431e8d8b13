"""What the optimizers cost, how they converge, and how good a range test's suggestion is.

`python -m benchmarks.optim [speed|converge|suggest|all]`. Speed: steps on the same 200 tensors,
paired and interleaved, as ratios to torch's fused AdamW of the same round.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import torch
from torch import nn

from benchmarks import record, small_tasks
from hotlap.optim import LAMB, LARS, NVLAMB, cosine, lr_range_test, no_decay_groups, polynomial

ROUNDS = 15
Params = list[torch.Tensor]
SHAPES = {
    "200 equal": [(353, 354)] * 200,
    "transformer": [(512, 512)] * 48 + [(512, 2048)] * 10 + [(512,)] * 140 + [(3000, 512)] * 2,
}


def _makers() -> dict[str, Callable[[Params], Any]]:
    makers: dict[str, Callable[[Params], Any]] = {
        "torch AdamW fused": lambda ps: torch.optim.AdamW(ps, fused=True),
        # the streams of LARS without its norms: what no LARS can be faster than
        "torch SGD fused, momentum": lambda ps: torch.optim.SGD(
            ps, momentum=0.9, weight_decay=0.01, fused=True
        ),
        "torch AdamW foreach": lambda ps: torch.optim.AdamW(ps, foreach=True),
        "hotlap LAMB": LAMB,
        "hotlap NVLAMB": NVLAMB,
        "hotlap LARS": lambda ps: LARS(ps, weight_decay=0.01),
    }
    others: list[tuple[str, str, dict[str, Any]]] = [
        *(("torch_optimizer", name, {}) for name in ("Lamb", "LARS")),
        *(("pytorch_optimizer", name, {"foreach": False}) for name in ("Lamb", "LARS")),
        *(("pytorch_optimizer", name, {"foreach": True}) for name in ("Lamb", "LARS")),
    ]
    for package, name, more in others:
        try:
            kind = getattr(import_module(package), name)
        except ModuleNotFoundError:
            continue
        form = "foreach" if more.get("foreach") else "for-loop"
        options = {"lr": 1e-3, "weight_decay": 0.01, **more}
        makers[f"{package} {name} {form}"] = lambda ps, kind=kind, options=options: kind(
            ps, **options
        )
    return makers


def speed(threads: int, shapes: list[tuple[int, ...]]) -> dict[str, list[tuple[float, float]]]:
    """Seconds a step of every optimizer, by the clock and of processor time, round by round."""
    torch.set_num_threads(threads)
    built = {}
    for name, make in _makers().items():
        torch.manual_seed(0)
        ps = [(0.02 * torch.randn(shape)).requires_grad_() for shape in shapes]
        for p in ps:
            p.grad = torch.randn_like(p)
        built[name] = make(ps)
        built[name].step()
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in built}
    for turn in range(ROUNDS):
        order = list(built) if turn % 2 else list(reversed(built))
        for name in order:
            begin = time.perf_counter(), time.process_time()
            built[name].step()
            end = time.perf_counter(), time.process_time()
            rows[name].append((end[0] - begin[0], end[1] - begin[1]))
    return rows


def _ratios(rows: dict[str, list[tuple[float, float]]], which: int) -> dict[str, float]:
    """Each one's time as a ratio to AdamW's of the same round: by the clock (0), of the CPU (1)."""
    base = rows["torch AdamW fused"]
    return {
        name: round(statistics.median(a[which] / b[which] for a, b in pairs), 3)
        for name, row in rows.items()
        if (pairs := list(zip(row, base, strict=True)))
    }


def speeds() -> None:
    """All speeds, as one record."""
    rows, summary = {}, {}
    for label, shapes in SHAPES.items():
        for threads in (1, 2):
            key = f"{label}, {threads} threads"
            rows[key] = speed(threads, shapes)
            summary[key] = {
                "parameters": sum(math.prod(shape) for shape in shapes),
                "of fused AdamW": _ratios(rows[key], 0),
                "of its processor time": _ratios(rows[key], 1),
                "AdamW ms": round(1e3 * min(wall for wall, _ in rows[key]["torch AdamW fused"]), 1),
            }
    record.write("optim-speed", "python -m benchmarks.optim speed", rows, summary)


def _digits(seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    data = import_module("sklearn.datasets").load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 16
    y = torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    cut = 1280
    return [x[order[:cut]], y[order[:cut]]], [x[order[cut:]], y[order[cut:]]]


def _accuracy(name: str, choice: tuple[float, str, float], seed: int, epochs: int = 20) -> float:
    lr, falls, momentum = choice
    (x, y), (held_x, held_y) = _digits(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    optimizer = KINDS[name](model, lr, momentum)
    steps = math.ceil(len(x) / BATCH) * epochs
    schedule = SCHEDULES[falls](optimizer, steps=steps, warmup=steps // 10)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return (model(held_x).argmax(1) == held_y).double().mean().item()


BATCH = 512
SCHEDULES: dict[str, Any] = {"cosine": cosine, "polynomial": partial(polynomial, power=2.0)}
MOMENTA = (0.8, 0.9)
KINDS: dict[str, Callable[[nn.Module, float, float], torch.optim.Optimizer]] = {
    "AdamW": lambda m, lr, beta: torch.optim.AdamW(
        no_decay_groups(m, 0.01), lr=lr, betas=(beta, 0.999)
    ),
    "LAMB": lambda m, lr, beta: LAMB(no_decay_groups(m, 0.01), lr=lr, betas=(beta, 0.999)),
    "NVLAMB": lambda m, lr, beta: NVLAMB(no_decay_groups(m, 0.01), lr=lr, betas=(beta, 0.999)),
    # the paper's weight decay; biases take the bare rate: so a small one, and a large coefficient
    "LARS": lambda m, lr, beta: LARS(
        no_decay_groups(m, 5e-4), lr=lr, momentum=beta, trust_coefficient=0.2
    ),
}
GRIDS = {
    "AdamW": [8e-3, 1.6e-2, 3.2e-2, 6.4e-2],
    "LAMB": [2e-2, 4e-2, 8e-2, 1.6e-1],
    "NVLAMB": [2e-2, 4e-2, 8e-2, 1.6e-1],
    "LARS": [0.125, 0.25, 0.5, 1],
}


def converge() -> None:
    """Digits at batch 512, 60 steps: each one's best settings by 5 seeds, judged on 20 others.

    All choose among four rates, two momenta (or first betas), and a rate that falls by a cosine or
    by the polynomial of power 2 that LARS was published with.
    """
    rows: dict[str, Any] = {}
    for name, grid in GRIDS.items():
        tuned = {
            choice: statistics.mean(_accuracy(name, choice, seed) for seed in range(5))
            for choice in product(grid, SCHEDULES, MOMENTA)
        }
        best = max(tuned, key=tuned.__getitem__)
        held = [_accuracy(name, best, seed) for seed in range(100, 120)]
        words = {", ".join(map(str, choice)): value for choice, value in tuned.items()}
        rows[name] = {"tuned": words, "best": best, "held out": held}
    summary = {}
    for name, row in rows.items():
        gains = [a - b for a, b in zip(row["held out"], rows["AdamW"]["held out"], strict=True)]
        error = statistics.stdev(gains) / math.sqrt(len(gains)) if any(gains) else 0.0
        summary[name] = {
            "lr": row["best"][0],
            "schedule": row["best"][1],
            "momentum": row["best"][2],
            "accuracy": round(statistics.mean(row["held out"]), 4),
            "over AdamW": round(statistics.mean(gains), 4),
            "standard error": round(error, 4),
        }
    record.write("optim-converge", "python -m benchmarks.optim converge", rows, summary)


def suggest() -> None:
    """The range test's suggestion against the best of a grid of fixed rates, on small tasks."""
    rates = [1e-4 * 2**i for i in range(16)]
    rows: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    for name in small_tasks.TASKS:
        curves = []
        for seed in range(3):
            task = small_tasks.TASKS[name]()
            torch.manual_seed(seed)
            curves.append(lr_range_test(task.model, task.optimizer, task.loader, task.loss))
        grid = {
            lr: statistics.mean(small_tasks.trained(name, lr, seed) for seed in range(3))
            for lr in rates
        }
        best = min(grid.values())
        good = [lr for lr, loss in grid.items() if loss <= 1.1 * best]
        found = [curve.suggestion() or math.nan for curve in curves]
        top = min(grid, key=grid.__getitem__)
        rows[name] = {"grid": grid, "curves": [curve.to_json() for curve in curves]}
        summary[name] = {
            "best rate": top,
            "within 10 % of its loss": [min(good), max(good)],
            "suggestions": found,
            "factor from best": [round(max(top / x, x / top), 2) for x in found],
            "factor from within 10 %": [
                round(max(1.0, min(good) / x, x / max(good)), 2) for x in found
            ],
        }
    record.write("optim-suggest", "python -m benchmarks.optim suggest", rows, summary)


def main(what: str) -> None:
    """Run one part or all of them."""
    parts = {"speed": speeds, "converge": converge, "suggest": suggest}
    for name, part in parts.items():
        if what in (name, "all"):
            part()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "all")
