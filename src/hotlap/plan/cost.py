"""How long a step takes: arithmetic, the pipeline's bubble, and what communication adds.

The bubble of 1F1B is (p - 1) / m of the work (Narayanan et al. 2021, section 2.2). Ring collectives
move (n - 1) / n of their bytes, all-reduce twice that. Tensor parallelism's are waited for;
gradients and sharded weights move beside the backward and forward pass, and only what exceeds them
is waited for.
"""

from dataclasses import dataclass

from hotlap.plan.cluster import Cluster
from hotlap.plan.flops import hardware_flops, model_flops, stage_flops
from hotlap.plan.memory_estimate import Memory, memory
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.shape import Shape
from hotlap.plan.traffic import Traffic, traffic


@dataclass(frozen=True)
class Plan:
    """A layout with what it costs.

    Times in seconds, memory in bytes; memory and FLOPs of a rank of the fullest stage.
    """

    layout: Layout
    memory: Memory
    stage: int
    flops: float
    bubble: float
    traffic: Traffic
    compute: float
    step: float
    tokens_per_second: float
    utilisation: float


def plan(shape: Shape, cluster: Cluster, layout: Layout, batch: int) -> Plan:
    """What a layout costs; it must be one that `Layout.refusal` accepts."""
    bubble = (layout.pipeline - 1) / layout.micro_batches(batch)
    work = hardware_flops(shape, batch, layout.recompute) / layout.world
    compute = work / (cluster.peak * cluster.achieved)
    sent = traffic(shape, layout, batch)
    busy = compute + sent.tensor / cluster.inside
    link = cluster.inside if layout.world <= cluster.node else cluster.outside
    exposed = max(0.0, sent.data / link - compute)
    step = busy * (1 + bubble) + exposed + sent.send / link
    stages = range(layout.pipeline)
    held, stage = max(((memory(shape, layout, batch, s), s) for s in stages), key=_total)
    used = model_flops(shape, batch) / (step * layout.world * cluster.peak)
    flops = stage_flops(shape, batch, layout.recompute, layout.pipeline, stage)
    flops /= layout.data * layout.tensor
    return Plan(layout, held, stage, flops, bubble, sent, compute, step,
                batch * shape.sequence / step, used)  # fmt: skip


def _total(entry: tuple[Memory, int]) -> float:
    return entry[0].total
