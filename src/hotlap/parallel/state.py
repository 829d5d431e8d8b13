"""Model and optimizer as one flat dictionary, by names that no layout changes."""

import io
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim import Optimizer

Flat = dict[str, Any]
MODEL, OPTIMIZER, STATE = "model.", "optimizer.", "optimizer.state."
_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def collect(models: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> Flat:
    """Every parameter, buffer and optimizer value by name, sharded as it is.

    An optimizer that has not stepped yet has no state, and is left without.

    Args:
        models: the whole model, or the pipeline stages of this rank, which keep the names that
            their layers have in the whole.
        optimizers: one for each model.
    """
    flat: Flat = {}
    for model, optimizer in _pairs(models, optimizers):
        flat |= _named(MODEL, get_model_state_dict(model))
        if optimizer is not None:
            flat |= _of_optimizer(model, optimizer)
    return flat


def template(models: Sequence[nn.Module], optimizers: Sequence[Optimizer]) -> Flat:
    """What `collect` gives, with the state that each optimizer will have: to be loaded into."""
    flat: Flat = {}
    for model, optimizer in _pairs(models, optimizers):
        flat |= _named(MODEL, get_model_state_dict(model))
        if optimizer is not None:
            flat |= _named(OPTIMIZER, _optimizer_dict(model, optimizer))
    return flat


def put_back(models: Sequence[nn.Module], optimizers: Sequence[Optimizer], flat: Flat) -> None:
    """Load what `collect` gave, read into a `template`."""
    for model, optimizer in _pairs(models, optimizers):
        own = get_model_state_dict(model)
        set_model_state_dict(model, {name: flat[MODEL + name] for name in own})
        if optimizer is not None:
            _load_optimizer(model, optimizer, flat)


def _load_optimizer(model: nn.Module, optimizer: Optimizer, flat: Flat) -> None:
    names = _optimizer_dict(model, optimizer)
    values = {name: flat[OPTIMIZER + name] for name in names if OPTIMIZER + name in flat}
    set_optimizer_state_dict(model, optimizer, values, options=_FLAT)
    if not any(name.startswith(STATE) for name in flat):
        optimizer.state.clear()


def _of_optimizer(model: nn.Module, optimizer: Optimizer) -> Flat:
    stepped = bool(optimizer.state)
    named = _named(OPTIMIZER, _optimizer_dict(model, optimizer))
    if stepped:
        return named
    optimizer.state.clear()  # torch has made one to name its values
    return {name: value for name, value in named.items() if not name.startswith(STATE)}


def _optimizer_dict(model: nn.Module, optimizer: Optimizer) -> Flat:
    return dict(get_optimizer_state_dict(model, optimizer, options=_FLAT))


def _named(prefix: str, values: Flat) -> Flat:
    return {prefix + name: value for name, value in values.items()}


def _pairs(
    models: Sequence[nn.Module], optimizers: Sequence[Optimizer]
) -> Iterable[tuple[nn.Module, Optimizer | None]]:
    if optimizers and len(optimizers) != len(models):
        raise ValueError(
            f"{len(models)} models and {len(optimizers)} optimizers: give each part of the model "
            "an optimizer of its own, or none to any"
        )
    return zip_longest(models, optimizers)


def packed(value: Any) -> Tensor:
    """Any value that `torch.save` writes, as bytes in a tensor."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def unpacked(data: Tensor) -> Any:
    """Undo `packed`; tensors come back on the CPU."""
    buffer = io.BytesIO(data.numpy().tobytes())
    return torch.load(buffer, map_location="cpu", weights_only=True)
