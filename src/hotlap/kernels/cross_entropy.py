"""Cross-entropy from hidden states, a few rows of logits at a time."""

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn import functional

CHUNK_BYTES = 64 << 20
"""Of float32 logits that exist at a time; see benchmarks/kernels.py."""


def reference(
    hidden: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None = None, ignore: int = -100
) -> Tensor:
    """The plain form, which holds all logits."""
    return functional.cross_entropy(
        functional.linear(hidden, weight, bias), target, ignore_index=ignore
    )


@custom_op("hotlap::linear_cross_entropy", mutates_args=())
def _loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, ignore: int, needs: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean loss, and the gradients that are needed (bits of `needs`: hidden, weight, bias).

    Both come from the same rows of logits, which are dropped before the next ones are computed.
    """
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    of_hidden = torch.empty_like(hidden) if needs & 1 else hidden.new_empty(0)
    of_weight = torch.zeros_like(weight, dtype=wide) if needs & 2 else weight.new_empty(0)
    of_bias = weight.new_zeros(weight.shape[0], dtype=wide) if needs & 4 else weight.new_empty(0)
    total = torch.zeros((), dtype=torch.float64, device=hidden.device)
    count = (target != ignore).sum()
    rows = max(CHUNK_BYTES // (max(weight.shape[0], 1) * wide.itemsize), 16)
    for first in range(0, hidden.shape[0], rows):
        part = slice(first, first + rows)
        logits = functional.linear(hidden[part], weight, bias).to(wide)
        total += _of_rows(logits, target[part], ignore)
        if needs:
            grad = _gradient_of_rows(logits, target[part], ignore, count)
            if needs & 4:
                of_bias += grad.sum(0)
            grad = grad.to(weight.dtype)
            if needs & 1:
                torch.mm(grad, weight, out=of_hidden[part])
            if needs & 2:
                _add_product(of_weight, grad, hidden[part])
    loss = (total / count).to(wide)
    return loss, of_hidden, of_weight.to(weight.dtype), of_bias.to(weight.dtype)


def _of_rows(logits: Tensor, target: Tensor, ignore: int) -> Tensor:
    """The sum of the losses; the logits become their logarithmic softmax in place."""
    logits -= logits.logsumexp(-1, keepdim=True)
    kept = target != ignore
    picked = logits.gather(1, target.where(kept, 0)[:, None]).squeeze(1)  # refuses a wrong class
    return -torch.where(kept, picked, 0).sum(dtype=torch.float64)


def _gradient_of_rows(logits: Tensor, target: Tensor, ignore: int, count: Tensor) -> Tensor:
    """Softmax minus one-hot over the number of targets, in the memory of the logits."""
    grad = logits.exp_()
    index = target.where(target != ignore, 0)[:, None]
    grad.scatter_add_(1, index, torch.full_like(index, -1, dtype=grad.dtype))
    grad *= (target != ignore)[:, None] / count
    return grad


def _add_product(total: Tensor, grad: Tensor, hidden: Tensor) -> None:
    if total.dtype == grad.dtype:
        total.addmm_(grad.T, hidden)
    else:
        total += grad.T @ hidden


@_loss.register_fake
def _(hidden, weight, bias, target, ignore, needs):  # type: ignore[no-untyped-def]
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    return (
        hidden.new_empty((), dtype=wide),
        torch.empty_like(hidden) if needs & 1 else hidden.new_empty(0),
        torch.empty_like(weight) if needs & 2 else weight.new_empty(0),
        weight.new_empty(weight.shape[0] if needs & 4 else 0),
    )


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    hidden, weight, bias, target, ctx.ignore, ctx.needs = inputs
    ctx.save_for_backward(hidden, weight, bias, target, *output[1:])
    ctx.set_materialize_grads(False)


def _differentiate(ctx, grad, *_):  # type: ignore[no-untyped-def]
    if grad is None:
        return (None,) * 6
    hidden, weight, bias, target, *made = ctx.saved_tensors
    if torch.is_grad_enabled():  # a gradient of the gradient: through the plain form
        inputs = [t for t, bit in ((hidden, 1), (weight, 2), (bias, 4)) if ctx.needs & bit]
        loss = reference(hidden, weight, target, bias, ctx.ignore)
        found = iter(torch.autograd.grad(loss, inputs, grad, create_graph=True))
        gradients = [next(found) if ctx.needs & bit else None for bit in (1, 2, 4)]
    else:
        gradients = [
            m * grad.to(m.dtype) if ctx.needs & bit else None
            for m, bit in zip(made, (1, 2, 4), strict=True)
        ]
    return (*gradients, None, None, None)


_loss.register_autograd(_differentiate, setup_context=_keep)


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Tensor | None = None,
    ignore_index: int = -100,
) -> Tensor:
    """The mean cross-entropy of `hidden @ weight.T + bias`, without the whole logits.

    Of the logits only as many rows exist at a time as fit `CHUNK_BYTES`. The gradients are computed
    with the loss and kept until the backward pass.

    Args:
        hidden: (..., features), a floating-point dtype.
        weight: (classes, features), as `nn.Linear.weight`.
        target: (...), class indices of dtype int64.
        bias: (classes).
        ignore_index: targets that count nothing.

    Returns:
        A scalar, float32 (float64 of float64). Under autocast the products are computed in its
        dtype, the loss in float32.

    Raises:
        ValueError: the shapes do not fit.
        IndexError: a target is no class (checked on the CPU; CUDA raises a device assertion).

    """
    if hidden.shape[:-1] != target.shape or hidden.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"hidden (..., features), weight (classes, features) and target (...) do not fit: "
            f"{tuple(hidden.shape)}, {tuple(weight.shape)}, {tuple(target.shape)}"
        )
    given = [hidden.reshape(-1, hidden.shape[-1]), weight, bias]
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        given = [None if t is None else t.to(dtype) for t in given]
    graded = torch.is_grad_enabled()
    needs = sum(
        bit for t, bit in zip(given, (1, 2, 4), strict=True)
        if graded and t is not None and t.requires_grad
    )  # fmt: skip
    with torch.autocast(kind, enabled=False):
        return _loss(*given, target.reshape(-1), ignore_index, needs)[0]  # type: ignore[no-any-return]
