"""Bytes a rank needs, by owner, at its highest point.

It is what `hotlap.parallel` does: weights, gradients and Adam's two moments over the shards. FSDP
without a pipeline gathers a layer at a time and reduces gradients after each micro-batch; under a
pipeline it gathers the stage once a step and reduces at the end, so that whole weights and whole
gradients are held meanwhile. Activations are highest either when the loss is computed or when the
last layer's backward pass runs.
"""

from dataclasses import dataclass

from hotlap.plan.activations import kept, loss, working
from hotlap.plan.layout import Layout
from hotlap.plan.precision import Precision
from hotlap.plan.shape import Shape

GATHERED = 2  # layers whose full weights are held at once: at work, and prefetched


@dataclass(frozen=True)
class Memory:
    """Bytes by owner; `gathered`: weights beside the shards, in the format of the passes."""

    parameters: float
    gathered: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.state + self.activations

    @property
    def state(self) -> float:
        """What no micro-batch brings."""
        return self.parameters + self.gathered + self.gradients + self.optimizer


def memory(shape: Shape, layout: Layout, batch: int, stage: int = 0) -> Memory:
    """What one rank of a pipeline stage holds at its peak."""
    own = stage_parameters(shape, layout, stage) / layout.tensor
    rest = own * layout.precision.bytes.rest / layout.shard
    held = kept(shape, layout, batch, stage)
    gathered, gradients = _whole(shape, layout, own)
    words, passing = _words(shape, layout, stage)
    gradients += words
    layer, layer_gradients = _layer(shape, layout)
    at_loss = held + loss(shape, layout, stage)
    at_work = held + working(shape, layout) + passing
    moments = (
        Memory(rest, gathered, gradients, 2 * rest, at_loss),
        Memory(rest, gathered + layer, gradients + layer_gradients, 2 * rest, at_work),
    )
    return max(moments, key=lambda moment: moment.total)


def stage_parameters(shape: Shape, layout: Layout, stage: int) -> int:
    """Parameters of a pipeline stage; a tied head is a copy of the embedding on the last one."""
    held = shape.layers // layout.pipeline * shape.layer_parameters
    last = layout.pipeline - 1
    if stage == 0:
        held += shape.embedding_parameters
    if stage == last:
        held += shape.head_parameters
        held += shape.vocabulary * shape.hidden if shape.tied and last > 0 else 0
    return held


def _whole(shape: Shape, layout: Layout, own: float) -> tuple[float, float]:
    """Gathered weights and gradients that are held all through the passes."""
    numbers = layout.precision.bytes
    if layout.fsdp and layout.pipeline > 1:
        return own * numbers.passes, own * numbers.reduced
    if layout.fsdp:
        return 0.0, own * numbers.rest / layout.shard
    casts = layout.precision is Precision.MIXED  # autocast keeps the weights it has cast
    return own * numbers.passes if casts else 0.0, own * numbers.rest


def _words(shape: Shape, layout: Layout, stage: int) -> tuple[float, float]:
    """Gradients of the whole vocabulary, which DTensor's embedding leaves on each tensor rank.

    The second is that of the micro-batch at work; other micro-batches are in flight beside it.
    """
    if stage or layout.pipeline == 1 or layout.tensor == 1:
        return 0.0, 0.0
    words, numbers = shape.vocabulary * shape.hidden, layout.precision.bytes
    added_up = words * (1 - 1 / layout.tensor) * numbers.reduced if layout.fsdp else 0.0
    return added_up, words * numbers.passes


def _layer(shape: Shape, layout: Layout) -> tuple[float, float]:
    """What FSDP without a pipeline gathers for a layer at work, and its whole gradients."""
    if not layout.fsdp or layout.pipeline > 1:
        return 0.0, 0.0
    numbers, layers = layout.precision.bytes, min(GATHERED, shape.layers)
    ends = shape.head_parameters / layout.tensor
    one = shape.layer_parameters / layout.tensor
    return (layers * one + ends) * numbers.passes, one * (numbers.passes + numbers.reduced)
