"""A group of its own in which all ranks agree on something, beside the training's collectives."""

import torch
from torch import distributed as dist

from hotlap.common import ranks


class Meeting:
    """The ranks of torch.distributed on a gloo group of their own; alone without it.

    Every rank must make one. Its collectives do not mix with those of the training, so that a
    thread may use it.
    """

    def __init__(self) -> None:
        self.alone = not ranks.started()
        self.rank = ranks.rank()
        self.world = ranks.world_size()
        self.group = None if self.alone else dist.new_group(backend="gloo")
        self.first = self.rank == 0

    def told(self, value: int | None) -> int | None:
        """The first rank's value, on every rank."""
        if self.alone:
            return value
        carried = torch.tensor(-1 if value is None else value)
        dist.broadcast(carried, src=0, group=self.group)
        return None if carried.item() < 0 else int(carried)

    def where(self, seen: bool) -> list[int]:
        """The ranks that say no."""
        if self.alone:
            return [] if seen else [0]
        flags = [torch.zeros(1) for _ in range(self.world)]
        dist.all_gather(flags, torch.tensor([float(seen)]), group=self.group)
        return [rank for rank, flag in enumerate(flags) if not flag.item()]

    def union(self, names: set[str]) -> set[str]:
        """The names of all ranks together."""
        if self.alone:
            return names
        everyone = [names] * self.world  # each is replaced
        dist.all_gather_object(everyone, names, group=self.group)
        return set().union(*everyone)
