"""Floating-point operations of a training step.

Sources: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021,
section 3.5 (full recomputation); Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, appendix A (none, selective). Attention is counted without the causal
half, as there.
"""

from enum import StrEnum

from hotlap.plan.shape import Shape


class Recompute(StrEnum):
    """What the backward pass computes again: nothing, the attention core, whole layers."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


def model_flops(shape: Shape, batch: int) -> float:
    """FLOPs of forward and backward over `batch` sequences, nothing recomputed."""
    return 3 * (shape.layers * _layer(shape, batch) + _head(shape, batch))


def hardware_flops(shape: Shape, batch: int, recompute: Recompute) -> float:
    """FLOPs that are carried out, recomputation included."""
    extra = {
        Recompute.NONE: 0.0,
        Recompute.SELECTIVE: 3 * _attention(shape, batch),
        Recompute.FULL: _layer(shape, batch),
    }
    return model_flops(shape, batch) + shape.layers * extra[recompute]


def _layer(shape: Shape, batch: int) -> float:
    tokens = batch * shape.sequence
    return 2.0 * tokens * shape.layer_matrices + _attention(shape, batch)


def _attention(shape: Shape, batch: int) -> float:
    """The two products of the attention core, forward."""
    return 4.0 * batch * shape.sequence**2 * shape.hidden


def _head(shape: Shape, batch: int) -> float:
    return 2.0 * batch * shape.sequence * shape.hidden * shape.vocabulary
