"""Fused optimizers: which may be, and the way back where the kernels do not reach."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch.optim import Adagrad
from torch.optim.optimizer import Optimizer, _get_scalar_dtype, register_optimizer_step_pre_hook

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
    """Before an optimizer's first step, take `fused` back where its kernel would refuse."""
    seen: WeakSet[Optimizer] = WeakSet()

    def check(optimizer: Optimizer, *_: object) -> None:
        if optimizer in seen:
            return
        seen.add(optimizer)
        with context.isolated():
            why = _refusal(optimizer)
            if why and any(group.get("fused") for group in optimizer.param_groups):
                _unfuse(optimizer)
                context.inert(why)

    handle = register_optimizer_step_pre_hook(check)
    try:
        yield
    finally:
        handle.remove()


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
    """Make it what it would be without `fused`, before it has stepped."""
    for group in optimizer.param_groups:
        group["fused"] = None
    optimizer.defaults["fused"] = None
    vars(optimizer)["_step_supports_amp_scaling"] = False
    for state in optimizer.state.values():  # Adagrad's is there from the start
        if "step" in state:
            state["step"] = torch.tensor(float(state["step"]), dtype=_get_scalar_dtype())  # type: ignore[no-untyped-call]
