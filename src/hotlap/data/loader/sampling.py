"""Samplers of torch's making, as an order that is a pure function of (seed, epoch)."""

from typing import Any

from hotlap.common.extras import Array, IntArray, need
from hotlap.common.randomness import Streams
from hotlap.data.order import key


class SamplerOrder:
    """Asks a sampler for the order of an epoch.

    While the sampler is asked, all random number streams, its own `generator` among them, are
    seeded by (seed, epoch, initial seed of the generator), and are put back afterwards. The order
    of an epoch can therefore be found again by a resumed loader. `set_epoch` is called where there
    is one. A sampler with a `state_dict` of its own is resumed by that.

    Args:
        sampler: yields sample numbers, or with `batches` lists of them; has a length.
        seed: of the loader.
        count: samples of the dataset.

    Raises:
        TypeError: it has no length.
    """

    def __init__(self, sampler: Any, seed: int, count: int) -> None:
        try:
            self._length = len(sampler)
        except TypeError:
            raise TypeError(
                f"{type(sampler).__name__} has no length: give the sampler a `__len__` with the "
                "samples (or batches) of an epoch"
            ) from None
        self.sampler = sampler
        self._count = count
        self._streams = Streams(sampler)
        own: object = getattr(sampler, "generator", None)
        self._seed = key(seed, own.initial_seed()) if hasattr(own, "initial_seed") else seed
        self.shared = not (hasattr(sampler, "num_replicas") or hasattr(sampler, "rank"))
        """Whether it gives the order of all ranks; else it has chosen this rank's samples."""
        self._before: tuple[int, object] = (-1, None)

    def __len__(self) -> int:
        return self._length

    def ids(self, epoch: int) -> IntArray:
        """Return the sample numbers of an epoch, int64 (count,).

        Raises:
            TypeError: the sampler yields something else than numbers.
            IndexError: a number is not one of the dataset's.
        """
        return self._checked(self._drawn(epoch))

    def batches(self, epoch: int) -> list[IntArray]:
        """Return the sample numbers of each batch of an epoch."""
        return [self._checked(list(batch)) for batch in self._drawn(epoch)]

    def state(self, epoch: int) -> object:
        """Return the sampler's own state as it was when this epoch was drawn; None without one."""
        if self._before[0] == epoch:
            return self._before[1]
        return self.sampler.state_dict() if hasattr(self.sampler, "state_dict") else None

    def resume(self, state: object) -> None:
        """Bring the sampler to a saved state."""
        if state is not None and hasattr(self.sampler, "load_state_dict"):
            self.sampler.load_state_dict(state)

    def _drawn(self, epoch: int) -> list[Any]:
        if hasattr(self.sampler, "state_dict"):
            self._before = epoch, self.sampler.state_dict()
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)
        with self._streams.kept():
            self._streams.seed(key(self._seed, epoch))
            return list(self.sampler)

    def _checked(self, drawn: list[object]) -> IntArray:
        numpy = need("numpy")
        found: Array = numpy.asarray(drawn)
        if len(drawn) and (found.ndim != 1 or found.dtype.kind not in "iu"):
            raise TypeError(
                f"{type(self.sampler).__name__} yields {drawn[0]!r}, which is no sample number: a "
                "sampler that yields lists of numbers is given as batch_sampler"
            )
        if len(found) and not 0 <= found.min() <= found.max() < self._count:
            raise IndexError(
                f"{type(self.sampler).__name__} yields {int(found.min())} to {int(found.max())}: "
                f"the dataset has samples 0 to {self._count - 1}"
            )
        return found.astype("i8")
