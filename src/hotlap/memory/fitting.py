"""The cheapest set of measures under which a training step fits a memory limit."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from hotlap.data.nested import mapped, tensors
from hotlap.engine.recomputing import recompute, repeated
from hotlap.memory.meter import Meter
from hotlap.memory.offload import offloaded
from hotlap.memory.saved import below, saved_by_module

Loss = Callable[[nn.Module, Any], Tensor]
MakeOptimizer = Callable[[nn.Module], Optimizer]

# What each measure multiplies a step's time by; rough, and only their order counts.
# A doubling of the micro-batches costs enough that recomputation comes before more than eight.
_RECOMPUTING, _HALF, _OFFLOADING, _SPLITTING = 1.33, 1.01, 1.6, 1.08
_HALF_SIZE = 0.6  # of float32 activations under autocast: sums and norms stay float32
_HOPE = 1.25  # a prediction up to so far above the limit is still measured


@dataclass(frozen=True)
class Fit:
    """A set of measures and what it comes to; bytes.

    `engine` holds the fields of an EngineConfig that are to be set. `offload`: run the forward pass
    in `hotlap.memory.offloaded()`. `optimizer` is which of the makers given was taken, from 0.
    `cost` is the rough factor on the time of a step.
    """

    accumulate: int = 1
    precision: str = "fp32"
    recompute_every: int = 0
    offload: bool = False
    optimizer: int = 0
    cost: float = 1.0
    predicted: int = 0
    measured: int = 0

    @property
    def engine(self) -> dict[str, Any]:
        """Fields of an EngineConfig."""
        return {
            "accumulate": self.accumulate,
            "precision": self.precision,
            "recompute_every": self.recompute_every,
        }


def fit(
    model: nn.Module,
    batch: Any,
    loss: Loss,
    optimizer: MakeOptimizer | Sequence[MakeOptimizer],
    limit: int,
    *,
    half: bool = True,
) -> Fit:
    """Find the cheapest measures under which a step on `batch` takes at most `limit` bytes.

    Candidates are ordered by cost; those whose predicted peak is near the limit are run on a copy
    of the model, and the first that is measured to fit is the answer. On CUDA the measure is the
    allocator's peak, else the bytes of live tensors. `model` and the random numbers stay as they
    were.

    Args:
        model: on the device it will train on.
        batch: a whole batch, on that device; tensors are split along their first dimension.
        loss: `loss(model, batch)` gives the mean loss.
        optimizer: `optimizer(model)` makes the optimizer; its state counts after its first step.
            Several, such as AdamW and then Adafactor with its smaller state, are taken in their
            order: the next one where nothing fits with those before.
        limit: bytes.
        half: whether bf16 autocast may be used.

    Raises:
        ValueError: nothing tried fits; the message has the least peak that was measured, or the
            bytes that weights, gradients and optimizer state alone take, which is known at once.

    """
    makers = [optimizer] if callable(optimizer) else list(optimizer)
    least: list[int] = []
    fixed: list[int] = []
    for index, make in enumerate(makers):
        parts = _Parts.of(model, batch, loss, make)
        fixed.append(parts.fixed)
        if parts.fixed > limit:  # no measure makes these smaller
            continue
        for plan in _near(parts, _plans(model, batch, half=half), limit):
            measured = measure(model, batch, loss, make, plan)
            if measured <= limit:
                return replace(plan, optimizer=index, measured=measured)
            least.append(measured)
    state = f"; weights, gradients, optimizer state and batch alone take {min(fixed)}"
    known = f"; the least measured was {min(least)}" if least else state
    raise ValueError(f"no set of measures fits {limit} bytes{known}")


def _near(parts: "_Parts", plans: Iterator[Fit], limit: int) -> Iterator[Fit]:
    """Those plans that may fit, the cheapest first."""
    for plan in sorted(plans, key=lambda plan: plan.cost):
        predicted = parts.peak(plan)
        if predicted <= _HOPE * limit:
            yield replace(plan, predicted=predicted)


def _plans(model: nn.Module, batch: Any, *, half: bool) -> Iterator[Fit]:
    rows, device = _rows(batch), next(tensors(batch)).device
    splits = [1 << k for k in range(rows.bit_length()) if 1 << k <= rows]
    blocks = (0, 1) if repeated(model) else (0,)
    precisions = ("fp32", "bf16") if half else ("fp32",)
    offload = (False, True) if device.type == "cuda" else (False,)
    for split, every, precision, away in product(splits, blocks, precisions, offload):
        cost = _SPLITTING ** (split.bit_length() - 1)
        cost *= (_RECOMPUTING if every else 1) * (_HALF if precision == "bf16" else 1)
        cost *= _OFFLOADING if away else 1
        yield Fit(split, precision, every, away, cost=cost)


def _rows(batch: Any) -> int:
    return min((len(t) for t in tensors(batch) if t.dim()), default=1)


@dataclass(frozen=True)
class _Parts:
    """What a plain step's memory is made of: bytes.

    `fixed`: weights, gradients, optimizer state; `saved`: activations for backward, of which
    `blocks` in repeated blocks, whose inputs take `inputs` and the largest of which `largest`;
    `tensor`: the largest activation, which backward holds twice more: the gradient it gets and the
    one it gives; `other`: what the optimizer's update takes.
    """

    fixed: int
    saved: int
    blocks: int
    inputs: int
    largest: int
    tensor: int
    other: int

    @staticmethod
    def of(model: nn.Module, batch: Any, loss: Loss, optimizer: MakeOptimizer) -> "_Parts":
        """Take apart a step on two rows of the batch, scaled up to the whole."""
        weights = sum(p.nbytes for p in model.parameters())
        trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
        buffers = sum(b.nbytes for b in model.buffers())
        rows, device = _rows(batch), next(tensors(batch)).device
        part = mapped(batch, lambda t: t[:2].clone() if t.dim() else t)
        times = rows / min(2, rows)
        with _own_random(device), saved_by_module(twin := copy.deepcopy(model)) as table:
            loss(twin, part).backward()  # type: ignore[no-untyped-call]
        stepper = optimizer(twin)
        with _own_random(device):
            stepper.step()
        state = sum(t.nbytes for s in stepper.state.values() for t in tensors(dict(s)))
        names = {module: name for name, module in twin.named_modules()}
        each = [names[block] for block in repeated(twin)]
        kept = [int(below(table, name) * times) for name in each]
        saved = int(sum(row.bytes for row in table.values()) * times)
        inputs = int(sum(table[name].input for name in each if name in table) * times)
        data = sum(t.nbytes for t in tensors(batch))
        fixed = weights + trained + buffers + state + data
        each_tensor = (row.bytes // max(1, row.tensors) for row in table.values())
        tensor = int(max(each_tensor, default=0) * times)
        block = max(kept, default=0)
        return _Parts(fixed, saved, sum(kept), inputs, block, tensor, trained // 4)

    def peak(self, plan: Fit) -> int:
        """The predicted peak under a plan."""
        saved = self.saved
        if plan.recompute_every:
            saved = saved - self.blocks + self.inputs + self.largest
        if plan.precision == "bf16":
            saved = int(saved * _HALF_SIZE)
        if plan.offload:
            saved //= 4
        passing = 2 * self.tensor * (_HALF_SIZE if plan.precision == "bf16" else 1)
        return self.fixed + max(self.other, int(saved + passing) // plan.accumulate)


def measure(model: nn.Module, batch: Any, loss: Loss, optimizer: MakeOptimizer, plan: Fit) -> int:
    """The peak of two steps under a plan, on a copy of the model; bytes."""
    device = next(tensors(batch)).device
    with _own_random(device):
        twin = copy.deepcopy(model)
        stepper = optimizer(twin)
        if plan.recompute_every:
            recompute(repeated(twin)[:: plan.recompute_every])
        if device.type != "cuda":
            with Meter(twin, stepper) as meter:
                for tensor in tensors(batch):
                    meter._add(tensor, "batch")
                _steps(twin, batch, loss, stepper, plan)
            return meter.peak
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        own = sum(p.nbytes for p in twin.parameters()) + sum(b.nbytes for b in twin.buffers())
        own += sum(t.nbytes for t in tensors(batch))
        torch.cuda.reset_peak_memory_stats(device)
        _steps(twin, batch, loss, stepper, plan)
        return torch.cuda.max_memory_allocated(device) - before + own


def _steps(model: nn.Module, batch: Any, loss: Loss, optimizer: Optimizer, plan: Fit) -> None:
    device = next(tensors(batch)).device.type
    for _ in range(2):
        for part in _split(batch, plan.accumulate):
            with _forward(device, plan), offloaded() if plan.offload else nullcontext():
                value = loss(model, part) / plan.accumulate
            value.backward()  # type: ignore[no-untyped-call]
            del value
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def _forward(device: str, plan: Fit) -> AbstractContextManager[object]:
    return torch.autocast(device, torch.bfloat16) if plan.precision == "bf16" else nullcontext()


def _split(batch: Any, parts: int) -> list[Any]:
    """The batch in so many parts along the first dimension."""
    return [
        mapped(batch, lambda t, i=i: t.tensor_split(parts)[i] if t.dim() else t)  # type: ignore[misc]
        for i in range(parts)
    ]


def _own_random(device: torch.device) -> AbstractContextManager[None]:
    """Random numbers drawn in the context are not missed outside."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])
