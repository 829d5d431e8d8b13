"""How long a step takes: arithmetic, the pipeline's bubble, and what communication adds.

The bubble of 1F1B is (p - 1) / m of the work (Narayanan et al. 2021, section 2.2). Ring collectives
move (n - 1) / n of their bytes, all-reduce twice that. Tensor parallelism's are waited for;
gradients and sharded weights move beside the backward and forward pass, and only what exceeds them
is waited for.
"""

from dataclasses import dataclass

from hotlap.plan.cluster import Cluster
from hotlap.plan.flops import hardware_flops, model_flops
from hotlap.plan.layout import Layout
from hotlap.plan.memory import HALF, Memory, memory, stage_parameters
from hotlap.plan.shape import Shape


@dataclass(frozen=True)
class Traffic:
    """Bytes that one rank sends in a step, by kind."""

    tensor: float
    data: float
    pipeline: float


@dataclass(frozen=True)
class Plan:
    """A layout with what it costs. Times in seconds, memory in bytes, of the fullest stage."""

    layout: Layout
    memory: Memory
    stage: int
    bubble: float
    traffic: Traffic
    compute: float
    step: float
    tokens_per_second: float
    utilisation: float


def plan(shape: Shape, cluster: Cluster, layout: Layout, batch: int) -> Plan:
    """What a layout costs; it must be one that `Layout.refusal` accepts."""
    micro = layout.micro_batches(batch)
    bubble = (layout.pipeline - 1) / micro
    work = hardware_flops(shape, batch, layout.recompute) / layout.world
    compute = work / (cluster.peak * cluster.achieved)
    traffic = _traffic(shape, layout, batch)
    busy = compute + traffic.tensor / cluster.inside
    link = cluster.inside if layout.world <= cluster.node else cluster.outside
    exposed = max(0.0, traffic.data / link - compute)
    step = busy * (1 + bubble) + exposed + traffic.pipeline / link
    stages = range(layout.pipeline)
    held, stage = max(((memory(shape, layout, batch, s), s) for s in stages), key=_total)
    used = model_flops(shape, batch) / (step * layout.world * cluster.peak)
    return Plan(layout, held, stage, bubble, traffic, compute, step,
                batch * shape.sequence / step, used)  # fmt: skip


def _total(entry: tuple[Memory, int]) -> float:
    return entry[0].total


def _traffic(shape: Shape, layout: Layout, batch: int) -> Traffic:
    micro = layout.micro_batches(batch)
    message = shape.sequence * layout.micro_batch * shape.hidden * HALF
    layers = shape.layers // layout.pipeline
    # four all-reduces a layer (two forward, two backward), or as many gather and scatter pairs
    tensor = 4 * layers * micro * message * _all_reduce(layout.tensor)
    own = stage_parameters(shape, layout, 0) / layout.tensor * HALF
    gathers = 3 * (layout.shard - 1) / layout.shard  # two gathers, one reduce-scatter
    data = own * gathers + own / layout.shard * _all_reduce(layout.replicate)
    pipeline = 2 * micro * message / layout.tensor if layout.pipeline > 1 else 0.0
    return Traffic(tensor, data, pipeline)


def _all_reduce(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks
