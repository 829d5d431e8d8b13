"""A training nudged by rounding alone: every parameter by one unit in the last place, once.

How far its losses then part from those of the same script is how far rounding alone takes them: the
limit for techniques that round differently.
"""

from collections.abc import Callable, Iterable

import torch
from torch.optim.optimizer import Optimizer

from hotlap.common.ranks import local
from hotlap.core.technique import PERTURBED_AT
from hotlap.seam.wire import Wire


def perturbing(wire: Wire) -> Callable[[object], None]:
    """Make a hook for the end of each step, which nudges the parameters after one of them.

    The steps before show whether the script repeats itself.
    """
    steps = 0

    def after(optimizer: object) -> None:
        nonlocal steps
        steps += 1
        if steps == PERTURBED_AT and isinstance(optimizer, Optimizer):
            nudge(p for group in optimizer.param_groups for p in group["params"])
            wire.send("data", perturbed=True)

    return after


@torch.no_grad()
def nudge(parameters: Iterable[torch.Tensor]) -> None:
    """Move each element to the next number of its type, by turns upwards and downwards.

    Of a DTensor those of this rank.
    """
    for parameter in map(local, parameters):
        if parameter.is_floating_point() and parameter.layout is torch.strided:
            towards = torch.full_like(parameter, torch.inf).flatten()
            towards[::2] = -torch.inf
            parameter.copy_(torch.nextafter(parameter, towards.view(parameter.shape)))
