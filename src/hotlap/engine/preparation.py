"""A model made ready to train: device, layout, recomputed blocks, compiled code."""

from collections.abc import Callable

import torch
from torch import nn

from hotlap.common.recomputing import named, norms, recompute, repeated, restore
from hotlap.engine.engine_config import EngineConfig

Undo = Callable[[], None]


def plain(model: nn.Module) -> nn.Module:
    """The model inside the wrappers of torch.compile and DistributedDataParallel."""
    while True:
        if isinstance(model, torch._dynamo.OptimizedModule):
            model = model._orig_mod
        elif isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model


def device_of(model: nn.Module, asked: str) -> torch.device:
    """The device asked for, or that of the model's first parameter."""
    if asked:
        return torch.device(asked)
    first = next(model.parameters(), None)
    return first.device if first is not None else torch.device("cpu")


def prepared(
    model: nn.Module, config: EngineConfig, device: torch.device
) -> tuple[nn.Module, list[Undo]]:
    """The model as it is to be called, and what undoes the changes made to it.

    Weights are moved in place: an optimizer that has them keeps them.
    """
    undo: list[Undo] = []
    model.to(device)
    if config.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    blocks = chosen(plain(model), config)
    if blocks:
        recompute(blocks)
        undo.append(lambda: restore(blocks))
    if config.memory_budget < 1:
        undo.append(_budget(config.memory_budget))
    if config.compile:
        model = torch.compile(model, mode=config.compile)  # type: ignore[assignment]
    return model, undo


def chosen(model: nn.Module, config: EngineConfig) -> list[nn.Module]:
    """The blocks to recompute.

    Raises:
        ValueError: there are none, or they cannot be recomputed.
    """
    if config.recompute:
        blocks = named(model, config.recompute)
    elif config.recompute_every:
        blocks = repeated(model)[:: config.recompute_every]
        if not blocks:
            raise ValueError(
                f"{type(model).__name__} has no blocks that repeat side by side: name those to "
                "recompute with EngineConfig(recompute=...)"
            )
    else:
        return []
    if config.compile and any(norms(block) for block in blocks):
        raise ValueError(
            "blocks with batch normalisation cannot be recomputed in compiled code: give "
            "memory_budget instead of recompute"
        )
    return blocks


def _budget(share: float) -> Undo:
    """What compiled code may keep of the activations; process-wide."""
    import torch._functorch.config as functorch

    before = functorch.activation_memory_budget
    functorch.activation_memory_budget = share

    def undo() -> None:
        functorch.activation_memory_budget = before

    return undo
