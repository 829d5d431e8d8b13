"""Randomness as a pure function: of a seed, an epoch and a sample's number, of nothing else.

Everything rests on the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a bijection of
64-bit integers. The results therefore depend on no library's generator, and not on which process
or in which order the samples are asked for.
"""

from hotlap.common.extras import Array, FloatArray, IntArray, need

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def key(*parts: int) -> int:
    """Return one 64-bit key for a tuple of integers."""
    state = _GOLDEN
    for part in parts:
        state = _mix_int((state ^ _mix_int(part & _MASK)) + _GOLDEN & _MASK)
    return state


def mixed(numbers: object) -> Array:
    """Scramble an array of uint64, one to one."""
    numpy = need("numpy")
    value: Array = numpy.asarray(numbers, "u8")
    value = (value ^ (value >> 30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> 27)) * numpy.uint64(0x94D049BB133111EB)
    value ^= value >> 31
    return value


def _mix_int(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def permutation(count: int, seed: int, epoch: int) -> IntArray:
    """Return a random order of `range(count)`, int64.

    Samples are sorted by their scrambled numbers; as scrambling is one to one there are no ties,
    and every sort gives the same order.
    """
    numpy = need("numpy")
    numbers = numpy.arange(count, dtype="u8")
    return mixed(numbers * numpy.uint64(_GOLDEN) + numpy.uint64(key(seed, epoch))).argsort()


class Draws:
    """Uniform numbers for a batch: one function of (seed, epoch, sample, stream, place).

    Args:
        seed: the loader's.
        epoch: counts from 0.
        ids: numbers of the samples.
    """

    def __init__(self, seed: int, epoch: int, ids: object) -> None:
        self.seed = seed
        self.epoch = epoch
        self.ids = need("numpy").asarray(ids, "u8")
        self._drawn: dict[tuple[str, int], FloatArray] = {}

    def uniform(self, stream: str, count: int = 1) -> FloatArray:
        """Return float64 in [0, 1), shape (samples, count).

        Args:
            stream: a name; draws of different streams are independent.
            count: numbers for each sample.
        """
        if (stream, count) not in self._drawn:
            self._drawn[stream, count] = self._fresh(stream, count)
        return self._drawn[stream, count]

    def _fresh(self, stream: str, count: int) -> FloatArray:
        numpy = need("numpy")
        base = key(self.seed, self.epoch, int.from_bytes(stream.encode(), "little"))
        per_sample = mixed(self.ids * numpy.uint64(_GOLDEN) + numpy.uint64(base))
        places = numpy.arange(1, count + 1, dtype="u8") * numpy.uint64(_GOLDEN)
        drawn: FloatArray = (mixed(per_sample[:, None] + places) >> numpy.uint64(11)) * 2.0**-53
        return drawn

    def one(self, index: int) -> "Draws":
        """Return the draws of one sample of the batch."""
        return _One(self, index)


class _One(Draws):
    """One sample of a batch, whose numbers are made with those of the whole batch."""

    def __init__(self, whole: Draws, index: int) -> None:
        super().__init__(whole.seed, whole.epoch, whole.ids[index : index + 1])
        self._whole = whole
        self._index = index

    def uniform(self, stream: str, count: int = 1) -> FloatArray:
        """Return float64 in [0, 1), shape (1, count)."""
        return self._whole.uniform(stream, count)[self._index : self._index + 1]
