"""FSDP2: parameters, gradients and optimizer state in shards."""

from collections.abc import Sequence
from typing import TypedDict

import torch
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

from hotlap.parallel.mesh import Mesh
from hotlap.parallel.parallelism import Parallelism


class Policies(TypedDict, total=False):
    """Options of `fully_shard`."""

    mp_policy: MixedPrecisionPolicy
    offload_policy: CPUOffloadPolicy


def shard(part: nn.Module, blocks: Sequence[nn.Module], mesh: Mesh) -> None:
    """Shard each block by itself, so that one is gathered while another computes, and the rest.

    Raises:
        ValueError: there is nothing to shard over.
    """
    if mesh.data is None:
        raise ValueError("FSDP shards over data_parallel_shard_degree, which is 1")
    options = policies(mesh.parallelism, mesh.device)
    for block in blocks:
        again = reshards(mesh.parallelism)
        fully_shard(block, mesh=mesh.data, reshard_after_forward=again, **options)
    # What is outside the blocks is needed at the end of forward and the beginning of backward.
    always = mesh.parallelism.reshard_after_forward == "always"
    fully_shard(part, mesh=mesh.data, reshard_after_forward=always, **options)


def reshards(parallelism: Parallelism) -> bool:
    """Whether a block's parameters are given up after forward, and gathered again in backward."""
    if parallelism.reshard_after_forward == "default":
        return parallelism.pipeline_parallel_degree == 1
    return parallelism.reshard_after_forward == "always"


def policies(parallelism: Parallelism, device: torch.device) -> Policies:
    """The options of `fully_shard` for number formats and the host's memory."""
    precision = MixedPrecisionPolicy(
        param_dtype=_dtype(parallelism.mixed_precision_param),
        reduce_dtype=_dtype(parallelism.mixed_precision_reduce),
    )
    found: Policies = {"mp_policy": precision}
    if parallelism.cpu_offload:
        found["offload_policy"] = CPUOffloadPolicy(pin_memory=device.type == "cuda")
    return found


def _dtype(name: str) -> torch.dtype | None:
    return getattr(torch, name) if name else None
