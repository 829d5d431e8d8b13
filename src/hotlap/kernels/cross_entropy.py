"""Cross-entropy: of hidden states, a few rows of logits at a time; of logits, without copies."""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn import functional

CHUNK_BYTES = 32 << 20
"""Of float32 logits that exist at a time; see benchmarks/kernels.py."""
CACHE_BYTES = 1 << 20
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


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
    buffer = hidden.new_empty(min(rows, hidden.shape[0]), weight.shape[0])
    for first in range(0, hidden.shape[0], rows):
        part = slice(first, first + rows)
        logits = torch.mm(hidden[part], weight.T, out=buffer[: hidden[part].shape[0]])
        logits = (logits if bias is None else logits.add_(bias)).to(wide)
        loss, grad = _loss_and_gradient(logits, target[part], ignore)
        total += loss
        if needs:
            grad /= count
            if needs & 4:
                of_bias += grad.sum(0)
            grad = grad.to(weight.dtype)
            if needs & 1:
                torch.mm(grad, weight, out=of_hidden[part])
            if needs & 2:
                _add_product(of_weight, grad, hidden[part])
    loss = (total / count).to(wide)
    return loss, of_hidden, of_weight.to(weight.dtype), of_bias.to(weight.dtype)


def _loss_and_gradient(logits: Tensor, target: Tensor, ignore: int) -> tuple[Tensor, Tensor]:
    """The sum of the losses, and softmax minus one-hot in the memory of the logits."""
    kept = target != ignore
    index = _classes(target, kept, logits.shape[1])
    picked = logits.gather(1, index)
    most = logits.amax(-1, keepdim=True)
    sums = logits.sub_(most).exp_().sum(-1, keepdim=True)
    loss = torch.where(kept[:, None], most + sums.log() - picked, 0).sum(dtype=torch.float64)
    grad = logits.mul_(kept[:, None] / sums)
    return loss, grad.scatter_add_(1, index, -kept[:, None].to(grad.dtype))


def _classes(target: Tensor, kept: Tensor, classes: int) -> Tensor:
    """The targets as a column, 0 where they count nothing; on the CPU wrong ones raise."""
    column = target.where(kept, 0)[:, None]
    if column.device.type == "cpu":
        wrong = column[(column < 0) | (column >= classes)]
        if wrong.numel():
            raise IndexError(f"Target {int(wrong[0])} is out of bounds.")  # torch's words
    return column


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
        # a graph that is not kept gives its buffers away: no second copy of the weight's gradient
        scaled = torch.mul if _graph_is_kept(made[0]) else Tensor.mul_
        gradients = [
            scaled(m, grad.to(m.dtype)) if ctx.needs & bit else None
            for m, bit in zip(made, (1, 2, 4), strict=True)
        ]
    return (*gradients, None, None, None)


def _graph_is_kept(saved: Tensor) -> bool:
    """Whether the saved tensors may be needed again: in another backward pass, or in a trace."""
    return type(saved) is not Tensor or torch._C._autograd._get_current_graph_task_keep_graph()


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


# Cross-entropy of logits that exist


