"""Floating-point operations of a training step.

Sources: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021,
section 3.5 (full recomputation); Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, appendix A (selective); Dao et al., "FlashAttention", NeurIPS 2022,
section 3.2 (the fused kernel's backward pass computes the scores again: five products, not four).
Attention is counted without the causal half, as in the first two.
"""

from enum import StrEnum

from hotlap.plan.shape import Shape


class Recompute(StrEnum):
    """What the backward pass computes again.

    `none`: nothing, with a fused attention kernel, which keeps no scores. `blocks`: whole layers.
    The other two are of the papers, before fused kernels: `plain`: nothing, scores are kept;
    `selective`: the attention core.
    """

    NONE = "none"
    FULL = "blocks"
    PLAIN = "plain"
    SELECTIVE = "selective"


def model_flops(shape: Shape, batch: int) -> float:
    """FLOPs of forward and backward over `batch` sequences, nothing recomputed."""
    return 3 * (shape.layers * shape.layer_flops(batch) + shape.head_flops(batch))


def hardware_flops(shape: Shape, batch: int, recompute: Recompute) -> float:
    """FLOPs that are carried out, recomputation included."""
    extra = {
        Recompute.NONE: 0.5 * shape.attention_flops(batch),
        Recompute.PLAIN: 0.0,
        Recompute.SELECTIVE: 3 * shape.attention_flops(batch),
        Recompute.FULL: shape.layer_flops(batch),
    }
    return model_flops(shape, batch) + shape.layers * extra[recompute]


def stage_flops(shape: Shape, batch: int, recompute: Recompute, stages: int, stage: int) -> float:
    """FLOPs of one of `stages` equal parts of the layers, the head on the last.

    As torch carries them out: a recomputation stops before a layer's last product, whose result
    nobody needs; what a fused kernel computes again by itself is not counted.
    """
    one = shape.layer_flops(batch)
    again = one - shape.last_flops(batch) if recompute is Recompute.FULL else 0.0
    ends = 3 * shape.head_flops(batch) if stage == stages - 1 else 0.0
    return shape.layers / stages * (3 * one + again) + ends
