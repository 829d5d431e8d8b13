"""LAMB: Adam with a rate for each layer; NVLAMB: the same on gradients of one global norm."""

import math
from itertools import chain

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from hotlap.optim.checks import check
from hotlap.optim.layerwise import Group, Layerwise, chunk
from hotlap.optim.leaves import Leaf
from hotlap.optim.shards import gradient, layout, square_norms, summed

FOREVER = 1e30


class LAMB(Layerwise):
    r"""Layer-wise adaptive moments (You et al. 2020, algorithm 2).

    With Adam's moments m and v of a layer's gradient, weight w, and weight decay :math:`\lambda`:

    .. math::
        u = \hat m / (\sqrt{\hat v} + \epsilon) + \lambda w, \quad
        w \leftarrow w - \gamma\,\frac{\phi(\|w\|)}{\|u\|}\,u

    where the ratio is 1 if either norm is 0.

    Args:
        params: parameters or groups of them; `layerwise=False` in a group turns the layers' rates
            and weight decay off for it.
        lr: learning rate :math:`\gamma`.
        betas: decay of the moments.
        eps: :math:`\epsilon`, outside the root.
        weight_decay: :math:`\lambda`; decoupled from the moments.
        bias_correction: divide the moments by 1 - beta^t, as the paper does; some other
            implementations do not.
        norm_bounds: (low, high) that :math:`\phi` clamps the weight's norm to; None: no clamp.
        exclude_1d: biases and the scales of norms (one dimension or none) get neither a rate of
            their own nor weight decay.
        maximize: ascend.
        master_weights: keep a float32 copy of bfloat16 and float16 parameters in the state, so that
            small updates add up. Weights that are loaded into the model later do not reach it:
            build the optimizer after loading, or load its state as well.

    The state is float32 (float64 for float64 parameters): `step`, `exp_avg`, `exp_avg_sq` and
    `master`. Under FSDP2 and tensor parallelism, norms are those of the whole parameter.

    Raises:
        ValueError: an option is out of its range.
    """

    names = ("exp_avg", "exp_avg_sq")

    def __init__(  # noqa: PLR0913
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        *,
        bias_correction: bool = True,
        norm_bounds: tuple[float, float] | None = None,
        exclude_1d: bool = True,
        maximize: bool = False,
        master_weights: bool = True,
    ) -> None:
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
            "norm_bounds": norm_bounds,
            "exclude_1d": exclude_1d,
            "layerwise": True,
            "maximize": maximize,
            "master_weights": master_weights,
        }
        super().__init__(params, options)

    def _alone(self, found: Leaf, group: Group, prepared: Tensor | None) -> None:
        w, u = found.weight, self._scratch(found.weight)
        decay = group["weight_decay"] if found.adapt else 0.0
        ww = wu = uu = 0.0
        scale = None if prepared is None else float(prepared)
        for wc, uc, gc, first, second in _chunks((w, u, found.grad, *found.buffers)):
            uc.zero_()
            scaled = gc if scale is None else gc * scale
            _adam([uc], [scaled], [first], [second], [found.step], group)
            if found.adapt:
                uu += uc.dot(uc).item()
                ww += wc.dot(wc).item()
                wu += wc.dot(uc).item() if decay else 0.0
        rate = float(group["lr"])
        if found.adapt:  # |u + decay * w|^2, without a pass to add them
            square = uu + 2 * decay * wu + decay * decay * ww
            rate *= _ratio(math.sqrt(ww), math.sqrt(max(square, 0.0)), group["norm_bounds"])
        # w = w - rate * (u + decay * w)
        torch._fused_sgd_(
            [w], [u], [], weight_decay=decay, momentum=0.0, lr=rate, dampening=0.0, nesterov=False,
            maximize=False, is_first_step=True,
        )  # fmt: skip

    def _together(self, leaves: list[Leaf], group: Group, prepared: Tensor | None) -> None:
        weights = [found.weight for found in leaves]
        updates = [torch.zeros_like(weight) for weight in weights]
        grads = [found.grad for found in leaves]
        if prepared is not None:
            grads = list(torch._foreach_mul(grads, prepared.to(grads[0].device, grads[0].dtype)))
        first, second = ([found.buffers[i] for found in leaves] for i in (0, 1))
        _adam(updates, grads, first, second, [found.step for found in leaves], group)
        if leaves[0].adapt:
            if group["weight_decay"]:
                torch._foreach_add_(updates, weights, alpha=group["weight_decay"])
            torch._foreach_mul_(updates, _ratios(leaves, updates, group["norm_bounds"]))
        torch._foreach_mul_(updates, group["lr"])
        torch._foreach_sub_(weights, updates)