def _row_chunks(logits: Tensor) -> list[slice]:
    """As many rows at a time as stay in a cache; all in a few pieces on a GPU."""
    part_bytes = CHUNK_BYTES if logits.is_cuda else CACHE_BYTES
    rows = max(part_bytes // (max(logits.shape[1], 1) * 4), 1)
    return [slice(first, first + rows) for first in range(0, logits.shape[0], rows)]


def _wide(logits: Tensor) -> torch.dtype:
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


@custom_op("hotlap::cross_entropy_rows", mutates_args=())
def _rows(logits: Tensor, target: Tensor, ignore: int) -> tuple[Tensor, Tensor]:
    """The loss of each row, and its logarithm of the sum of exponentials."""
    sums = logits.new_empty(logits.shape[0], dtype=_wide(logits))
    for part in _row_chunks(logits):
        torch.logsumexp(logits[part].to(sums.dtype), -1, out=sums[part])
    kept = target != ignore
    picked = logits.gather(1, _classes(target, kept, logits.shape[1])).squeeze(1)
    return torch.where(kept, sums - picked, 0), sums


@custom_op("hotlap::cross_entropy_rows_backward", mutates_args=())
def _rows_backward(
    grad: Tensor, logits: Tensor, sums: Tensor, target: Tensor, ignore: int
) -> Tensor:
    """Softmax minus one-hot, times the gradient of each row's loss."""
    out = torch.empty_like(logits, memory_format=torch.contiguous_format)
    kept = target != ignore
    scale = torch.where(kept, grad, 0)[:, None]
    index = target.where(kept, 0)[:, None]
    for part in _row_chunks(logits):
        wide = logits[part].to(sums.dtype)
        into = out[part] if out.dtype == sums.dtype else torch.empty_like(wide)
        torch.sub(wide, sums[part, None], out=into).exp_().mul_(scale[part])
        into.scatter_add_(1, index[part], -scale[part])
        if into.dtype != out.dtype:
            out[part] = into
    return out


@_rows.register_fake
def _(logits, target, ignore):  # type: ignore[no-untyped-def]
    made = logits.new_empty(logits.shape[0], dtype=_wide(logits))
    return made, torch.empty_like(made)


@_rows_backward.register_fake
def _(grad, logits, sums, target, ignore):  # type: ignore[no-untyped-def]
    return torch.empty_like(logits, memory_format=torch.contiguous_format)


def _keep_rows(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    logits, target, ctx.ignore = inputs
    ctx.save_for_backward(logits, target, output[1])
    ctx.mark_non_differentiable(output[1])


def _differentiate_rows(ctx, grad, _):  # type: ignore[no-untyped-def]
    logits, target, sums = ctx.saved_tensors
    if not torch.is_grad_enabled():
        return _rows_backward(grad, logits, sums, target, ctx.ignore), None, None
    kept = target != ctx.ignore
    one_hot = functional.one_hot(target.where(kept, 0), logits.shape[1])
    slope = torch.softmax(logits.to(sums.dtype), -1) - one_hot
    return (slope * torch.where(kept, grad, 0)[:, None]).to(logits.dtype), None, None


_rows.register_autograd(_differentiate_rows, setup_context=_keep_rows)


def serves_logits(logits: Tensor, target: Tensor) -> bool:
    """Whether these are rows of logits and class indices, as `cross_entropy` computes itself."""
    return (
        logits.ndim == 2
        and logits.is_floating_point()
        and target.dtype == torch.int64
        and target.shape == logits.shape[:1]
        and target.device == logits.device
    )


def cross_entropy(
    input: Tensor,  # noqa: A002  # torch's name
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """As `torch.nn.functional.cross_entropy`, without its copies of the logits.

    Torch's own keeps the logarithmic softmax until the backward pass, which makes another matrix:
    with the logits three. Here the logits themselves are kept, and only their gradient is made.

    Args:
        input: logits (rows, classes). Other shapes are computed by torch.
        target: (rows), class indices of dtype int64. Probabilities are left to torch.
        weight: of the classes; left to torch.
        ignore_index: targets that count nothing.
        reduction: `mean`, `sum` or `none`.
        label_smoothing: other than 0 is left to torch.

    Returns:
        The loss, in the dtype of the logits; float32 under autocast.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, not {reduction!r}")
    if weight is not None or label_smoothing or not serves_logits(input, target):
        how: Any = REDUCTIONS[reduction]  # torch's stub says str
        plain = torch._C._nn.cross_entropy_loss  # below torch.nn.functional, which a swap replaces
        return plain(input, target, weight, how, ignore_index, label_smoothing)
    kind = input.device.type
    widened = torch.is_autocast_enabled(kind)
    with torch.autocast(kind, enabled=False):
        losses: Tensor = _rows(input, target, ignore_index)[0]
        if reduction == "mean":
            losses = losses.sum() / (target != ignore_index).sum()
        elif reduction == "sum":
            losses = losses.sum()
        return losses if widened else losses.to(input.dtype)
