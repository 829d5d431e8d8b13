"""Products and differences of all pairs, which are made element by element and then summed up.

`(a[:, None] * b[None]).sum(-1)` makes one element for each pair and feature, though a matrix
product or `torch.cdist` gives the sums. An operator whose result has several times the elements of
what it multiplies or subtracts begins a chain; powers and absolute values go on with it, and a sum
over an axis ends it. What was copied for the pairs before counts as the few elements that it is.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap.core.protocol import Avoidable
from hotlap.seam.probe.repeats import LITTLE, Place, address
from hotlap.seam.where import Lines

MOST_TIMES = 4.0
"""Elements of a product, over those of its larger factor, from which it is one of pairs."""
LEAST = 1 << 17
"""Elements of a product from which a matrix product is faster (benchmarks/all_pairs.py)."""
COPIES = {"aten.repeat", "aten.clone", "aten.div"}
"""Operators whose result is of copies where it is larger; `cosine_similarity` divides first."""
PAIRS = {"aten.mul", "aten.sub", "aten.rsub"}
GOES_ON = {"aten.pow", "aten.square", "aten.abs", "aten.mul", "aten.add", "aten.neg"}
"""Operators on a product or difference itself, after which its sum is still one of pairs."""
SUMS = {"aten.sum", "aten.mean", "aten.linalg_vector_norm", "aten.norm"}


class Ran(Protocol):
    """An operator that ran; `pairs`: the chain that it sums up, if it does."""

    lines: Lines
    seconds: float
    differentiated: bool
    pairs: "Chain | None"


@dataclass(frozen=True)
class Chain:
    """The operators that make a sum of pairs; `times`: the product's elements over a factor's."""

    times: float
    ran: tuple[Ran, ...]


class Products:
    """Follows through a step what has an element for each pair."""

    def __init__(self) -> None:
        self._open: dict[int, Chain] = {}
        self._copied: dict[int, tuple[int, Ran]] = {}
        self._memory: list[StorageWeakRef] = []

    def note(
        self,
        run: Ran,
        func: OpOverload[..., object],
        given: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
    ) -> None:
        """An operator ran. On the CPU alone: on a device no time of an operator is known."""
        if not results or results[0].device.type != "cpu":
            return
        at, chain = address(results[0]), self._follow(run, func, given, results[0])
        self._open.pop(at, None)
        copied = self._copy(run, func, given, results[0])
        self._copied.pop(at, None)
        if chain is not None:
            self._open[at] = chain
        if copied is not None:
            self._copied[at] = copied
        if chain is not None or copied is not None:
            # While it is referred to, no other memory gets its address.
            self._memory.append(StorageWeakRef(results[0].untyped_storage()))  # type: ignore[no-untyped-call]

    def _follow(
        self, run: Ran, func: OpOverload[..., object], given: Sequence[torch.Tensor],
        result: torch.Tensor,
    ) -> Chain | None:  # fmt: skip
        """The chain that an operator begins or goes on with; one that it ends becomes the run's."""
        name = str(func._overloadpacket).removesuffix("_")
        known = self._open.get(address(given[0])) if _of_one(given) else None
        if known is not None and name in GOES_ON:
            return Chain(known.times, (*known.ran, run))
        if known is not None and name in SUMS and 1 < result.numel() < given[0].numel():
            run.pairs = Chain(known.times, (*known.ran, run))
        elif name in PAIRS and len(given) == 2 and (times := self._times(given, result)):
            copies = [self._copied[one][1] for one in map(address, given) if one in self._copied]
            return Chain(times, (*copies, run))
        return None

    def _copy(
        self, run: Ran, func: OpOverload[..., object], given: Sequence[torch.Tensor],
        result: torch.Tensor,
    ) -> tuple[int, Ran] | None:  # fmt: skip
        """The elements of what an operator has copied, and the operator; None if it has not."""
        if str(func._overloadpacket) not in COPIES or not self._times(given, result):
            return None
        return max(map(self._elements, given)), run

    def _times(self, given: Sequence[torch.Tensor], result: torch.Tensor) -> float:
        """The result's elements over those of the larger tensor given; 0 where there are few."""
        times = result.numel() / max(map(self._elements, given))
        return times if result.numel() >= LEAST and times >= MOST_TIMES else 0.0

    def _elements(self, tensor: torch.Tensor) -> int:
        """The elements of a tensor, each once though there be copies."""
        if address(tensor) in self._copied:
            return self._copied[address(tensor)][0]
        sizes = zip(tensor.shape, tensor.stride(), strict=True)
        return max(1, prod(size for size, step in sizes if step))


def _of_one(given: Sequence[torch.Tensor]) -> bool:
    """Whether all that an operator takes lies in one memory."""
    return len({address(tensor) for tensor in given}) == 1


def summed_pairs(runs: Sequence[Ran]) -> Iterator[Avoidable]:
    """The lines of the user's that sum up products or differences of all pairs."""
    on: dict[Place, float] = defaultdict(float)
    for run in runs:
        for place in set(run.lines):
            on[place] += run.seconds
    chains: dict[Place, list[Chain]] = defaultdict(list)
    for run in runs:
        if run.pairs is not None and run.lines:
            chains[run.lines[0]].append(run.pairs)
    total = sum(run.seconds for run in runs)
    for (code, line), found in chains.items():
        ran = {id(run): run for chain in found for run in chain.ran}.values()
        spent = sum(run.seconds for run in ran)
        lines = {at for run in ran for of, at in run.lines[:1] if of is code and at <= line}
        whole = sum(on[code, at] for at in lines)
        if spent >= LITTLE * total:
            yield Avoidable(
                code.co_filename, line, round(max(chain.times for chain in found)),
                min(1.0, spent / whole), spent / total, any(run.differentiated for run in ran),
                min(lines) if len(lines) > 1 else 0,
            )  # fmt: skip
