"""Which samples form which batch: arithmetic on (seed, epoch, place), nothing else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from hotlap.common.extras import IntArray, need
from hotlap.data.order import permutation


@dataclass(frozen=True)
class Step:
    """One batch of one rank: its samples, and how many samples all ranks have seen after it.

    `draws`: what random numbers are drawn by, where that is not `ids` (see `occurrences`).
    """

    ids: IntArray
    epoch: int
    delivered: int
    draws: IntArray | None = None

    @property
    def draw_ids(self) -> IntArray:
        """Return the numbers by which the samples' random numbers are drawn."""
        return self.ids if self.draws is None else self.draws


class Order(Protocol):
    """The order of an epoch as a sampler gives it: single samples, or whole batches."""

    def __len__(self) -> int: ...

    def ids(self, epoch: int) -> IntArray:
        """Return sample numbers, int64 (count,)."""


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
    sampler: Order | None = None

    def __len__(self) -> int:
        whole, rest = divmod(self.count, self.batch_size * self.world)
        return whole + (rest > 0 and not self.drop_last)

    def order(self, epoch: int) -> IntArray:
        """Return the epoch's order of samples, int64."""
        if self.sampler is not None:
            return self.sampler.ids(epoch)
        if self.shuffle:
            return permutation(self.count, self.seed, epoch)
        order: IntArray = need("numpy").arange(self.count)
        return order

    def steps(self, epoch: int, delivered: int = 0) -> Iterator[Step]:
        """Yield this rank's batches of an epoch, of which some samples were delivered already."""
        order = self.order(epoch)
        count = len(order)
        draws = occurrences(order) if self.sampler is not None else None
        together = self.batch_size * self.world
        while delivered < count:
            left = count - delivered
            if left < together and self.drop_last:
                return
            each = min(self.batch_size, -(-left // self.world))
            start = delivered + self.rank * each
            span = range(start, start + each)
            ids = order.take(span, mode="wrap")
            delivered = min(delivered + each * self.world, count)
            drawn = None if draws is None else draws.take(span, mode="wrap")
            yield Step(ids, epoch, delivered, drawn)


@dataclass(frozen=True)
class BatchPlan:
    """How an epoch of a batch sampler is dealt out: one batch for each rank in turn.

    `delivered` counts batches. What the last round lacks is taken from the epoch's beginning, so
    that every rank gets as many batches.
    """

    batches: "BatchOrder"
    rank: int = 0
    world: int = 1

    batch_size = 1
    drop_last = False

    @property
    def count(self) -> int:
        """Batches of an epoch, all ranks together."""
        return len(self.batches)

    def __len__(self) -> int:
        return (self.count + self.world - 1) // self.world

    def steps(self, epoch: int, delivered: int = 0) -> Iterator[Step]:
        """Yield this rank's batches of an epoch, of which some were delivered already."""
        numpy = need("numpy")
        batches = self.batches.batches(epoch)
        ends = numpy.cumsum([0, *map(len, batches)])
        draws = occurrences(numpy.concatenate(batches)) if batches else numpy.empty(0, "i8")
        while delivered < len(batches):
            which = (delivered + self.rank) % len(batches)
            delivered = min(delivered + self.world, len(batches))
            yield Step(batches[which], epoch, delivered, draws[ends[which] : ends[which + 1]])


class BatchOrder(Protocol):
    """The batches of an epoch as a batch sampler gives them."""

    def __len__(self) -> int: ...

    def batches(self, epoch: int) -> list[IntArray]:
        """Return the sample numbers of each batch, int64."""


def occurrences(ids: IntArray) -> IntArray:
    """Return what random numbers are drawn by where a sampler may repeat samples.

    That is the sample's number for its first occurrence in the epoch; later ones differ in
    the upper bits, so that a sample that is drawn twice is not augmented twice in the same way.
    """
    numpy = need("numpy")
    if len(numpy.unique(ids)) == len(ids):
        return ids
    by_id = ids.argsort(kind="stable")
    ordered = ids[by_id]
    first = numpy.flatnonzero(numpy.r_[True, ordered[1:] != ordered[:-1]])
    lengths = numpy.diff(numpy.r_[first, len(ids)])
    number: IntArray = numpy.empty(len(ids), "i8")
    number[by_id] = numpy.arange(len(ids)) - numpy.repeat(first, lengths)
    return ids + (number << 40)
