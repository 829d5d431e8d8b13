"""Modules that keep a sharded parameter and compute with this rank's plain part of it.

A parameter stays a DTensor, so that optimizers, checkpoints and FSDP see what it is; while the
module computes, its own code reads a plain tensor from the attribute. The attribute is a property
of a class made for the module. torch.compile reads past it, so such modules are not compiled.
"""

from collections.abc import Callable, Mapping
from functools import wraps

import torch
from torch import Tensor, nn

Read = Callable[[object], Tensor]
"""From the parameter as it is kept to what the module computes with."""


def localise(module: nn.Module, reads: Mapping[str, Read]) -> None:
    """Let attributes of a module give what `reads` makes of its parameters, in its forward."""
    kind = type(module)
    members: dict[str, object] = {
        name: property(_reader(name, read)) for name, read in reads.items()
    }
    members |= {"forward": _computing(kind.forward), "__module__": kind.__module__}
    module._computing = False  # type: ignore[assignment]
    module.__class__ = type(kind.__name__, (kind,), members)


def _reader(name: str, read: Read) -> Callable[[nn.Module], Tensor | None]:
    def get(module: nn.Module) -> Tensor | None:
        parameter = module._parameters[name]
        return read(parameter) if module._computing and parameter is not None else parameter

    return get


def _computing(forward: Callable[..., object]) -> Callable[..., object]:
    @wraps(forward)
    def computing(module: nn.Module, *args: object, **kwargs: object) -> object:
        module._computing = True  # type: ignore[assignment]
        try:
            return forward(module, *args, **kwargs)
        finally:
            module._computing = False  # type: ignore[assignment]

    return computing


def whole(parameter: object) -> Tensor:
    """Read a replicated parameter as a plain tensor; its gradient is the same on every rank."""
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(parameter, DTensor):
        return torch.as_tensor(parameter)
    same = [Replicate()] * parameter.device_mesh.ndim
    return parameter.to_local(grad_placements=same)
