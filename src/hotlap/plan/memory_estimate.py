"""Bytes a rank needs, by owner, at its highest point.

It is what `hotlap.parallel` does: weights, gradients and Adam's two moments over the shards. FSDP
without a pipeline gathers a layer at a time and reduces gradients after each micro-batch; under a
pipeline it gathers the stage once a step and reduces at the end, so that whole weights and whole
gradients are held meanwhile. Activations are highest either when the loss is computed or when the
last layer's backward pass runs.
"""

from dataclasses import dataclass

from hotlap.plan.activations import again, kept, loss, working
from hotlap.plan.number_formats import Precision
from hotlap.plan.parallel_layout import Layout
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
    own = rank_parameters(shape, layout, stage)
    rest = own * layout.precision.bytes.rest / layout.shard
    held = kept(shape, layout, batch, stage)
    gathered, gradients = _whole(shape, layout, own, stage)
    words, passing = _words(shape, layout, stage)
    gradients += words
    layer, layer_gradients = _layer(shape, layout)
    busy, inside = gathered + layer, held + again(shape, layout)
    moments = (
        (gathered, gradients, held + loss(shape, layout, stage)),
        (gathered, gradients, held + passing),
        (busy, gradients, inside + working(shape, layout)),  # a layer's backward pass begins
        (busy, gradients + layer_gradients, inside),  # and ends
    )
    gathered, gradients, held = max(moments, key=sum)
    return Memory(rest, gathered, gradients, 2 * rest, held)


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


def rank_parameters(shape: Shape, layout: Layout, stage: int) -> float:
    """Parameters of a tensor rank of a stage; learned positions are each rank's own."""
    copied = shape.hidden * shape.sequence if shape.positions and stage == 0 else 0
    return (stage_parameters(shape, layout, stage) - copied) / layout.tensor + copied


def _whole(shape: Shape, layout: Layout, own: float, stage: int) -> tuple[float, float]:
    """Gathered weights and gradients that are held all through the passes."""
    numbers = layout.precision.bytes
    if layout.fsdp and layout.pipeline > 1:
        return own * numbers.passes, own * numbers.reduced
    if layout.fsdp:  # what is outside the layers stays gathered
        ends = stage_parameters(shape, layout, stage) - shape.layers * shape.layer_parameters
        return ends / layout.tensor * numbers.passes, own * numbers.rest / layout.shard
    casts = layout.precision is Precision.MIXED  # autocast keeps the weights it has cast
    return own * numbers.passes if casts else 0.0, own * numbers.rest


def _words(shape: Shape, layout: Layout, stage: int) -> tuple[float, float]:
    """Gradients of the whole vocabulary, which DTensor's embedding leaves on each tensor rank.

    The second is what the micro-batch at work passes on there, while others are in flight beside
    it: such a gradient, and hidden states of the whole sequence (two, and their gradient in
    float32's size).
    """
    if stage or layout.pipeline == 1 or layout.tensor == 1:
        return 0.0, 0.0
    words, numbers = shape.vocabulary * shape.hidden, layout.precision.bytes
    added_up = words * (1 - 1 / layout.tensor) * numbers.reduced if layout.fsdp else 0.0
    return added_up, (words + 4 * shape.message(layout.micro_batch)) * numbers.passes


def _layer(shape: Shape, layout: Layout) -> tuple[float, float]:
    """What FSDP gathers for a layer at work, and the layer's whole gradients on their way."""
    if not layout.fsdp:
        return 0.0, 0.0
    numbers, one = layout.precision.bytes, shape.layer_parameters / layout.tensor
    if layout.pipeline > 1:  # gathered they are already; new gradients are added up elsewhere
        return 0.0, one * numbers.passes if numbers.passes != numbers.reduced else 0.0
    layers = min(GATHERED, shape.layers)
    return layers * one * numbers.passes, one * (numbers.passes + numbers.reduced)
