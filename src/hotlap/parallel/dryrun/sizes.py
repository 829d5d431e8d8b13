"""The sizes a transformer is built from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """What the model is made of, all given: `kv_heads` and `ffn` above 0.

    `head_dim`: width of a head; 0: hidden over heads.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int
    sequence: int
    gated: bool
    bias: bool
    positions: bool
    tied: bool
    head_dim: int = 0
