"""One parameter as the update sees it: tensors of at least float32 that lie in memory alike.

The kernels below read memory in order, so all tensors of a parameter are brought into one memory
format. Where that, or a wider dtype, takes a copy, the copy is written back when the step is over.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from hotlap.common.ranks import local
from hotlap.optim.shards import Layout, gradient, layout

CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
HALF = (torch.bfloat16, torch.float16)
PLAIN = (nn.Parameter, Tensor)
Backs = list[tuple[Tensor, Tensor, torch.memory_format]]
"""What was computed on copies: where it belongs, its flat values, and their order in memory."""


@dataclass(slots=True)
class Leaf:
    """A parameter's weight, gradient and buffers, dense, of one dtype and one memory format.

    They are flat (n,) unless nothing had to be converted; `flat` makes them so. `adapt` tells
    whether it gets a rate of its own and weight decay, `copied` whether anything here may be a copy
    in another dtype or memory format.
    """

    weight: Tensor
    grad: Tensor
    buffers: list[Tensor]
    step: Tensor
    layout: Layout | None
    adapt: bool
    copied: bool = False
    backs: Backs = field(default_factory=list)

    def flat(self) -> "Leaf":
        """Return it with flat tensors: views of its own."""
        return replace(
            self,
            weight=self.weight.view(-1),
            grad=self.grad.view(-1),
            buffers=[buffer.view(-1) for buffer in self.buffers],
        )

    def write_back(self) -> None:
        """Put into place what was computed on copies."""
        for target, flat, form in self.backs:
            target.copy_(_unflat(flat, target, form))


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in: float32 for the half precisions."""
    return torch.float32 if dtype in HALF else dtype


def begin(
    parameter: Tensor, state: dict[str, Tensor], names: Iterable[str], *, master: bool
) -> None:
    """Make a parameter's state: `step` (a float32 scalar), buffers, and its float32 master."""
    held = local(parameter)
    device = torch.device("cpu") if held.device.type == "cpu" else held.device
    state["step"] = torch.zeros((), dtype=torch.float32, device=device)
    for name in names:
        state[name] = torch.zeros_like(parameter, dtype=wide(parameter.dtype))
    if master and parameter.dtype in HALF:
        state["master"] = parameter.detach().to(torch.float32)


def leaf(parameter: Tensor, state: dict[str, Tensor], names: Iterable[str], *, adapt: bool) -> Leaf:
    """Lay a parameter out for an update."""
    found, step, grad = [state[name] for name in names], state["step"], parameter.grad
    counts = step.is_cpu and step.dtype is torch.float32
    if grad is not None and counts and _plain(parameter, grad, *found):
        return Leaf(parameter, grad, found, step, None, adapt)
    held, grad = local(parameter), gradient(parameter)
    dtype = wide(held.dtype)
    form = _form(held)
    backs: Backs = []
    master = state.get("master")
    source = held if master is None else local(master)
    weight = _flat(source.to(dtype), form)
    for target in (held,) if master is None else (held, source):
        _note(backs, target, weight, form)
    buffers = []
    for name in names:
        buffer = local(state[name])
        buffers.append(_flat(buffer.to(weight.device, dtype), form))
        _note(backs, buffer, buffers[-1], form)
    if step.device != weight.device or step.dtype is not torch.float32:  # another's checkpoint
        step = state["step"] = step.to(weight.device, torch.float32)
    slope = _flat(grad.to(dtype), form)
    how = layout(parameter)
    return Leaf(weight, slope, buffers, step, how, adapt, copied=True, backs=backs)


def _plain(parameter: Tensor, *others: Tensor) -> bool:
    """Whether nothing has to be converted: by far the most frequent case, and a quick one."""
    dtype = parameter.dtype
    if type(parameter) not in PLAIN or dtype in HALF or not parameter.is_cpu:
        return False
    for other in others:
        if other.dtype is not dtype or not other.is_contiguous() or not other.is_cpu:
            return False
    return parameter.is_contiguous()


def _form(tensor: Tensor) -> torch.memory_format:
    if tensor.is_contiguous():
        return torch.contiguous_format
    last = CHANNELS_LAST.get(tensor.dim())
    fits = last is not None and tensor.is_contiguous(memory_format=last)
    return last if fits and last is not None else torch.contiguous_format


def _flat(tensor: Tensor, form: torch.memory_format) -> Tensor:
    tensor = tensor.contiguous(memory_format=form)
    return tensor.view(-1) if form is torch.contiguous_format else tensor.movedim(1, -1).view(-1)


def _unflat(flat: Tensor, like: Tensor, form: torch.memory_format) -> Tensor:
    if form is torch.contiguous_format:
        return flat.view(like.shape)
    return flat.view(like.movedim(1, -1).shape).movedim(-1, 1)


def _note(backs: Backs, target: Tensor, flat: Tensor, form: torch.memory_format) -> None:
    if target.data_ptr() != flat.data_ptr():
        backs.append((target, flat, form))
