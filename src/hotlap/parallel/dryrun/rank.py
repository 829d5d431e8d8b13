"""Build one rank by `hotlap.parallel.parallelize`, run two steps of it, and report the second."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from hotlap.parallel.applying import Parallelized, Preparation, parallelize
from hotlap.parallel.dryrun.dryrun_job import DryRunResult, Job
from hotlap.parallel.dryrun.given import given
from hotlap.parallel.dryrun.ledger import unwrapped
from hotlap.parallel.dryrun.model_source import cross_entropy, gpt
from hotlap.parallel.dryrun.watch import Watch
from hotlap.parallel.mesh import NAMES

Step = Callable[[], None]
Around = AbstractContextManager[object]


class Rank:
    """One rank's model, optimizer and step.

    Args:
        job: which rank of what; the default process group is there already.
        building: what `parallelize` runs in.
    """

    optimizer: torch.optim.Optimizer | None = None

    def __init__(self, job: Job, building: Around) -> None:
        self.job = job
        self.source = given(job.function, job.sequence) if job.sizes is None else gpt(job.sizes)
        model = self.source.model.to(getattr(torch, job.dtype))
        with building:
            self.spread: Parallelized = parallelize(
                model,
                job.parallelism,
                tp_plan=self.source.plan,
                stages=job.stages or None,
                loss=cross_entropy,
                preparation=Preparation(
                    recompute=self.source.blocks if job.recompute else (),
                    blocks=self.source.blocks,
                    init=_start,
                ),
            )

    def start(self, watch: Watch) -> None:
        """Take in the parameters."""
        self.watch = watch
        watch.ledger.own(self.spread.parameters(), "parameters")
        if self.job.buckets:
            for parameter in self.spread.parameters():
                parameter.grad = torch.zeros_like(parameter)

    def step(self, micro_batches: Step) -> None:
        """One step; counted from here on."""
        self.watch.restart()
        with self.spread.loss_context(), self._casts():
            micro_batches()
        self.own_gradients()
        if self.optimizer is None:
            self.optimizer = self._made()
        self._update(self.optimizer)
        held = (t for state in self.optimizer.state.values() for t in state.values())
        self.watch.ledger.own((t for t in held if isinstance(t, Tensor)), "optimizer")

    def _made(self) -> torch.optim.Optimizer:
        """The optimizer, made after a first pass, in which FSDP pads the shards of some parameters.

        It goes element by element, so that it may as well work on what of each parameter lies on
        this rank: through DTensor it would do the same, with seconds of looking for placements.
        """
        self.watch.ledger.own(self.spread.parameters(), "parameters")
        self.local = [unwrapped(parameter) for parameter in self.spread.parameters()]
        return torch.optim.AdamW(self.local, fused=True)

    def _update(self, optimizer: torch.optim.Optimizer) -> None:
        """One step of the optimizer; the gradients stay where DDP's buckets keep them."""
        parted = [pair for pair in zip(self.spread.parameters(), self.local, strict=True)
                  if pair[0] is not pair[1]]  # fmt: skip
        for parameter, local in parted:
            if parameter.grad is not None:
                local.grad = unwrapped(_placed(parameter.grad, parameter))
        optimizer.step()
        for _, local in parted:
            local.grad = None
        for parameter in self.spread.parameters():
            if not self.job.buckets:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def all_micro_batches(self) -> None:
        """Forward and backward of a step's micro-batches, without a pipeline."""
        for _ in range(self.job.micro_batches):
            inputs = self.inputs()
            loss = self.source.loss(self.spread.model(*inputs), inputs)
            loss.backward()  # type: ignore[no-untyped-call]
            del loss
            self.own_gradients()

    def one_micro_batch(self) -> None:
        """Forward and backward of one, so that what is set up at first use is no part of a step."""
        inputs = self.inputs()
        out = self.spread.model(*((self.passed(),) if self.job.stage else inputs))
        if self.job.stage == self.job.parallelism.stages - 1:
            out = self.source.loss(out, inputs)
        out.backward(torch.zeros_like(out))

    def inputs(self) -> tuple[Tensor, ...]:
        """A micro-batch, its floating-point tensors in the format of the parameters."""
        dtype = getattr(torch, self.job.dtype)
        given = self.source.inputs(self.job.micro_batch)
        return tuple(t.to(dtype) if t.is_floating_point() else t for t in given)

    def _casts(self) -> Around:
        return torch.autocast("cpu", torch.bfloat16) if self.job.autocast else nullcontext()

    def own_gradients(self) -> None:
        """See whose the gradients' memory is, of those too that FSDP holds whole for a while."""
        found = [p.grad for p in self.spread.parameters()]
        for part in self.spread.parts:
            found += _whole_gradients(part)
        self.watch.ledger.own((grad for grad in found if grad is not None), "gradients")

    def ids(self) -> Tensor:
        """Token ids of all micro-batches."""
        (ids,) = self.source.inputs(self.job.micro_batches * self.job.micro_batch)
        return ids

    def passed(self) -> Tensor:
        """What a micro-batch hands to the next stage: under sequence parallelism, a part of it."""
        job, p = self.job, self.job.parallelism
        assert job.sizes is not None
        dtype = getattr(torch, p.mixed_precision_param or job.dtype)
        parts = p.tensor_parallel_degree if p.sequence_parallel else 1
        shape = (job.micro_batch, job.sizes.sequence // parts, job.sizes.hidden)
        return torch.zeros(shape, dtype=dtype, requires_grad=True)

    def found(self, seconds: float) -> DryRunResult:
        """What was counted."""
        along = {name: self.spread.mesh[name] for name in NAMES}
        groups = {str(mesh.get_group().group_name): name for name, mesh in along.items() if mesh}
        sent: dict[str, int] = {}
        for (kind, group), size in self.watch.sent.items():
            label = f"{kind} {groups.get(group, group)}"
            sent[label] = sent.get(label, 0) + size
        ledger = self.watch.ledger
        return DryRunResult(ledger.peak, ledger.at_peak, self.watch.flops, sent, seconds)


def _placed(grad: Tensor, parameter: Tensor) -> Tensor:
    """The gradient spread as its parameter is, as DTensor's operations have it."""
    if not isinstance(parameter, DTensor):
        return grad
    assert isinstance(grad, DTensor)
    return grad.redistribute(placements=parameter.placements)


def _whole_gradients(part: nn.Module) -> Iterator[Tensor | None]:
    """Those that FSDP gathers up over micro-batches before it reduces them."""
    for module in part.modules():
        if not isinstance(module, FSDPModule):
            continue
        group = module._get_fsdp_state()._fsdp_param_group
        for parameter in group.fsdp_params if group is not None else ():
            yield parameter.unsharded_accumulated_grad
            whole = getattr(parameter, "_unsharded_param", None)
            yield whole.grad if whole is not None else None


@torch.no_grad()
def _start(part: nn.Module) -> None:
    """Give the parameters values: any, as none are looked at."""
    for parameter in part.parameters():
        parameter.zero_()
