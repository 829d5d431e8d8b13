"""Did a training get the same data? Compare what two runs were given, where both draw at random.

Bitwise losses need none of this. Where the dataset draws random numbers, or the sampler another
seed, and a technique changes which process reads a sample, the batches differ rightly; but each
sample still has to come as often as before, with its label, drawn anew in each epoch and from the
same distribution.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import Any

from hotlap.core.protocol import Document

ALPHA = 1e-4
"""Probability that the test of the inputs' distribution calls a difference that is none."""
FEWEST_SAMPLES = 64
FEWEST_REPEATS = 8
FEWEST_SIZES = 5
Epoch = tuple[int, int]


@dataclass
class DataUse:
    """What one run was seen to do with its data.

    `draws`: the generators that dataset, collate function or sampler drew from. `state`: attributes
    of the dataset that reading a sample changes. Batches by (loader, epoch); `ended` are the epochs
    that were seen to their end. `perturbed`: its parameters were nudged by rounding, once. `given`:
    the samples of each process's epochs that loaders gave between two steps.
    """

    draws: set[str] = field(default_factory=set)
    state: set[str] = field(default_factory=set)
    batches: dict[Epoch, list[Document]] = field(default_factory=dict)
    ended: set[Epoch] = field(default_factory=set)
    perturbed: bool = False
    given: list[Counter[tuple[int, ...]]] = field(default_factory=list)

    @property
    def samples(self) -> float:
        """Samples that a usual step takes; 0 where no loader gave them, or too few steps did.

        Of an epoch that is given between two steps as a whole, as to an evaluation, none count,
        unless no other is given.
        """
        times = Counter(at for given in self.given for at in given)
        training = [sum(n for at, n in given.items() if times[at] > 1) for given in self.given]
        for sizes in (list(filter(None, training)), [given.total() for given in self.given]):
            if len(sizes) >= FEWEST_SIZES:
                return median(sizes)
        return 0.0

    def add(self, fields: Document, sender: int = 0) -> None:
        """Take in a message of a process, or of one of its loader workers."""
        self.draws.update(fields.get("draws", ()))
        self.state.update(fields.get("state", ()))
        self.perturbed = self.perturbed or bool(fields.get("perturbed"))
        batches = fields.get("batches", ())
        given: Counter[tuple[int, ...]] = Counter()
        for batch in batches:
            given[sender, batch["loader"], batch["epoch"]] += batch.get("size", 0)
        if given.total():
            self.given.append(+given)
        for batch in batches:
            at = (batch["loader"], batch["epoch"])
            if batch.get("end"):
                self.ended.add(at)
            else:
                self.batches.setdefault(at, []).append(batch)

    def column(self, name: str, at: Epoch) -> list[Any]:
        """`indices`, `inputs`, `labels` or `means` of an epoch's samples; empty if unknown."""
        columns = [batch.get(name) for batch in self.batches.get(at, ())]
        if any(column is None for column in columns):
            return []
        return [value for column in columns for value in column or ()]

    def by_index(self, name: str, *others: str) -> dict[tuple[int, ...], list[object]]:
        """The same by (loader, index of the sample, and other columns), over all epochs."""
        found: dict[tuple[int, ...], list[object]] = defaultdict(list)
        for at in self.batches:
            values = self.column(name, at)
            keys = [self.column(key, at) for key in ("indices", *others)]
            if all(len(key) == len(values) for key in keys):
                for key, value in zip(zip(*keys, strict=True), values, strict=True):
                    found[(at[0], *key)].append(value)
        return found

    @property
    def labels_vary(self) -> bool:
        """Whether labels may be drawn anew with their inputs, as the mask of a flipped image is.

        Classes are not: they come again and again.
        """
        labels = self.column("labels", next(iter(self.batches))) if self.batches else []
        known = len(labels) >= FEWEST_REPEATS
        return bool(self.draws) and known and 2 * len(set(labels)) > len(labels)


def changed_data(reference: DataUse, candidate: DataUse) -> str:
    """How the candidate's data differ from the reference's, one sentence; empty if they do not."""
    return next(_differences(reference, candidate), "")


def reshuffled(reference: DataUse, candidate: DataUse) -> bool:
    """Whether samples that the reference shuffles came in another order.

    A sampler takes its seed as its iterator begins: a loader with workers asks it at once, one
    without at its first batch. So iterators that are dropped unread (`tqdm.auto` begins two), and
    workers that are not started anew, change the order.
    """
    theirs = [reference.column("indices", at) for at in reference.batches]
    mine = [candidate.column("indices", at) for at in candidate.batches]
    before, now = list(chain(*theirs)), list(chain(*mine))
    common = min(len(before), len(now))
    shuffled = any(epoch != sorted(epoch) for epoch in theirs)
    return shuffled and before[:common] != now[:common]


