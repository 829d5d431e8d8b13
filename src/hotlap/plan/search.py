"""Every layout of a model on a cluster: what fits, the fastest first, and why others do not."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from hotlap.plan.cluster import Cluster
from hotlap.plan.cost import Plan, plan
from hotlap.plan.flops import Recompute
from hotlap.plan.layout import Layout
from hotlap.plan.precision import Precision
from hotlap.plan.shape import Shape

# Of a GPU's memory, for the CUDA context, the allocator's gaps and communication buffers:
# torchtitan reserved 1.15 and 1.20 times what a dry run has alive, of Llama 8B on 128 and 8 H100.
RESERVE = 0.16
MICRO_BATCHES = (1, 2, 4, 8)
TRIED = (Recompute.NONE, Recompute.FULL)  # with the fused attention kernel that torch has


@dataclass(frozen=True)
class Plans:
    """The layouts, sorted.

    `fitting`: those that fit, the fastest first. `closest`: the others, those that need the least
    memory first. `refused`: reasons, with how many layouts each ruled out.
    """

    fitting: tuple[Plan, ...]
    closest: tuple[Plan, ...]
    refused: tuple[tuple[str, int], ...]


def search(
    shape: Shape,
    cluster: Cluster,
    batch: int,
    precision: Precision = Precision.MIXED,
    only: Mapping[str, object] | None = None,
) -> Plans:
    """Try every layout; with `only`, those whose fields have these values."""
    wanted = only or {}
    limit = usable(cluster)
    fitting: list[Plan] = []
    others: list[Plan] = []
    refused = Counter[str]()
    for layout in layouts(shape, cluster, precision):
        if any(getattr(layout, name) != value for name, value in wanted.items()):
            continue
        reason = layout.refusal(shape, cluster, batch)
        if reason:
            refused[reason] += 1
            continue
        found = plan(shape, cluster, layout, batch)
        (fitting if found.memory.total <= limit else others).append(found)
    fitting.sort(key=lambda found: (found.step, found.memory.total))
    others.sort(key=lambda found: found.memory.total)
    return Plans(tuple(fitting), tuple(others), tuple(refused.most_common()))


def usable(cluster: Cluster) -> float:
    """Bytes of a GPU that a plan may fill."""
    return cluster.memory * (1 - RESERVE)


def layouts(
    shape: Shape, cluster: Cluster, precision: Precision = Precision.MIXED
) -> Iterator[Layout]:
    """Every way to make the world of tensor, pipeline, shard and replicate."""
    ways = product(
        _divisors(min(cluster.node, cluster.gpus)), _divisors(shape.layers), MICRO_BATCHES, TRIED
    )
    for tensor, pipeline, micro, recompute in ways:
        data, left = divmod(cluster.gpus, tensor * pipeline)
        if left:
            continue
        for shard in sorted({1, *(d for d in _divisors(cluster.node) if data % d == 0), data}):
            yield Layout(data // shard, shard, tensor, pipeline, micro, recompute, precision)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
