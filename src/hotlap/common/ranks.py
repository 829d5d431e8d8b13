"""Where this process stands among torch.distributed's ranks; alone where there are none."""

from torch import Tensor
from torch import distributed as dist


def started() -> bool:
    """Whether this process is one of torch.distributed's ranks."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """Which rank this process is."""
    return dist.get_rank() if started() else 0


def world_size() -> int:
    """Of how many."""
    return dist.get_world_size() if started() else 1


def local(tensor: Tensor) -> Tensor:
    """Return this rank's part of a DTensor; any other tensor as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
