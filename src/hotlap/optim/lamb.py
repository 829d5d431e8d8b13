"""LAMB: Adam with a rate for each layer; NVLAMB: the same on gradients of one global norm."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from hotlap.optim.argument_checks import check
from hotlap.optim.kernels.calls import Options, stepped
from hotlap.optim.layerwise import Group, Layerwise, chunk, slope
from hotlap.optim.leaves import Leaf
from hotlap.optim.shards import gradient, layout, square_norms, summed

FOREVER = 1e30
_sgd = partial(
    torch._fused_sgd_, momentum=0.0, dampening=0.0, nesterov=False, maximize=False,
    is_first_step=True,
)  # fmt: skip


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

    def _compiled(self, leaves: list[Leaf], group: Group, scale: float | None) -> bool:
        low, high = group["norm_bounds"] or (0.0, math.inf)
        beta1, beta2 = group["betas"]
        options = Options(
            lr=float(group["lr"]), decay=group["weight_decay"], eps=group["eps"], beta1=beta1,
            beta2=beta2, corrected=group["bias_correction"], low=low, high=high,
            scale=slope(group, scale),
        )  # fmt: skip
        return stepped("lamb", leaves, options, partial(self._scratch, finite=False))

    def _alone(self, leaves: list[Leaf], group: Group, scale: float | None) -> None:
        adam, lr, decay, size = _adam(group), float(group["lr"]), group["weight_decay"], chunk()
        for found in leaves:
            w, g, (first, second), step = found.weight, found.grad, found.buffers, found.step
            if not found.adapt:  # Adam as it is
                adam([w], [_scaled(g, scale)], [first], [second], [], [step], lr=lr)
                continue
            u, ww, uu, wu = self._scratch(w.numel(), w.dtype), 0.0, 0.0, 0.0
            for wc, uc, gc, mc, vc in _chunks(size, w, u, g, first, second):
                # -1 and -1: what was in u is multiplied by 0, the update added
                adam([uc], [_scaled(gc, scale)], [mc], [vc], [], [step], lr=-1.0, weight_decay=-1.0)
                uu += uc.dot(uc).item()
                ww += wc.dot(wc).item()  # after Adam, to be in the cache for what comes next
                wu += wc.dot(uc).item() if decay else 0.0
            square = uu + decay * (2 * wu + decay * ww)  # of |u + decay * w|
            rate = lr * _ratio(ww, square, group["norm_bounds"])
            _sgd([w], [u], [], weight_decay=decay, lr=rate)
            if not math.isfinite(uu):
                u.zero_()  # 0 times this would not be 0

    def _together(self, leaves: list[Leaf], group: Group, prepared: Tensor | None) -> None:
        weights = [found.weight for found in leaves]
        updates = [torch.zeros_like(weight) for weight in weights]
        grads = [found.grad for found in leaves]
        if prepared is not None:
            grads = list(torch._foreach_mul(grads, prepared.to(grads[0].device, grads[0].dtype)))
        first, second = ([found.buffers[i] for found in leaves] for i in (0, 1))
        _adam(group)(updates, grads, first, second, [], [found.step for found in leaves], lr=-1.0)
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

    The norm is over all parameters of the optimizer. The stages of a pipeline hold different ones:
    set `stages` to the process group that connects them, and it is over all of theirs.
    """

    stages: torch.distributed.ProcessGroup | None = None

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
        if self.stages is not None:
            square = norm.square()
            torch.distributed.all_reduce(square, group=self.stages)
            norm = square.sqrt()
        most = self.param_groups[0]["max_grad_norm"]
        if most is not None:
            norm = (norm / most).clamp(min=1.0)
        return torch.where(norm > 0, 1 / norm, 1.0)


def _chunks(size: int, *tensors: Tensor) -> Iterable[tuple[Tensor, ...]]:
    """Parts of flat tensors that stay in the cache together."""
    if tensors[0].numel() <= size:
        return (tensors,)
    return zip(*(torch.split(tensor, size) for tensor in tensors), strict=True)


def _scaled(grad: Tensor, scale: float | None) -> Tensor:
    return grad if scale is None else grad * scale


def _adam(group: Group) -> Callable[..., None]:
    """Torch's fused kernel with a group's options: it advances moments and makes AdamW's step."""
    beta1, beta2 = group["betas"]
    kernel = partial(
        torch._fused_adamw_, beta1=beta1, beta2=beta2, weight_decay=0.0, eps=group["eps"],
        amsgrad=False, maximize=group["maximize"],
    )  # fmt: skip
    if group["bias_correction"]:
        return kernel

    def uncorrected(*tensors: list[Tensor], **options: float) -> None:
        steps = [torch.full_like(step, FOREVER) for step in tensors[-1]]  # 1 - beta^t is 1
        kernel(*tensors[:-1], steps, **options)

    return uncorrected


def _ratio(ww: float, uu: float, bounds: tuple[float, float] | None) -> float:
    """The layer's rate from the squares of two norms; the second may be a little below 0."""
    weight, update = math.sqrt(ww), math.sqrt(max(uu, 0.0))
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
