"""One step of a pipeline, over a batch that every rank of it has."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineSchedule

from hotlap.parallel.mesh import Mesh
from hotlap.parallel.pipeline_schedules import backend_of, own_stages, refuse, schedule

Loss = Callable[[Any, Any], Tensor]
Key = tuple[str, *tuple[tuple[torch.Size, torch.dtype], ...]]
"""What is run, and the shapes of the batch."""


class Pipeline:
    """Runs forward and backward of micro-batches through the stages.

    Args:
        parts: this rank's stages, in order; wrapped and sharded as they are trained.
        mesh: where this rank is.
        loss: from the last stage's output and the target of a micro-batch to its mean loss.

    Attributes:
        first, last: whether this rank has the stage that takes the batch, or gives the loss.

    Raises:
        ValueError: a schedule that hangs here, or no loss.
    """

    def __init__(self, parts: Sequence[nn.Module], mesh: Mesh, loss: Loss | None) -> None:
        along = mesh["pipeline"]
        if along is None or loss is None:
            raise ValueError(
                "a pipeline computes the loss itself: give loss=, as in parallelize(loss=...)"
            )
        refuse(mesh.parallelism, backend_of(along.get_group()))
        self._along: DeviceMesh = along
        self._parts, self._mesh, self._loss = list(parts), mesh, loss
        self._own = own_stages(mesh.parallelism, along.get_local_rank())
        self._micro = mesh.parallelism.microbatches
        self._over: float | Tensor = 1.0
        self._made: dict[Key, _PipelineSchedule] = {}
        self.first = 0 in self._own
        self.last = mesh.parallelism.stages - 1 in self._own

    def step(self, *inputs: Tensor, target: object, over: float | Tensor = 1.0) -> Tensor | None:
        """Forward and backward; gradients are added to those that are there.

        Args:
            inputs: the batch, cut along its first dimension; the same on all ranks of the pipeline.
            target: what the loss is computed with; a tensor, cut likewise.
            over: what the loss is divided by for backward, with several batches to one step.

        Returns:
            The mean loss, detached, on the ranks with the last stage; None on the others.

        Raises:
            ValueError: the batch cannot be cut into equal micro-batches.
        """
        return self._run("step", inputs, target, over)

    def evaluate(self, *inputs: Tensor, target: object) -> Tensor | None:
        """Forward only; returns what `step` returns."""
        with torch.no_grad():
            return self._run("eval", inputs, target, 1.0)

    def everywhere(self, loss: Tensor | None) -> Tensor:
        """The loss on all ranks of the pipeline: the last stage's is sent to them."""
        given = loss if loss is not None else torch.zeros((), device=self._mesh.device)
        held = given.to(torch.float64).clone()
        dist.broadcast(held, group=self._along.get_group(), group_src=self._last_rank())
        return held

    def _run(
        self, how: str, inputs: tuple[Tensor, ...], target: object, over: float | Tensor
    ) -> Tensor | None:
        self._check(inputs)
        self._over = over
        self._quiet()
        losses: list[Tensor] = []
        call = getattr(self._schedule(inputs, how), how)
        given: dict[str, object] = {"losses": losses, "target": target} if self.last else {}
        # Outputs are not kept: logits of all micro-batches would be the largest tensor there is.
        call(*(inputs if self.first else ()), return_outputs=False, **given)
        # What the schedule keeps has been divided for backward.
        return torch.stack([_plain(x) for x in losses]).sum() * over if self.last else None

    def _quiet(self) -> None:
        """Let DDP expect no gradients from a forward pass.

        The stage itself tells DDP of its last backward pass; told by each forward pass as well, DDP
        counts gradients once per micro-batch and fails.
        """
        for part in self._parts:
            if isinstance(part, nn.parallel.DistributedDataParallel):
                part.require_backward_grad_sync = False

    def _schedule(self, inputs: tuple[Tensor, ...], how: str) -> _PipelineSchedule:
        """The schedule for batches of this shape: stages are made for one."""
        key: Key = (how, *((x.shape, x.dtype) for x in inputs))
        if key not in self._made:
            self._made[key] = schedule(self._mesh.parallelism, self._stages(), self._scaled)
        return self._made[key]

    def _stages(self) -> list[PipelineStage]:
        number, group = self._mesh.parallelism.stages, self._along.get_group()
        return [
            PipelineStage(part, index, number, self._mesh.device, group=group)
            for part, index in zip(self._parts, self._own, strict=True)
        ]

    def _scaled(self, output: object, target: object) -> Tensor:
        return self._loss(output, target) / (self._micro * self._over)

    def _check(self, inputs: tuple[Tensor, ...]) -> None:
        for x in inputs:
            if x.shape[0] % self._micro:
                raise ValueError(
                    f"a batch of {x.shape[0]} cannot be cut into {self._micro} equal micro-batches:"
                    " choose other pipeline_parallel_microbatches, or drop_last=True in the loader"
                )

    def _last_rank(self) -> int:
        last, parallelism = self._mesh.parallelism.stages - 1, self._mesh.parallelism
        ranks = range(parallelism.pipeline_parallel_degree)
        return next(rank for rank in ranks if last in own_stages(parallelism, rank))


def _plain(loss: Tensor) -> Tensor:
    """A loss without its graph, put together where the logits were sharded."""
    held = loss.detach()
    return held.full_tensor() if hasattr(held, "full_tensor") else held
