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
from typing import Any

import torch
from torch import nn

from benchmarks import record, small_tasks
from hotlap.optim import LAMB, LARS, NVLAMB, cosine, lr_range_test, no_decay_groups

ROUNDS = 15
Params = list[torch.Tensor]
SHAPES = {
    "200 equal": [(353, 354)] * 200,
    "transformer": [(512, 512)] * 48 + [(512, 2048)] * 10 + [(512,)] * 140 + [(3000, 512)] * 2,
}


def _makers() -> dict[str, Callable[[Params], Any]]:
    makers: dict[str, Callable[[Params], Any]] = {
        "torch AdamW fused": lambda ps: torch.optim.AdamW(ps, fused=True),
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


def speed(threads: int, shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    """Seconds a step of every optimizer, round by round."""
    torch.set_num_threads(threads)
    built = {}
    for name, make in _makers().items():
        torch.manual_seed(0)
        ps = [(0.02 * torch.randn(shape)).requires_grad_() for shape in shapes]
        for p in ps:
            p.grad = torch.randn_like(p)
        built[name] = make(ps)
        built[name].step()
    rows: dict[str, list[float]] = {name: [] for name in built}
    for turn in range(ROUNDS):
        order = list(built) if turn % 2 else list(reversed(built))
        for name in order:
            begin = time.perf_counter()
            built[name].step()
            rows[name].append(time.perf_counter() - begin)
    return rows


def _ratios(rows: dict[str, list[float]], base: str) -> dict[str, float]:
    return {
        name: round(statistics.median(a / b for a, b in zip(row, rows[base], strict=True)), 3)
        for name, row in rows.items()
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
                "of fused AdamW": _ratios(rows[key], "torch AdamW fused"),
                "AdamW ms": round(1e3 * statistics.median(rows[key]["torch AdamW fused"]), 1),
            }
    record.write("optim-speed", "python -m benchmarks.optim speed", rows, summary)


def _digits(seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    data = import_module("sklearn.datasets").load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 16
    y = torch.tensor(data.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    cut = 1280
    return [x[order[:cut]], y[order[:cut]]], [x[order[cut:]], y[order[cut:]]]


def _accuracy(name: str, lr: float, seed: int, epochs: int = 20, batch: int = 512) -> float:
    (x, y), (held_x, held_y) = _digits(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    kinds: dict[str, Any] = {
        "AdamW": torch.optim.AdamW,
        "LAMB": LAMB,
        "NVLAMB": NVLAMB,
        # biases take the bare rate, so it is kept small and the layers' coefficient large
        "LARS": partial(LARS, trust_coefficient=0.05),
    }
    optimizer = kinds[name](no_decay_groups(model, 0.01), lr=lr)
    steps = math.ceil(len(x) / batch) * epochs
    schedule = cosine(optimizer, steps=steps, warmup=steps // 10)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        return (model(held_x).argmax(1) == held_y).double().mean().item()


GRIDS = {
    "AdamW": [2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2],
    "LAMB": [5e-3, 1e-2, 2e-2, 4e-2, 8e-2, 1.6e-1],
    "NVLAMB": [5e-3, 1e-2, 2e-2, 4e-2, 8e-2, 1.6e-1],
    "LARS": [0.125, 0.25, 0.5, 1, 2, 4],
}


def converge() -> None:
    """Digits at batch 512: each optimizer's best rate by 5 seeds, then judged on 20 others."""
    rows: dict[str, Any] = {}
    for name, grid in GRIDS.items():
        tuned = {lr: statistics.mean(_accuracy(name, lr, seed) for seed in range(5)) for lr in grid}
        best = max(tuned, key=tuned.__getitem__)
        held = [_accuracy(name, best, seed) for seed in range(100, 120)]
        rows[name] = {"tuned": tuned, "lr": best, "held out": held}
    summary = {}
    for name, row in rows.items():
        gains = [a - b for a, b in zip(row["held out"], rows["AdamW"]["held out"], strict=True)]
        error = statistics.stdev(gains) / math.sqrt(len(gains)) if any(gains) else 0.0
        summary[name] = {
            "lr": row["lr"],
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
