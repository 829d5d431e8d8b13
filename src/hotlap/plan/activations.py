"""Bytes that micro-batches in flight keep for the backward pass.

A layer by count of what autograd saves of a pre-norm block under a fused attention kernel without
dropout, under tensor and sequence parallelism of degree t, in numbers of c bytes:
`c T (2 h / t + 2 h + (2 h + 2 k) / t + g f / t)` for T tokens, hidden size h, key width k,
feed-forward width f, g = 2 (GELU) or 4 (gated): norms' inputs; the gathered inputs of the matrices,
which DTensor keeps whole; queries, keys, values and their mix; the feed-forward layer. But for
dropout's masks it is Korthikanti et al. 2022, section 4: `s b h (34 + 5 a s / h)` bytes with plain
attention, which the papers' two kinds of recomputation follow.
"""

from hotlap.plan.flops import Recompute
from hotlap.plan.parallel_layout import Layout
from hotlap.plan.shape import Shape

LOSS = 12  # bytes a logit: the log-softmax and two gradients on their way, in float32


def kept(shape: Shape, layout: Layout, batch: int, stage: int = 0) -> float:
    """What micro-batches in flight keep on a pipeline stage, buffers of the pipeline included."""
    micro = max(1, layout.micro_batches(batch))
    in_flight = min(layout.pipeline - stage, micro)
    layers = shape.layers // layout.pipeline
    held = in_flight * layers * layer_activations(shape, layout)
    return held + (_passed(shape, layout, micro, in_flight, stage) if layout.pipeline > 1 else 0.0)


def loss(shape: Shape, layout: Layout, stage: int) -> float:
    """What computing the loss and its gradient takes; a pipeline's last stage keeps the logits."""
    if stage < layout.pipeline - 1:
        return 0.0
    logits = shape.logits(layout.micro_batch) / layout.tensor
    return logits * (LOSS + (layout.precision.bytes.passes if layout.pipeline > 1 else 0))


def again(shape: Shape, layout: Layout) -> float:
    """A layer's activations that are whole again while it is recomputed."""
    return _block(shape, layout) if layout.recompute is Recompute.FULL else 0.0


def working(shape: Shape, layout: Layout) -> float:
    """Gradients of activations on their way through one layer."""
    number = layout.precision.bytes.passes
    return shape.working_bytes(layout.micro_batch, layout.tensor, number)


def layer_activations(shape: Shape, layout: Layout) -> float:
    """Bytes that one layer keeps for one micro-batch."""
    base = shape.message(layout.micro_batch)
    if layout.recompute is Recompute.NONE:
        return _block(shape, layout)
    if layout.recompute is Recompute.FULL:
        return layout.precision.bytes.passes * base / layout.tensor
    core = 5 * shape.heads * shape.sequence / shape.hidden
    return base * (34 + (core if layout.recompute is Recompute.PLAIN else 0)) / layout.tensor


def _block(shape: Shape, layout: Layout) -> float:
    return shape.block_bytes(layout.micro_batch, layout.tensor, layout.precision.bytes.passes)


def _passed(shape: Shape, layout: Layout, micro: int, in_flight: int, stage: int) -> float:
    """What stages hand on: buffers for all micro-batches, and outputs of those in flight."""
    message = shape.message(layout.micro_batch) / layout.tensor
    buffers = micro * ((stage > 0) + (stage < layout.pipeline - 1))
    return (buffers + in_flight) * message * layout.precision.bytes.passes
