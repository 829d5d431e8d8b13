"""Which samples form which batch: arithmetic on (seed, epoch, place), nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hotlap.data.extras import need
from hotlap.data.order import permutation


@dataclass(frozen=True)
class Step:
    """One batch of one rank: its samples, and how many samples all ranks have seen after it."""

    ids: Any
    epoch: int
    delivered: int


@dataclass(frozen=True)
class Plan:
    """How an epoch is cut.

    The order of the whole epoch depends on seed and epoch alone. It is cut into global batches of
    `batch_size * world` samples, and each rank takes its slice of each. Every rank gets the same
    number of batches of the same size: what the last global batch lacks to share evenly is taken
    from the epoch's beginning (at most `world - 1` samples), unless `drop_last`.
    """

    count: int
    batch_size: int
    shuffle: bool
    seed: int
    drop_last: bool
    rank: int = 0
    world: int = 1

    def __len__(self) -> int:
        whole, rest = divmod(self.count, self.batch_size * self.world)
        return whole + (rest > 0 and not self.drop_last)

    def order(self, epoch: int) -> Any:
        """Return the epoch's order of samples, int64."""
        if self.shuffle:
            return permutation(self.count, self.seed, epoch)
        return need("numpy").arange(self.count)

    def steps(self, epoch: int, delivered: int = 0) -> Iterator[Step]:
        """Yield this rank's batches of an epoch, of which some samples were delivered already."""
        order = self.order(epoch)
        together = self.batch_size * self.world
        while delivered < self.count:
            left = self.count - delivered
            if left < together and self.drop_last:
                return
            each = min(self.batch_size, -(-left // self.world))
            start = delivered + self.rank * each
            ids = order.take(range(start, start + each), mode="wrap")
            delivered = min(delivered + each * self.world, self.count)
            yield Step(ids, epoch, delivered)
