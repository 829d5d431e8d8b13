"""The pipeline schedules of torch, what each works with, and which of them hang where."""

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineSchedule, get_schedule_class

from hotlap.parallel.names import SCHEDULES
from hotlap.parallel.parallelism import Parallelism


def refuse(parallelism: Parallelism, backend: str, version: str = torch.__version__) -> None:
    """Refuse a schedule that is known to hang.

    Raises:
        ValueError: ZBVZeroBubble or DualPipeV over Gloo before torch 2.13.
    """
    name = parallelism.pipeline_parallel_schedule
    if SCHEDULES[name].folded and "gloo" in backend and _version(version) < (2, 13):
        raise ValueError(
            f"{name} is refused on torch {version} over Gloo: it hung there on 2.11, and 2.13 is"
            " the first known not to. Use another schedule, NCCL, or torch 2.13"
        )


def own_stages(parallelism: Parallelism, rank: int) -> list[int]:
    """The stages that a rank of the pipeline has: in a loop, or folded like a V."""
    ranks, kind = parallelism.pipeline_parallel_degree, SCHEDULES[_name(parallelism)]
    if kind.folded:
        return [rank, 2 * ranks - 1 - rank]
    return [rank + ranks * turn for turn in range(kind.stages)]


def schedule(
    parallelism: Parallelism, stages: Sequence[PipelineStage], loss: Callable[..., object] | None
) -> _PipelineSchedule:
    """The schedule asked for, over this rank's stages.

    Gradients are not scaled by it, as that would scale again what earlier batches left there.
    """
    made: Callable[..., _PipelineSchedule] = get_schedule_class(_name(parallelism))
    single = SCHEDULES[_name(parallelism)].stages == 1
    return made(
        stages[0] if single else list(stages),
        n_microbatches=parallelism.microbatches,
        loss_fn=loss,
        scale_grads=False,
    )


def backend_of(group: dist.ProcessGroup) -> str:
    """What connects the ranks of a group."""
    return str(dist.get_backend(group))


def _name(parallelism: Parallelism) -> str:
    return parallelism.pipeline_parallel_schedule


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+", maxsplit=1)[0].split(".")[:2])
