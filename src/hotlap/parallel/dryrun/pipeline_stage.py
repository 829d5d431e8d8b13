"""One rank's part of a pipeline whose neighbours are fake."""

from collections.abc import Callable, Sequence
from typing import ParamSpec

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.pipelining.stage import _PipelineStageBase

from hotlap.parallel.mesh import Mesh
from hotlap.parallel.pipeline import Loss, Pipeline

Arguments = ParamSpec("Arguments")


class Alone(Pipeline):
    """The pipeline of `parallelize`, told the shapes that real stages tell each other.

    Args:
        parts: this rank's one stage.
        mesh: where the rank is.
        loss: of a micro-batch.
        passed: shaped like what one micro-batch hands from stage to stage.
        after: called after each micro-batch's backward pass.
    """

    def __init__(
        self,
        parts: Sequence[nn.Module],
        mesh: Mesh,
        loss: Loss,
        passed: Tensor,
        after: Callable[[], None],
    ) -> None:
        super().__init__(parts, mesh, loss)
        self._passed, self._after = passed, after

    def _stages(self) -> list[PipelineStage]:
        (part,), (index,) = self._parts, self._own
        number, group = self._mesh.parallelism.stages, self._along.get_group()
        taken = self._passed if index else torch.zeros(1, dtype=torch.int64)
        stage = PipelineStage(
            part, index, number, self._mesh.device, taken, self._passed, group=group
        )
        backward = _followed(stage.backward_one_chunk, self._after)
        stage.backward_one_chunk = backward  # type: ignore[method-assign]
        return [stage]

    def _schedule(self, inputs: tuple[Tensor, ...], how: str) -> _PipelineSchedule:
        made = super()._schedule(inputs, how)
        _already_warm(made)
        return made


def _followed(
    call: Callable[Arguments, object], after: Callable[[], None]
) -> Callable[Arguments, None]:
    def both(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        call(*args, **kwargs)
        after()

    return both


def _already_warm(schedule: _PipelineSchedule) -> None:
    """Skip the vote on how shapes are known: fake neighbours cannot vote."""
    try:
        from torch.distributed.pipelining._utils import InferenceMode
    except ImportError:  # torch before 2.13 has no vote
        return

    def decided(stages: list[_PipelineStageBase], *_: object, **__: object) -> None:
        for stage in stages:
            if isinstance(stage, PipelineStage):
                stage._inference_mode = InferenceMode.STATIC

    schedule._warmup_p2p = decided  # type: ignore[method-assign]
