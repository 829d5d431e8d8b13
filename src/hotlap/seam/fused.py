"""Fused optimizers: which may be, the way back where the kernels do not reach, and live ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW
from torch.optim.optimizer import (
    Optimizer,
    _get_scalar_dtype,
    register_optimizer_step_pre_hook,
)
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

from hotlap.seam.moves import Context

OWN = "torch.optim."


def may_fuse(arguments: dict[str, Any]) -> bool:
    """Whether the optimizer steps by torch's own code, with plain numbers for lr and betas."""
    numbers = (arguments.get("lr"), *(arguments.get("betas") or ()))
    if any(isinstance(number, torch.Tensor) for number in numbers):
        return False
    return str(type(arguments["self"]).step.__module__).startswith(OWN)


@contextmanager
def where_supported(context: Context) -> Iterator[None]:
    """Before an optimizer's first step, take `fused` back where its kernel would refuse.

    In a live program the optimizers are there already: they are fused as they step, and on exit
    they are as they were.
    """
    seen: WeakSet[Optimizer] = WeakSet()
    fused: WeakSet[Optimizer] = WeakSet()

    def check(optimizer: Optimizer, *_: object) -> None:
        if optimizer in seen:
            return
        seen.add(optimizer)
        with context.isolated():
            why = _refusal(optimizer)
            if why and any(group.get("fused") for group in optimizer.param_groups):
                _unfuse(optimizer)
                context.inert(why)
            elif context.live and not why and _could_be_fused(optimizer):
                _fuse(optimizer)
                fused.add(optimizer)
                context.held()

    handle = register_optimizer_step_pre_hook(check)
    try:
        yield
    finally:
        handle.remove()
        for optimizer in fused:
            _unfuse(optimizer)


def _could_be_fused(optimizer: Optimizer) -> bool:
    """Whether the optimizer would have been built as a fused one, as the technique declares it."""
    options = [{**optimizer.defaults, **group} for group in optimizer.param_groups]
    plain = all(
        group.get("fused") is None
        and not any(group.get(name) for name in ("foreach", "capturable", "differentiable"))
        and may_fuse({**group, "self": optimizer})
        for group in options
    )
    places = {p.device.type for group in optimizer.param_groups for p in group["params"]}
    supported = places <= set(_get_fused_kernels_supported_devices())
    return isinstance(optimizer, (Adam, AdamW, SGD, Adagrad)) and plain and supported


def _fuse(optimizer: Optimizer) -> None:
    """Make it what it would be if it had been built with `fused=True`."""
    for group in optimizer.param_groups:
        group["fused"] = True
    optimizer.defaults["fused"] = True
    vars(optimizer)["_step_supports_amp_scaling"] = True
    for parameter, state in optimizer.state.items():
        if "step" in state:
            dtype = _get_scalar_dtype(is_fused=True)  # type: ignore[no-untyped-call]
            state["step"] = state["step"].to(parameter.device, dtype)


def _refusal(optimizer: Optimizer) -> str:
    """Why the fused kernel would not take these parameters; empty if it would."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None and parameter.grad.is_sparse:
                return "an embedding has sparse gradients"
            if not parameter.is_floating_point():
                return f"a parameter is {str(parameter.dtype).removeprefix('torch.')}"
            if isinstance(optimizer, Adagrad) and parameter.is_cuda:
                return "torch has no fused Adagrad for CUDA"
    return ""


def _unfuse(optimizer: Optimizer) -> None:
    """Make it what it would be without `fused`."""
    for group in optimizer.param_groups:
        group["fused"] = None
    optimizer.defaults["fused"] = None
    vars(optimizer)["_step_supports_amp_scaling"] = False
    for state in optimizer.state.values():  # Adagrad's is there from the start
        if "step" in state:
            state["step"] = torch.tensor(float(state["step"]), dtype=_get_scalar_dtype())  # type: ignore[no-untyped-call]
