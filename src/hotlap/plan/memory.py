"""Bytes a rank needs, by owner, on the first pipeline stage (the fullest under 1F1B) or another.

Parameters, gradients and Adam's two moments in float32 over the shards, the layers at work
gathered in 16 bits. Activations by Korthikanti et al. 2022, section 4: a layer keeps
`s b h (34 + 5 a s / h) / t` bytes with tensor and sequence parallelism of degree t; selective
recomputation (or a fused attention kernel) drops the `5 a s / h`, full recomputation keeps the
layer's input alone.
"""

from dataclasses import dataclass

from hotlap.plan.flops import Recompute
from hotlap.plan.layout import Layout
from hotlap.plan.shape import Shape

FLOAT32, HALF = 4, 2
GATHERED = 2  # layers whose full weights are held at once: at work, and prefetched


@dataclass(frozen=True)
class Memory:
    """Bytes by owner."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.parameters + self.gradients + self.optimizer + self.activations


def memory(shape: Shape, layout: Layout, batch: int, stage: int = 0) -> Memory:
    """What one rank of a pipeline stage holds at its peak."""
    own = stage_parameters(shape, layout, stage) / layout.tensor
    state = own * FLOAT32 / layout.shard
    gathered = 0.0
    if layout.shard > 1:
        gathered = GATHERED * shape.layer_parameters * HALF / layout.tensor
    return Memory(state + gathered, state, 2 * state, activations(shape, layout, batch, stage))


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


def activations(shape: Shape, layout: Layout, batch: int, stage: int = 0) -> float:
    """What the micro-batches in flight keep for the backward pass, in bytes."""
    in_flight = min(layout.pipeline - stage, max(1, layout.micro_batches(batch)))
    held = shape.layers // layout.pipeline * layer_activations(shape, layout)
    total = in_flight * held
    if layout.recompute is Recompute.FULL:  # one layer is whole again while it is computed again
        total += _kept(shape, layout, Recompute.SELECTIVE)
    if stage == layout.pipeline - 1:
        tokens = shape.sequence * layout.micro_batch
        total += tokens * shape.vocabulary * (HALF + FLOAT32) / layout.tensor  # logits, softmax
    return total


def layer_activations(shape: Shape, layout: Layout) -> float:
    """Bytes that one layer keeps for one micro-batch."""
    return _kept(shape, layout, layout.recompute)


def _kept(shape: Shape, layout: Layout, recompute: Recompute) -> float:
    base = float(shape.sequence * layout.micro_batch * shape.hidden)
    core = 0.0
    if recompute is Recompute.FULL:
        return HALF * base / layout.tensor
    if recompute is Recompute.NONE:
        core = 5 * shape.heads * shape.sequence / shape.hidden
    return base * (34 + core) / layout.tensor
