"""Model and optimizer as one flat dictionary, by names that no layout changes."""

import io
import re
from collections.abc import Sequence
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
_STAGE = re.compile(r"^((?:state|param_groups)\.)?\d+\.")
_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def collect(models: Sequence[nn.Module], optimizer: Optimizer | None = None) -> Flat:
    """Every parameter, buffer and optimizer value by name, sharded as it is.

    An optimizer that has not stepped yet has no state, and is left without.

    Args:
        models: the whole model, or the pipeline stages of this rank, which keep the names that
            their layers have in the whole.
        optimizer: over the parameters of all of them.
    """
    flat = _of_model(models)
    if optimizer is not None:
        stepped = bool(optimizer.state)
        flat |= _of_optimizer(models, optimizer)
        if not stepped:  # torch has made a state to name its values
            optimizer.state.clear()
            flat = {name: value for name, value in flat.items() if not name.startswith(STATE)}
    return flat


def template(models: Sequence[nn.Module], optimizer: Optimizer | None = None) -> Flat:
    """What `collect` gives, with the state that the optimizer will have: to be loaded into."""
    flat = _of_model(models)
    return flat if optimizer is None else flat | _of_optimizer(models, optimizer)


def put_back(models: Sequence[nn.Module], optimizer: Optimizer | None, flat: Flat) -> None:
    """Load what `collect` gave, read into a `template`."""
    joint = _joint(models)
    names = get_model_state_dict(joint)
    set_model_state_dict(joint, {name: flat[MODEL + _inner(joint, name)] for name in names})
    if optimizer is None:
        return
    own = _named(joint, optimizer)
    values: Flat = {k: flat.get(OPTIMIZER + _inner(joint, k), value) for k, value in own.items()}
    set_optimizer_state_dict(joint, optimizer, values, options=_FLAT)
    if not any(name.startswith(STATE) for name in flat):
        optimizer.state.clear()


def _of_model(models: Sequence[nn.Module]) -> Flat:
    joint = _joint(models)
    values = get_model_state_dict(joint)
    return {MODEL + _inner(joint, name): value for name, value in values.items()}


def _of_optimizer(models: Sequence[nn.Module], optimizer: Optimizer) -> Flat:
    joint = _joint(models)
    values = _named(joint, optimizer)
    return {OPTIMIZER + _inner(joint, name): value for name, value in values.items()}


def _named(joint: nn.Module, optimizer: Optimizer) -> Flat:
    return dict(get_optimizer_state_dict(joint, optimizer, options=_FLAT))


class _Joint(nn.ModuleList):
    """The stages of one rank, for an optimizer that is over all of them."""


def _joint(models: Sequence[nn.Module]) -> nn.Module:
    return models[0] if len(models) == 1 else _Joint(models)


def _inner(joint: nn.Module, name: str) -> str:
    """A name as it is in the whole model: without the number of the stage."""
    return _STAGE.sub(r"\1", name, count=1) if isinstance(joint, _Joint) else name


def packed(value: object) -> Tensor:
    """A value that `torch.save` writes, as bytes in a tensor."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)


def unpacked(data: Tensor) -> Any:
    """Undo `packed`; tensors come back on the CPU."""
    buffer = io.BytesIO(data.numpy().tobytes())
    return torch.load(buffer, map_location="cpu", weights_only=True)
