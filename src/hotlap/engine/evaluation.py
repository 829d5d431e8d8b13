"""Evaluating without a trace: no graph, and the training's modes and random numbers as before."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn

from hotlap.engine.distribution import sharded
from hotlap.engine.random_state import Randomness


@contextmanager
def evaluating(
    *models: nn.Module, forward: AbstractContextManager[object] | None = None
) -> Iterator[None]:
    """Run the block in evaluation mode and `torch.inference_mode`, under `forward` if given.

    Where parameters are in shards, under `torch.no_grad`: what FSDP2 gathers first is kept for
    training, and could not take part in it if it had been made in inference mode.

    On exit every module is in the mode it was in, frozen ones included, and the random number
    streams stand where they stood: how often one evaluates does not change the training.
    """
    before = [(module, module.training) for model in models for module in model.modules()]
    quiet = torch.no_grad if any(map(sharded, models)) else torch.inference_mode
    random = Randomness()
    streams = random.state()
    for model in models:
        model.eval()
    try:
        with quiet(), forward or nullcontext():
            yield
    finally:
        random.restore(streams)
        for module, training in before:
            module.training = training
