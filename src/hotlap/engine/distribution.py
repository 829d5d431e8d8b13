"""What changes where a model is spread over ranks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from hotlap.common import ranks
from hotlap.engine.engine_config import EngineConfig
from hotlap.engine.preparation import plain
from hotlap.engine.stepper import Clipper

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from hotlap.parallel.applying import Parallelized
    from hotlap.parallel.pipeline import Pipeline


def sharded(model: nn.Module) -> bool:
    """Whether parameters are DTensors, as FSDP2 and tensor parallelism make them."""
    return ranks.started() and any(map(is_shard, model.parameters()))


def is_shard(value: object) -> bool:
    """Whether a value is a DTensor."""
    if not ranks.started():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


@dataclass(frozen=True)
class ModelDistribution:
    """A model as it lies over the ranks.

    `parts` are the modules inside the wrappers, by whose names states are saved; `device` is None
    where the engine may choose; forward pass and loss run in `context()`, backward as well.
    """

    model: nn.Module
    parts: tuple[nn.Module, ...]
    clipper: Clipper = clip_grad_norm_
    device: torch.device | None = None
    pipeline: "Pipeline | None" = None
    context: Callable[[], AbstractContextManager[object]] = nullcontext


def distribution_of(model: "nn.Module | Parallelized", config: EngineConfig) -> ModelDistribution:
    """How a model lies that was wrapped or sharded by hand, or by `hotlap.parallel.parallelize`.

    Raises:
        ValueError: the engine is asked for what `parallelize` has to do.
    """
    if isinstance(model, nn.Module):
        clipper = _true_clipper(None) if sharded(model) else clip_grad_norm_
        return ModelDistribution(model, (plain(model),), clipper)
    _check(model, config)
    across = model.mesh["pipeline"]
    return ModelDistribution(
        model.model,
        tuple(map(plain, model.parts)),
        _true_clipper(across) if across or sharded(model.model) else clip_grad_norm_,
        model.mesh.device,
        model.pipeline,
        model.loss_context,
    )


def _check(model: "Parallelized", config: EngineConfig) -> None:
    late = [
        name
        for name in ("compile", "recompute", "recompute_every", "channels_last")
        if getattr(config, name)
    ]
    if late:
        raise ValueError(
            f"EngineConfig({late[0]}=...) comes too late for a model that is spread already: say "
            "so in hotlap.parallel.parallelize(preparation=Preparation(...))"
        )
    if model.pipeline is not None and config.precision == "fp16":
        raise ValueError("a pipeline computes its own backward pass, unscaled: use bf16, not fp16")


def _true_clipper(across: "DeviceMesh | None") -> Clipper:
    """What clips by the norm of the whole model's gradients, whichever part of it is here."""
    from hotlap.parallel.norms import clip_grad_norm_ as clip

    return partial(clip, pipeline=across)
