"""The ranks laid out in as many dimensions as there are kinds of parallelism."""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from hotlap.common import ranks
from hotlap.parallel.parallelism import Parallelism

NAMES = {
    "pipeline": "pipeline_parallel_degree",
    "replicate": "data_parallel_replicate_degree",
    "shard": "data_parallel_shard_degree",
    "tensor": "tensor_parallel_degree",
}


@dataclass(frozen=True)
class Mesh:
    """Where this rank is: dimensions `pipeline`, `replicate`, `shard`, `tensor`, outermost first.

    A dimension of size 1 is left out of `whole`, but for the one that FSDP shards over; `whole` is
    None where nothing is left.
    """

    whole: DeviceMesh | None
    parallelism: Parallelism
    device: torch.device

    def __getitem__(self, name: str) -> DeviceMesh | None:
        """The ranks along one dimension; None where this rank is alone in it."""
        if self.whole is None or name not in (self.whole.mesh_dim_names or ()):
            return None
        return self.whole[name]

    def rank(self, name: str) -> int:
        """Say where this rank is along one dimension."""
        along = self[name]
        return 0 if along is None else along.get_local_rank()

    def size(self, name: str) -> int:
        """How many ranks there are along one dimension."""
        return int(self.parallelism.degrees[NAMES[name]])

    @property
    def data(self) -> DeviceMesh | None:
        """What FSDP shards over: `shard`, or `replicate` x `shard`; None where it does not."""
        if self.whole is None or not self.parallelism.fsdp:
            return None
        replicas = self.parallelism.data_parallel_replicate_degree > 1
        return self.whole["replicate", "shard"] if replicas else self.whole["shard"]

    @property
    def data_rank(self) -> int:
        """Which part of the data is this rank's; the ranks of a pipeline read the same."""
        return self.rank("replicate") * self.size("shard") + self.rank("shard")

    @property
    def data_ranks(self) -> int:
        """Into how many parts the data are cut."""
        return self.size("replicate") * self.size("shard")


def build(parallelism: Parallelism, device: torch.device | str = "") -> Mesh:
    """Lay out the ranks of the process group.

    Args:
        parallelism: its degrees multiply to the world size.
        device: empty: this rank's CUDA device under NCCL, the CPU otherwise.

    Raises:
        ValueError: the degrees do not fit the world.
        RuntimeError: torch.distributed is not initialised, and more than one rank is asked for.
    """
    started = ranks.started()
    several = any(degree > 1 for degree in parallelism.degrees.values())
    full = parallelism if several and not started else parallelism.resolved(ranks.world_size())
    if not started and (several or full.fsdp):
        raise RuntimeError(
            "torch.distributed is not initialised, and there is something to spread: start with "
            "torchrun, and call torch.distributed.init_process_group first"
        )
    where = torch.device(device) if device else default_device()
    sizes = {name: full.degrees[field] for name, field in NAMES.items() if _kept(name, full)}
    if not sizes:
        return Mesh(None, full, where)
    return Mesh(
        init_device_mesh(where.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes)),
        full,
        where,
    )


def _kept(name: str, parallelism: Parallelism) -> bool:
    return parallelism.degrees[NAMES[name]] > 1 or (name == "shard" and parallelism.fsdp)


def default_device() -> torch.device:
    """Find the CUDA device of this rank where NCCL connects the ranks; the CPU elsewhere."""
    if not (ranks.started() and "nccl" in dist.get_backend()):
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
