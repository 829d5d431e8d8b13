"""What changes where a model is spread over ranks."""

from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

from hotlap.engine.stepper import Clipper


def distributed() -> bool:
    """Whether this process is one of torch.distributed's ranks."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def sharded(model: nn.Module) -> bool:
    """Whether parameters are DTensors, as FSDP2 and tensor parallelism make them."""
    return distributed() and any(map(is_shard, model.parameters()))


def is_shard(value: Any) -> bool:
    """Whether a value is a DTensor."""
    if not distributed():
        return False
    from torch.distributed.tensor import DTensor

    return isinstance(value, DTensor)


def clipper_of(model: nn.Module) -> Clipper:
    """What clips by the norm of the whole model's gradients, whichever part of it is here."""
    if not sharded(model):
        return clip_grad_norm_
    from hotlap.parallel import norms

    return norms.clip_grad_norm_