class NVLAMB(LAMB):
    """LAMB as NVIDIA trains BERT with it: gradients are first divided by their global norm.

    From "Pretraining BERT with Layer-wise Adaptive Learning Rates" (NVIDIA, 2019). Takes what
    `LAMB` takes, and `max_grad_norm`: if None, gradients are always brought to a global norm of 1,
    as the text has it; with a number, only those above it are brought down to it, as Apex's
    FusedLAMB does with 1.0.

    The norm is over all parameters of the optimizer. Stages of a pipeline, which hold different
    parameters, each use their own.
    """

    def __init__(  # noqa: PLR0913
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        *,
        max_grad_norm: float | None = None,
        bias_correction: bool = True,
        norm_bounds: tuple[float, float] | None = None,
        exclude_1d: bool = True,
        maximize: bool = False,
        master_weights: bool = True,
    ) -> None:
        check("NVLAMB", {"max_grad_norm": max_grad_norm})
        super().__init__(
            params, lr, betas, eps, weight_decay, bias_correction=bias_correction,
            norm_bounds=norm_bounds, exclude_1d=exclude_1d, maximize=maximize,
            master_weights=master_weights,
        )  # fmt: skip
        for options in (self.defaults, *self.param_groups):
            options.setdefault("max_grad_norm", max_grad_norm)

    def _prepare(self) -> Tensor | None:
        found = list(chain.from_iterable(map(self._with_grad, self.param_groups)))
        if not found:
            return None
        norm = _global_norm(found)
        most = self.param_groups[0]["max_grad_norm"]
        if most is not None:
            norm = (norm / most).clamp(min=1.0)
        return torch.where(norm > 0, 1 / norm, 1.0)


def _chunks(tensors: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    """Parts of flat tensors that stay in the cache together."""
    size = chunk()
    if tensors[0].numel() <= size:
        return [tensors]
    return list(zip(*(torch.split(tensor, size) for tensor in tensors), strict=True))


def _adam(
    updates: list[Tensor],
    grads: list[Tensor],
    first: list[Tensor],
    second: list[Tensor],
    steps: list[Tensor],
    group: Group,
) -> None:
    """Advance the moments, and add Adam's update to `updates`, by torch's fused kernel."""
    if not group["bias_correction"]:
        steps = [torch.full_like(step, FOREVER) for step in steps]  # 1 - beta^t is 1
    torch._fused_adam_(
        updates, grads, first, second, [], steps, lr=-1.0, beta1=group["betas"][0],
        beta2=group["betas"][1], weight_decay=0.0, eps=group["eps"], amsgrad=False,
        maximize=group["maximize"],
    )  # fmt: skip


def _ratio(weight: float, update: float, bounds: tuple[float, float] | None) -> float:
    if bounds is not None:
        weight = min(max(weight, bounds[0]), bounds[1])
    return weight / update if weight > 0 and update > 0 else 1.0


def _ratios(
    leaves: list[Leaf], updates: list[Tensor], bounds: tuple[float, float] | None
) -> list[Tensor]:
    squares = [square_norms([found.weight for found in leaves]), square_norms(updates)]
    norms = summed(torch.stack(squares, dim=1), [found.layout for found in leaves]).sqrt()
    weight, update = norms.unbind(1)
    if bounds is not None:
        weight = weight.clamp(*bounds)
    ratios = torch.where((weight > 0) & (update > 0), weight / update, 1.0)
    return list(ratios.to(updates[0].dtype).unbind())


def _global_norm(parameters: list[Tensor]) -> Tensor:
    """The norm of all gradients, over all devices and shards."""
    total: Tensor | None = None
    by_device: dict[torch.device, list[Tensor]] = {}
    for parameter in parameters:
        by_device.setdefault(parameter.device, []).append(parameter)
    for members in by_device.values():
        squares = square_norms([gradient(parameter) for parameter in members])
        square = summed(squares, [layout(parameter) for parameter in members]).sum()
        total = square if total is None else total + square.to(total.device)
    assert total is not None
    return total.sqrt()
