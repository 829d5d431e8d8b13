"""LARS: SGD with momentum and a rate for each layer."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from hotlap.optim.kernels.calls import Options, stepped
from hotlap.optim.layerwise import Group, Layerwise, slope
from hotlap.optim.leaves import Leaf
from hotlap.optim.shards import square_norms, summed


class LARS(Layerwise):
    r"""Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017, algorithm 1).

    For each layer, with gradient g, weight w, learning rate :math:`\gamma` and weight decay
    :math:`\beta`:

    .. math::
        \lambda = \eta\,\|w\| / (\|g\| + \beta\|w\| + \epsilon), \quad
        v \leftarrow m v + \gamma \lambda (g + \beta w), \quad w \leftarrow w - v

    Other implementations keep the learning rate out of v, as `torch.optim.SGD` does. At a constant
    rate that is the same; under a schedule the paper's form keeps past steps at their own rates.

    Args:
        params: parameters or groups of them; `layerwise=False` in a group turns the layers' rates
            and weight decay off for it.
        lr: learning rate, the paper's :math:`\gamma`.
        momentum: m.
        weight_decay: :math:`\beta`.
        trust_coefficient: :math:`\eta`.
        eps: added to the denominator of the layer's rate.
        exclude_1d: biases and the scales of norms (one dimension or none) get neither a rate of
            their own nor weight decay.
        decoupled: decay weights by `lr * weight_decay` beside the gradient instead of in it.
        maximize: ascend.
        master_weights: keep a float32 copy of bfloat16 and float16 parameters in the state, so that
            small updates add up. Weights that are loaded into the model later do not reach it:
            build the optimizer after loading, or load its state as well.

    The state is float32 (float64 for float64 parameters): `step`, `momentum_buffer`, `master`.
    Under FSDP2 and tensor parallelism, norms are those of the whole parameter.

    Raises:
        ValueError: an option is out of its range.
    """

    names = ("momentum_buffer",)

    def __init__(  # noqa: PLR0913
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-1,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust_coefficient: float = 1e-3,
        eps: float = 0.0,
        *,
        exclude_1d: bool = True,
        decoupled: bool = False,
        maximize: bool = False,
        master_weights: bool = True,
    ) -> None:
        options = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust_coefficient": trust_coefficient,
            "eps": eps,
            "exclude_1d": exclude_1d,
            "layerwise": True,
            "decoupled": decoupled,
            "maximize": maximize,
            "master_weights": master_weights,
        }
        super().__init__(params, options)

    def _compiled(self, leaves: list[Leaf], group: Group, scale: float | None) -> bool:
        apart, inside = _decays(group, adapt=True)
        options = Options(
            lr=float(group["lr"]), decay=inside, apart=apart, eps=group["eps"],
            momentum=group["momentum"], trust=group["trust_coefficient"],
            scale=slope(group, scale),
        )  # fmt: skip
        return stepped("lars", leaves, options, partial(self._scratch, finite=False))

    def _alone(self, leaves: list[Leaf], group: Group, scale: float | None) -> None:
        lr, momentum = float(group["lr"]), group["momentum"]
        for found in leaves:
            w, g = found.weight, found.grad
            decay, inside = _decays(group, adapt=found.adapt)
            if decay:
                w.mul_(1 - lr * decay)
            rate = lr * _rate(w, g, group, inside) if found.adapt else lr
            if not momentum:  # torch's kernel then takes no buffer, nor heeds the dampening
                (v,) = found.buffers
                v.copy_(g).mul_(slope(group, scale)).add_(w, alpha=inside).mul_(rate)
                w.sub_(v)
                continue
            # v = momentum * v + rate * (g + decay * w); w = w - v
            torch._fused_sgd_(
                [w], [g], found.buffers, weight_decay=inside, momentum=momentum, lr=1.0,
                dampening=1 - rate, nesterov=False, maximize=group["maximize"],
                is_first_step=False,
            )  # fmt: skip

    def _together(self, leaves: list[Leaf], group: Group, prepared: Tensor | None) -> None:
        weights = [found.weight for found in leaves]
        grads = [found.grad for found in leaves]
        buffers = [found.buffers[0] for found in leaves]
        decay, inside = _decays(group, adapt=leaves[0].adapt)
        if decay:
            torch._foreach_mul_(weights, 1 - group["lr"] * decay)
        parts = torch._foreach_mul(grads, -1.0 if group["maximize"] else 1.0)
        if inside:
            torch._foreach_add_(parts, weights, alpha=inside)
        if leaves[0].adapt:
            torch._foreach_mul_(parts, _rates(leaves, group, inside))
        torch._foreach_mul_(parts, group["lr"])
        torch._foreach_mul_(buffers, group["momentum"])
        torch._foreach_add_(buffers, parts)
        torch._foreach_sub_(weights, buffers)


def _decays(group: Group, *, adapt: bool) -> tuple[float, float]:
    """Weight decay beside the gradient, and inside it."""
    decay = group["weight_decay"] if adapt else 0.0
    return (decay, 0.0) if group["decoupled"] else (0.0, decay)


def _rate(w: Tensor, g: Tensor, group: Group, decay: float) -> float:
    w_norm, g_norm = math.sqrt(w.dot(w).item()), math.sqrt(g.dot(g).item())
    if not (w_norm > 0 and g_norm > 0):
        return 1.0
    below = g_norm + decay * w_norm + group["eps"]
    return float(group["trust_coefficient"] * w_norm / below)


def _rates(leaves: list[Leaf], group: Group, decay: float) -> list[Tensor]:
    pairs = [square_norms([getattr(x, name) for x in leaves]) for name in ("weight", "grad")]
    norms = summed(torch.stack(pairs, dim=1), [found.layout for found in leaves]).sqrt()
    w, g = norms.unbind(1)
    rates: Tensor = group["trust_coefficient"] * w / (g + decay * w + group["eps"])
    rates = torch.where((w > 0) & (g > 0), rates, 1.0)
    return list(rates.to(leaves[0].weight.dtype).unbind())
