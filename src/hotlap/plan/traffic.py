"""Bytes that one rank sends in a step, by collective, over rings.

A ring of n ranks moves (n - 1) / n of a collective's bytes, an all-reduce twice that. A layer with
tensor and sequence parallelism gathers its input twice and scatters its output twice in the forward
pass, the other way round in the backward pass, and once more where layers are computed again.
"""

from dataclasses import dataclass

from hotlap.plan.flops import Recompute
from hotlap.plan.memory_estimate import rank_parameters
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.shape import Shape


@dataclass(frozen=True)
class Traffic:
    """Bytes by collective: `tensor` ranks' all-gathers and reduce-scatters together.

    `gather`, `scatter`: FSDP's of weights and of gradients; `reduce`: all-reduce of gradients
    between replicas; `send`: to the next and the previous pipeline stage.
    """

    tensor: float
    gather: float
    scatter: float
    reduce: float
    send: float

    @property
    def data(self) -> float:
        """What data parallelism sends."""
        return self.gather + self.scatter + self.reduce


def traffic(shape: Shape, layout: Layout, batch: int) -> Traffic:
    """What a rank sends; weights are the first stage's, `send` is that of one in the middle."""
    micro, numbers = layout.micro_batches(batch), layout.precision.bytes
    message = shape.message(layout.micro_batch) * numbers.passes
    layers = shape.layers // layout.pipeline
    collectives = 12 if layout.recompute is Recompute.FULL else 8
    tensor = collectives * layers * micro * message * _ring(layout.tensor)
    own = rank_parameters(shape, layout, 0)
    inner = shape.layers * shape.layer_parameters / layout.tensor
    once = layout.pipeline > 1
    scatters = 1 if once else micro
    gathered = own if once else micro * (own + inner)  # what is outside the layers stays gathered
    shards = _ring(layout.shard)
    replicas = own / layout.shard * numbers.reduced * 2 * _ring(layout.replicate)
    return Traffic(
        tensor,
        gathered * numbers.passes * shards,
        scatters * own * numbers.reduced * shards,
        replicas * (scatters if layout.fsdp else 1),
        min(layout.pipeline - 1, 2) * micro * message / layout.tensor,
    )


def _ring(ranks: int) -> float:
    return (ranks - 1) / ranks
