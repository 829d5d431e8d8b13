"""Fused optimizers: which may be, the way back where the kernels do not reach, and live ones."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, adagrad, sgd
from torch.optim.optimizer import (
    Optimizer,
    _get_scalar_dtype,
    register_optimizer_step_pre_hook,
)
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices
from torch.utils.hooks import RemovableHandle

from hotlap.seam.moves import Context
from hotlap.seam.patch import replaced

OWN = "torch.optim."
Tensors = list[torch.Tensor]

Step = Callable[..., None]
"""A kernel of torch.optim, called with parameters, gradients, states and options."""


def may_fuse(arguments: dict[str, Any]) -> bool:
    """Whether the optimizer steps by torch's own code, with plain numbers for lr and betas."""
    numbers = (arguments.get("lr"), *(arguments.get("betas") or ()))
    if any(isinstance(number, torch.Tensor) for number in numbers):
        return False
    return str(type(arguments["self"]).step.__module__).startswith(OWN)


@contextmanager
def where_supported(context: Context) -> Iterator[None]:
    """Take `fused` back where its kernel would refuse; sparse gradients go the plain way.

    In a live program each optimizer is fused as it steps, whenever it was made, copied or loaded;
    from the exit on it is as the program made it, and so is one that is loaded from what was saved
    meanwhile.
    """
    looks: Looks = WeakKeyDictionary()
    handle = register_optimizer_step_pre_hook(partial(_check, context, looks))
    with ExitStack() as stack:
        stack.callback(handle.remove)
        for module, fused, plain in KERNELS:
            stack.enter_context(replaced(module, fused, partial(_sparse_plainly, context, plain)))
        if context.live:
            stack.enter_context(_taken_back_afterwards(looks))
        yield


KERNELS = (
    (sgd, "_fused_sgd", sgd._single_tensor_sgd),
    (adagrad, "_fused_adagrad", adagrad._single_tensor_adagrad),
)
"""Those whose plain form takes sparse gradients, which may come and go from step to step."""


def _sparse_plainly(context: Context, plain: Step, fused: Step) -> Step:
    """The fused kernel; with sparse gradients the plain one, as a GradScaler would call it."""

    def step(
        params: Tensors, grads: Tensors, *states: object, has_sparse_grad: bool,
        grad_scale: torch.Tensor | None = None, found_inf: torch.Tensor | None = None,
        **options: object,
    ) -> None:  # fmt: skip
        scaler = {"grad_scale": grad_scale, "found_inf": found_inf}
        if not has_sparse_grad:
            fused(params, grads, *states, has_sparse_grad=False, **scaler, **options)
            return
        context.inert("an embedding has sparse gradients")
        if found_inf is not None and found_inf.item():
            return
        if grad_scale is not None:
            for gradient in grads:
                gradient.mul_(1.0 / grad_scale.item())
        none = dict.fromkeys(scaler)
        plain(params, grads, *states, has_sparse_grad=True, **none, **options)

    return step


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
    """What is known of an optimizer until its groups change."""

    def __init__(self) -> None:
        self._groups: object = None
        self._count = 0
        self._why = ""
        self._could: bool | None = None

    def refusal(self, optimizer: Optimizer) -> str:
        """Why the fused kernel would not take the optimizer's parameters; empty if it would."""
        groups = optimizer.param_groups
        if groups is not self._groups or len(groups) != self._count:
            self._groups, self._count, self._could = groups, len(groups), None
            self._why = _refusal(optimizer)
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


def _fused_by_us(group: dict[str, object]) -> bool:
    return type(group.get("fused")) is int


def _is_ours(optimizer: Optimizer) -> bool:
    return all(map(_fused_by_us, optimizer.param_groups))


def take_back(optimizer: Optimizer, *_: object) -> None:
    """Make a fused optimizer a plain one, if it was us who fused it, or what it was loaded from."""
    if any(map(_fused_by_us, optimizer.param_groups)):
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
        (group.get("fused") is None or _fused_by_us(group))
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


def _refusal(optimizer: Optimizer) -> str:
    for parameter in (each for group in optimizer.param_groups for each in group["params"]):
        if not parameter.is_floating_point():
            return f"a parameter is {str(parameter.dtype).removeprefix('torch.')}"
        if isinstance(optimizer, Adagrad) and parameter.is_cuda:
            return "torch has no fused Adagrad for CUDA"
        if parameter.grad is not None and _laid_out_otherwise(parameter, parameter.grad):
            return "a gradient lies in memory in another order than its parameter"
    return ""


def _laid_out_otherwise(parameter: torch.Tensor, gradient: torch.Tensor) -> bool:
    """As none does that autograd computes; the fused kernel would read it in the wrong order."""
    if gradient.layout is not torch.strided or parameter.layout is not torch.strided:
        return False
    strides = zip(parameter.shape, parameter.stride(), gradient.stride(), strict=True)
    return any(size > 1 and theirs != ours for size, theirs, ours in strides)


def _unfuse(optimizer: Optimizer) -> None:
    """Make it what it would be without `fused`."""
    for group in optimizer.param_groups:
        group["fused"] = None
    optimizer.defaults["fused"] = None
    vars(optimizer)["_step_supports_amp_scaling"] = False
    for state in optimizer.state.values():  # Adagrad's is there from the start
        if "step" in state:
            state["step"] = torch.tensor(float(state["step"]), dtype=_get_scalar_dtype())  # type: ignore[no-untyped-call]
