"""Every layout of a model on a cluster: what fits, the fastest first, and why others do not."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.plan.cluster import Cluster
from hotlap.plan.cost import Plan, plan
from hotlap.plan.flops import Recompute
from hotlap.plan.layout import Layout
from hotlap.plan.shape import Shape

RESERVE = 0.12  # of a GPU's memory: the CUDA context, the allocator's gaps, communication buffers
MICRO_BATCHES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Plans:
    """The layouts, sorted.

    `fitting`: those that fit, the fastest first. `closest`: the others, those that need the least
    memory first. `refused`: reasons, with how many layouts each ruled out.
    """

    fitting: tuple[Plan, ...]
    closest: tuple[Plan, ...]
    refused: tuple[tuple[str, int], ...]


def search(shape: Shape, cluster: Cluster, batch: int) -> Plans:
    """Try every layout."""
    limit = cluster.memory * (1 - RESERVE)
    fitting: list[Plan] = []
    others: list[Plan] = []
    refused = Counter[str]()
    for layout in layouts(shape, cluster):
        reason = layout.refusal(shape, cluster, batch)
        if reason:
            refused[reason] += 1
            continue
        found = plan(shape, cluster, layout, batch)
        (fitting if found.memory.total <= limit else others).append(found)
    fitting.sort(key=lambda found: (found.step, found.memory.total))
    others.sort(key=lambda found: found.memory.total)
    return Plans(tuple(fitting), tuple(others), tuple(refused.most_common()))


def layouts(shape: Shape, cluster: Cluster) -> Iterator[Layout]:
    """Every way to make the world of tensor, pipeline, shard and replicate."""
    for tensor in _divisors(min(cluster.node, cluster.gpus)):
        if cluster.gpus % tensor:
            continue
        for pipeline in _divisors(shape.layers):
            if cluster.gpus % (tensor * pipeline):
                continue
            data = cluster.gpus // (tensor * pipeline)
            for shard in sorted({1, *(d for d in _divisors(cluster.node) if data % d == 0), data}):
                for micro in MICRO_BATCHES:
                    for recompute in Recompute:
                        yield Layout(data // shard, shard, tensor, pipeline, micro, recompute)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
