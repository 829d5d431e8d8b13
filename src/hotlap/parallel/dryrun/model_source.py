"""What a dry run runs: a model on the meta device, its inputs, and the loss."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from hotlap.parallel.dryrun.gpt import Gpt
from hotlap.parallel.dryrun.sizes import Sizes


@dataclass(frozen=True)
class ModelSource:
    """A model, and a micro-batch of it.

    `blocks`: names of the layers that repeat. `inputs`: positional arguments of the model for so
    many rows. `loss`: from the model's output and these inputs to a scalar. `plan`: the name of its
    tensor-parallel plan, if it has one. `sequence`: tokens of a row; 0: its rows are no tokens.
    """

    model: nn.Module
    blocks: tuple[str, ...]
    inputs: Callable[[int], tuple[Tensor, ...]]
    loss: Callable[[Any, tuple[Tensor, ...]], Tensor]
    plan: str | None = None
    sequence: int = 0


def gpt(sizes: Sizes) -> ModelSource:
    """A transformer of these sizes."""
    with torch.device("meta"):
        model = Gpt(sizes)
    blocks = tuple(f"layers.{i}" for i in range(sizes.layers))
    return ModelSource(
        model,
        blocks,
        lambda rows: (tokens(rows, sizes.sequence),),
        lambda logits, inputs: cross_entropy(logits, inputs[0]),
        "gpt",
    )


def tokens(rows: int, sequence: int) -> Tensor:
    """Token ids."""
    return torch.zeros(rows, sequence, dtype=torch.int64)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all tokens, computed in float32."""
    return F.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
