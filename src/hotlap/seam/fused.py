"""Fused optimizers: which may be, the way back where the kernels do not reach, and live ones."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW
from torch.optim.optimizer import (
    Optimizer,
    _get_scalar_dtype,
    register_optimizer_step_pre_hook,
)
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices
from torch.utils.hooks import RemovableHandle

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
    """Before an optimizer steps, take `fused` back where its kernel would refuse.

    In a live program each optimizer is fused as it steps, whenever it was made, copied or loaded;
    from the exit on it is as the program made it, and so is one that is loaded from what was saved
    meanwhile.
    """
    looks: Looks = WeakKeyDictionary()
    handle = register_optimizer_step_pre_hook(partial(_check, context, looks))
    try:
        with _taken_back_afterwards(looks) if context.live else nullcontext():
            yield
    finally:
        handle.remove()


def _check(context: Context, looks: "Looks", optimizer: Optimizer, *_: object) -> None:
    with context.isolated():
        look = looks.get(optimizer)
        if look is None:
            look = looks[optimizer] = _Look()
        if why := look.refusal(optimizer):
            if any(group.get("fused") for group in optimizer.param_groups):
                _unfuse(optimizer)
                context.inert(why)
        elif context.live and not _is_ours(optimizer) and look.could_be_fused(optimizer):
            _fuse(optimizer)
            context.held()


class _Look:
    """What is known of an optimizer until its groups change.

    That a gradient is sparse shows only when there is one: parameters without are looked at again.
    """

    def __init__(self) -> None:
        self._groups: object = None
        self._count = 0
        self._waiting: list[torch.Tensor] = []
        self._why = ""
        self._could: bool | None = None

    def refusal(self, optimizer: Optimizer) -> str:
        """Why the fused kernel would not take the optimizer's parameters; empty if it would."""
        groups = optimizer.param_groups
        if groups is not self._groups or len(groups) != self._count:
            self._groups, self._count = groups, len(groups)
            self._waiting = [parameter for group in groups for parameter in group["params"]]
            self._could = None
        if self._waiting and not self._why:
            self._why = _refusal(optimizer, self._waiting)
            self._waiting = [parameter for parameter in self._waiting if parameter.grad is None]
        return self._why

    def could_be_fused(self, optimizer: Optimizer) -> bool:
        """Whether it would have been built as a fused one."""
        if self._could is None:
            self._could = _could_be_fused(optimizer)
        return self._could


OURS = 1
"""The value of `fused` where it is ours: torch takes it for True, which stands for the program's.

It goes into state dicts and copies, so that those are known for ours as well.
"""


def _is_ours(optimizer: Optimizer) -> bool:
    return all(type(group.get("fused")) is int for group in optimizer.param_groups)


def take_back(optimizer: Optimizer, *_: object) -> None:
    """Make a fused optimizer a plain one, if it was us who fused it, or what it was loaded from."""
    if any(type(group.get("fused")) is int for group in optimizer.param_groups):
        _unfuse(optimizer)


Looks = WeakKeyDictionary[Optimizer, _Look]
_taking_back: list[RemovableHandle] = []
"""The hook on steps that stands while the technique has been on in this process and is off."""


@contextmanager
def _taken_back_afterwards(looks: Looks) -> Iterator[None]:
    """On exit make plain ones of what was fused, now and before each later step."""
    while _taking_back:
        _taking_back.pop().remove()
    try:
        yield
    finally:
        for optimizer in looks:
            take_back(optimizer)
        _taking_back.append(register_optimizer_step_pre_hook(take_back))


def _could_be_fused(optimizer: Optimizer) -> bool:
    """Whether the optimizer would have been built as a fused one, as the technique declares it."""
    options = [{**optimizer.defaults, **group} for group in optimizer.param_groups]
    plain = all(
        (group.get("fused") is None or type(group["fused"]) is int)
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
        group["fused"] = OURS
    optimizer.defaults["fused"] = OURS
    vars(optimizer)["_step_supports_amp_scaling"] = True
    for parameter, state in optimizer.state.items():
        if "step" in state:
            dtype = _get_scalar_dtype(is_fused=True)  # type: ignore[no-untyped-call]
            state["step"] = state["step"].to(parameter.device, dtype)


def _refusal(optimizer: Optimizer, parameters: list[torch.Tensor]) -> str:
    for parameter in parameters:
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
