"""Runs a step under a set of measures on a copy of the model: its peak memory and its time."""

import copy
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hotlap.common.nested import mapped, tensors
from hotlap.common.recomputing import recompute, repeated
from hotlap.memory.meter import Meter
from hotlap.memory.offload import offloaded

Loss = Callable[[nn.Module, Any], Tensor]
MakeOptimizer = Callable[[nn.Module], Optimizer]

MICRO_BATCHES_MEASURED = 2  # the second one meets the gradients of the first; later ones repeat it
TIMED_PAIRS = 5


@dataclass(frozen=True)
class Fit:
    """A set of measures and what it comes to; bytes.

    `engine` holds the fields of an EngineConfig that are to be set. `offload`: run the forward pass
    in `hotlap.memory.offloaded()`. `optimizer` is which of the makers given was taken, from 0.
    `cost` is the rough factor on the time of a step. `bf16_time` is the measured time of a step in
    bf16 over that in float32 (0: not measured).
    """

    accumulate: int = 1
    precision: str = "fp32"
    recompute_every: int = 0
    offload: bool = False
    optimizer: int = 0
    cost: float = 1.0
    predicted: int = 0
    measured: int = 0
    bf16_time: float = 0.0

    @property
    def engine(self) -> dict[str, int | str]:
        """Fields of an EngineConfig."""
        return {
            "accumulate": self.accumulate,
            "precision": self.precision,
            "recompute_every": self.recompute_every,
        }


@dataclass(frozen=True)
class Task:
    """What is trained: a model on its device, a whole batch, `loss(model, batch)`."""

    model: nn.Module
    batch: object
    loss: Loss

    @property
    def device(self) -> torch.device:
        """Where the batch is."""
        return next(tensors(self.batch)).device

    @property
    def rows(self) -> int:
        """Samples of the batch."""
        return min((len(t) for t in tensors(self.batch) if t.dim()), default=1)


def measure(task: Task, optimizer: MakeOptimizer, plan: Fit) -> int:
    """The peak of two steps under a plan, on a copy of the model; bytes.

    Of many micro-batches two are run: what the others allocate is the same.
    """
    device, batch = task.device, task.batch
    with own_random(device):
        model, stepper = _prepared(task, optimizer, plan)
        if device.type != "cuda":
            with Meter(model, stepper) as meter:
                for tensor in tensors(batch):
                    meter._add(tensor, "batch")
                for _ in range(2):
                    _step(model, task, stepper, plan)
            return meter.peak
        torch.cuda.synchronize(device)
        torch._C._cuda_clearCublasWorkspaces()  # else they count for the first plan alone
        before = torch.cuda.memory_allocated(device)
        own = sum(p.nbytes for p in model.parameters()) + sum(b.nbytes for b in model.buffers())
        own += sum(t.nbytes for t in tensors(batch))
        torch.cuda.reset_peak_memory_stats(device)
        for _ in range(2):
            _step(model, task, stepper, plan)
        return torch.cuda.max_memory_allocated(device) - before + own


def bf16_time(task: Task, optimizer: MakeOptimizer, plan: Fit) -> float:
    """The time of a step in bf16 over that in float32, both otherwise under `plan`.

    The median of interleaved pairs, after one step of each as a warm-up; each on its own copy of
    the model.
    """
    plans = [replace(plan, precision=precision) for precision in ("bf16", "fp32")]
    with own_random(task.device):
        prepared = [_prepared(task, optimizer, each) for each in plans]
        ratios = []
        for _ in range(TIMED_PAIRS + 1):
            half, full = (
                _step_seconds(model, task, stepper, each)
                for (model, stepper), each in zip(prepared, plans, strict=True)
            )
            ratios.append(half / full)
    return median(ratios[1:])


def _step_seconds(model: nn.Module, task: Task, optimizer: Optimizer, plan: Fit) -> float:
    _synchronise(task.device)
    begin = time.perf_counter()
    _step(model, task, optimizer, plan)
    _synchronise(task.device)
    return time.perf_counter() - begin


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _prepared(task: Task, optimizer: MakeOptimizer, plan: Fit) -> tuple[nn.Module, Optimizer]:
    """A copy of the model, recomputing as the plan says, and its optimizer."""
    model = copy.deepcopy(task.model)
    stepper = optimizer(model)
    if plan.recompute_every:
        recompute(repeated(model)[:: plan.recompute_every])
    return model, stepper


def _step(model: nn.Module, task: Task, optimizer: Optimizer, plan: Fit) -> None:
    device = task.device.type
    for part in _split(task.batch, plan.accumulate):
        with _forward(device, plan), offloaded() if plan.offload else nullcontext():
            value = task.loss(model, part) / plan.accumulate
        value.backward()  # type: ignore[no-untyped-call]
        del value
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _forward(device: str, plan: Fit) -> AbstractContextManager[object]:
    return torch.autocast(device, torch.bfloat16) if plan.precision == "bf16" else nullcontext()


def _split(batch: object, parts: int) -> list[object]:
    """The first of so many parts of the batch along the first dimension: the largest ones."""
    return [
        mapped(batch, lambda t, i=i: t.tensor_split(parts)[i] if t.dim() else t)  # type: ignore[misc]
        for i in range(min(parts, MICRO_BATCHES_MEASURED))
    ]


def own_random(device: torch.device) -> AbstractContextManager[None]:
    """Random numbers drawn in the context are not missed outside."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])
