"""Every layout of a model on a cluster: what fits, the fastest first, and why others do not."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from hotlap.plan.cluster import Cluster
from hotlap.plan.cost import Plan, plan
from hotlap.plan.flops import Recompute
from hotlap.plan.number_formats import Precision
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.shape import Shape

# Of a GPU's memory, for the CUDA context, the allocator's gaps and communication buffers:
# torchtitan reserved 1.15 and 1.20 times what a dry run has alive, of Llama 8B on 128 and 8 H100.
RESERVE = 0.16
MICRO_BATCHES = (1, 2, 4, 8)
DEGREES = ("tensor", "pipeline", "shard")
TRIED = (Recompute.NONE, Recompute.FULL)  # with the fused attention kernel that torch has


@dataclass(frozen=True)
class Plans:
    """The layouts, sorted.

    `fitting`: those that fit, the fastest first, of equally fast ones that with the larger
    micro-batch, which makes larger kernels. `closest`: the others, those that need the least memory
    first. `refused`: reasons, with how many layouts each ruled out. `impossible`: the rule that
    what was asked for breaks, where no layout has it; `nearest`: the layout that comes closest to
    it, one that fits if there is any.
    """

    fitting: tuple[Plan, ...]
    closest: tuple[Plan, ...]
    refused: tuple[tuple[str, int], ...]
    impossible: str = ""
    nearest: Plan | None = None


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
    fitting.sort(key=lambda found: (found.step, -found.layout.micro_batch, found.memory.total))
    others.sort(key=lambda found: found.memory.total)
    plans = Plans(tuple(fitting), tuple(others), tuple(refused.most_common()))
    if fitting or others or not wanted:
        return plans
    free = search(shape, cluster, batch, precision)
    candidates = free.fitting or free.closest
    nearest = min(candidates, key=lambda found: _distance(found.layout, wanted), default=None)
    broken = refused.most_common(1)[0][0] if refused else _broken(cluster, shape, wanted)
    return replace(plans, impossible=broken, nearest=nearest)


def _distance(layout: Layout, wanted: Mapping[str, object]) -> float:
    """How far a layout is from what was asked for: in doublings, and other words."""
    total = 0.0
    for name, value in wanted.items():
        here = getattr(layout, name)
        if isinstance(value, int) and isinstance(here, int):
            total += abs(math.log2(here / value))
        else:
            total += here != value
    return total


def _broken(cluster: Cluster, shape: Shape, wanted: Mapping[str, object]) -> str:
    """The rule by which no layout with these values is built at all."""
    ranks = [(name, int(str(wanted[name]))) for name in DEGREES if name in wanted]
    product_ = math.prod(number for _, number in ranks)
    if product_ and cluster.gpus % product_:
        made = " x ".join(f"{name} {number}" for name, number in ranks)
        return f"{made} does not divide {cluster.gpus} GPUs"
    tensor, pipeline, shard, micro = (int(str(wanted.get(n, 1))) for n in (*DEGREES, "micro_batch"))
    if tensor > cluster.node:
        return f"tensor {tensor} would leave the node of {cluster.node}"
    if shape.layers % pipeline:
        return f"pipeline {pipeline} does not divide {shape.layers} layers"
    if micro not in MICRO_BATCHES:
        return f"micro-batch {micro} is none of {', '.join(map(str, MICRO_BATCHES))}"
    return (
        f"shard {shard} is neither all data-parallel ranks nor a divisor of the node of "
        f"{cluster.node}"
    )


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
