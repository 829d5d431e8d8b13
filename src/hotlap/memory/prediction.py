"""Predicts the peak memory of a training step under a set of measures."""

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from hotlap.common.nested import mapped, tensors
from hotlap.common.recomputing import repeated
from hotlap.memory.measuring import Fit, MakeOptimizer, Task, own_random
from hotlap.memory.meter import TEMPORARIES, Meter
from hotlap.memory.saved import below, saved_by_module

HALF_SIZE = 0.6  # of float32 activations under autocast: sums and norms stay float32


@dataclass(frozen=True)
class StepMemory:
    """What a plain step's memory is made of: bytes.

    `fixed`: weights, gradients, optimizer state, batch; `saved`: activations for backward, of which
    `blocks` in repeated blocks, whose inputs take `inputs` and the largest of which `largest`;
    `tensor`: the largest activation, which backward holds twice more: the gradient it gets and the
    one it gives; `temporaries`: what the optimizer allocates in a step and frees again.
    """

    fixed: int
    saved: int
    blocks: int
    inputs: int
    largest: int
    tensor: int
    temporaries: int

    @staticmethod
    def of(task: Task, optimizer: MakeOptimizer) -> "StepMemory":
        """Measure the parts in a step on two rows of the batch, scaled up to the whole."""
        model, batch = task.model, task.batch
        weights = sum(p.nbytes for p in model.parameters())
        trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
        buffers = sum(b.nbytes for b in model.buffers())
        rows, device = task.rows, task.device
        part = mapped(batch, lambda t: t[:2].clone() if t.dim() else t)
        times = rows / min(2, rows)
        with own_random(device), saved_by_module(twin := copy.deepcopy(model)) as table:
            task.loss(twin, part).backward()  # type: ignore[no-untyped-call]
        stepper = optimizer(twin)
        temporaries = _optimizer_temporaries(twin, stepper, device)
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
        return StepMemory(fixed, saved, sum(kept), inputs, block, tensor, temporaries)

    def peak(self, plan: Fit) -> int:
        """The predicted peak under a plan."""
        saved = self.saved
        if plan.recompute_every:
            saved = saved - self.blocks + self.inputs + self.largest
        if plan.precision == "bf16":
            saved = int(saved * HALF_SIZE)
        if plan.offload:
            saved //= 4
        passing = 2 * self.tensor * (HALF_SIZE if plan.precision == "bf16" else 1)
        return self.fixed + max(self.temporaries, int(saved + passing) // plan.accumulate)


def _optimizer_temporaries(model: nn.Module, optimizer: Optimizer, device: torch.device) -> int:
    """Bytes that a step allocates and frees again, once the optimizer's state is there."""
    with own_random(device):
        optimizer.step()
        with Meter(model, optimizer) as meter, meter.phase("step"):
            optimizer.step()
    return meter.peaks["step"].get(TEMPORARIES, 0)
