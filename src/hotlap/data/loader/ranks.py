"""Which rank this process is, of how many."""

import os

from hotlap.common import ranks


def here(rank: int | None, world: int | None) -> tuple[int, int]:
    """Return (rank, world size): as given, of torch.distributed, or of torchrun's environment.

    Raises:
        ValueError: only one is given, or the rank is none of the world's.
    """
    if (rank is None) != (world is None):
        raise ValueError("give rank and world_size together, or neither")
    if rank is None or world is None:
        rank, world = _found()
    if not 0 <= rank < world:
        raise ValueError(f"rank is {rank}, should be 0 to {world - 1} for a world size of {world}")
    return rank, world


def _found() -> tuple[int, int]:
    if ranks.started():
        return ranks.rank(), ranks.world_size()
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
