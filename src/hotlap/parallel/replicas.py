"""DDP: copies of the model that average their gradients."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from hotlap.parallel.hooks import narrowed
from hotlap.parallel.mesh import Mesh

_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


def replicate(part: nn.Module, mesh: Mesh) -> DistributedDataParallel:
    """Wrap one part of a model by DDP over the mesh's `replicate` dimension.

    Raises:
        ValueError: there are no replicas.
    """
    along = mesh["replicate"]
    if along is None:
        raise ValueError("DDP keeps data_parallel_replicate_degree copies equal, which is 1")
    config = mesh.parallelism
    wrapped = DistributedDataParallel(
        part,
        device_ids=[mesh.device.index] if mesh.device.type == "cuda" else None,
        process_group=along.get_group(),
        bucket_cap_mb=config.ddp_bucket_cap_mb,
        gradient_as_bucket_view=config.ddp_gradient_as_bucket_view,
    )
    compress(wrapped, config.ddp_comm_hook)
    return wrapped


def compress(wrapped: DistributedDataParallel, how: str) -> None:
    """Let gradients be compressed on their way: `bf16`, `fp16`, `powersgd`; empty: as they are.

    PowerSGD keeps a rank-4 approximation from the 10th step on and feeds its error back; it needs
    memory for that, and is the only one that does more than round.

    Raises:
        ValueError: another word.
    """
    if how == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

        state = power.PowerSGDState(
            wrapped.process_group, matrix_approximation_rank=4, start_powerSGD_iter=10
        )
        wrapped.register_comm_hook(state, power.powerSGD_hook)
    elif how in _HALF:
        wrapped.register_comm_hook(wrapped.process_group, narrowed(_HALF[how]))
    elif how:
        raise ValueError(f"gradients cannot be compressed by {how!r}: bf16, fp16 or powersgd")


def synchronise_batch_norm(part: nn.Module, mesh: Mesh) -> nn.Module:
    """Let batch normalisation take mean and variance over all replicas.

    Raises:
        ValueError: not on CUDA, or there is no batch normalisation, or no replicas.
    """
    along = mesh["replicate"]
    if mesh.device.type != "cuda":
        raise ValueError(
            f"sync_batch_norm works on CUDA only, and this model is on {mesh.device.type}: turn it "
            "off; with small batches a GroupNorm does not depend on other ranks at all"
        )
    if along is None or not any(isinstance(m, _BatchNorm) for m in part.modules()):
        raise ValueError("sync_batch_norm: there is no batch normalisation over replicas here")
    convert, group = nn.SyncBatchNorm.convert_sync_batchnorm, along.get_group()
    converted: nn.Module = convert(part, group)  # type: ignore[no-untyped-call]
    return converted