def _differences(reference: DataUse, candidate: DataUse) -> Iterator[str]:
    if state := reference.state | candidate.state:
        names = ", ".join(f"`{name}`" for name in sorted(state))
        yield f"reading a sample changes the dataset's {names}: each worker changes its own copy"
    for at in sorted(reference.batches.keys() & candidate.batches.keys()):
        yield from _epoch(reference, candidate, at)
    yield from _labels(reference, candidate)
    yield from _frozen(reference, candidate)
    yield from _distribution(reference, candidate)


def _epoch(reference: DataUse, candidate: DataUse, at: Epoch) -> Iterator[str]:
    """Sizes of the batches; each sample once; over a whole epoch the same samples and labels."""
    where = f"loader {at[0]}, epoch {at[1]}"
    whole = at in reference.ended and at in candidate.ended
    old, new = reference.batches[at], candidate.batches[at]
    if whole:
        given, given_now = (sum(batch["size"] for batch in batches) for batches in (old, new))
        if given != given_now:
            yield f"{where}: {given_now} samples, the reference has {given}"
    indexed = bool(reference.column("indices", at))  # workers cut a stream into batches otherwise
    for number, (one, other) in enumerate(zip(old, new, strict=False)):
        if indexed and one["size"] != other["size"]:
            sizes = f"{other['size']} samples, the reference's has {one['size']}"
            yield f"{where}: batch {number} has {sizes}"
            break
    spare = _left_out(old) if indexed else 0
    fixed = () if reference.labels_vary else (("labels", "label"),)
    for name, what in (("indices", "sample"), ("inputs", "input"), *fixed):
        mine, theirs = candidate.column(name, at), reference.column(name, at)
        if name != "labels" and _repeats(mine) and theirs and not _repeats(theirs):
            yield f"{where}: {_repeats(mine)} of {len(mine)} {what}s come more than once"
        once = name == "labels" or not _repeats(theirs)
        compared = whole and once and name != "inputs"
        missing = (Counter(theirs) - Counter(mine)).total() if compared else 0
        if missing > spare:
            yield f"{where}: {missing} of {len(theirs)} {what}s of the reference do not come"


def _left_out(batches: Sequence[Document]) -> int:
    """The most samples that an epoch may leave out (`drop_last`): others in each order.

    None where its last batch is smaller: such an epoch has all samples.
    """
    sizes = {batch["size"] for batch in batches}
    return max(sizes) - 1 if len(sizes) == 1 else 0


def _repeats(values: Sequence[object]) -> int:
    return len(values) - len(set(values))


def _labels(reference: DataUse, candidate: DataUse) -> Iterator[str]:
    """The same sample has the same label: of the same input, where labels are drawn with those."""
    others = ("inputs",) if reference.labels_vary else ()
    theirs, mine = (use.by_index("labels", *others) for use in (reference, candidate))
    if any(len(set(labels)) > 1 for labels in theirs.values()):
        return
    wrong = [at for at in theirs.keys() & mine.keys() if set(mine[at]) != set(theirs[at])]
    if wrong:
        common = len(theirs.keys() & mine.keys())
        yield f"{len(wrong)} of {common} samples have another label, sample {min(wrong)[1]} first"


def _frozen(reference: DataUse, candidate: DataUse) -> Iterator[str]:
    """Samples that the reference draws anew in each epoch are drawn anew."""
    varied, total = _varied(reference)
    varied_now, total_now = _varied(candidate)
    if min(total, total_now) < FEWEST_REPEATS:
        return
    if varied > total / 2 and varied_now < total_now / 20:
        yield (
            f"{total_now - varied_now} of {total_now} samples are the same in each epoch, "
            "the reference draws them anew"
        )


def _varied(use: DataUse) -> tuple[int, int]:
    """How many samples that were read more than once were different, and how many there were."""
    again = [inputs for inputs in use.by_index("inputs").values() if len(inputs) > 1]
    return sum(len(set(inputs)) > 1 for inputs in again), len(again)


def _distribution(reference: DataUse, candidate: DataUse) -> Iterator[str]:
    """Two-sample Kolmogorov-Smirnov test of the inputs' means, epoch by epoch."""
    for at in sorted(reference.batches.keys() & candidate.batches.keys()):
        theirs, mine = reference.column("means", at), candidate.column("means", at)
        common = min(len(theirs), len(mine))
        if common < FEWEST_SAMPLES:
            continue
        distance = ks_distance(theirs[:common], mine[:common])
        limit = math.sqrt(-math.log(ALPHA / 2) / common)  # sqrt(-ln(a/2)/2 * 2/n), n each
        if distance > limit:
            yield (
                f"loader {at[0]}, epoch {at[1]}: the inputs are distributed otherwise "
                f"(Kolmogorov-Smirnov distance {distance:.2f}, limit {limit:.2f})"
            )


def ks_distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Largest distance of two empirical distribution functions."""
    steps = dict.fromkeys((*one, *other), 0.0)
    for value in one:
        steps[value] += 1 / len(one)
    for value in other:
        steps[value] -= 1 / len(other)
    height = largest = 0.0
    for value in sorted(steps):
        height += steps[value]
        largest = max(largest, abs(height))
    return largest
