"""Layer norm and RMS norm over the last dimension, with an addition in front (residual)."""

import torch
from torch import Tensor
from torch.library import custom_op, register_autocast

from hotlap.kernels import native, triton_calls
from hotlap.kernels.dispatch import Dispatcher, Implementation
from hotlap.kernels.layout import contiguous
from hotlap.kernels.route import Route


def reference(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> Tensor:
    """The definition in plain PyTorch, over the last dimension.

    Sources: Ba et al., "Layer Normalization", 2016, equation 4; Zhang and Sennrich, "Root Mean
    Square Layer Normalization", 2019, equation 4.
    """
    if centred:
        x = x - x.mean(-1, keepdim=True)
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def slopes(
    grad: Tensor,
    grad_total: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, weight and bias in plain, differentiable PyTorch."""
    if centred:
        x = x - x.mean(-1, keepdim=True)
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    x = x * scale
    rows = tuple(range(x.ndim - 1))
    of_weight = (grad * x).sum(rows) if rows else grad * x
    of_bias = grad.sum(rows) if rows else grad.clone()
    grad = grad if weight is None else grad * weight
    dx = grad - x * (grad * x).mean(-1, keepdim=True)
    dx = (dx - grad.mean(-1, keepdim=True) if centred else dx) * scale
    return dx if grad_total is None else dx + grad_total, of_weight, of_bias


def _wide(tensor: Tensor | None) -> Tensor | None:
    if tensor is None or tensor.dtype.itemsize > 2:
        return tensor
    return tensor.float()


def _torch(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor]:
    total = x if residual is None else x + residual
    kept = x.new_empty(0) if residual is None else total.contiguous()
    return _plain(total, None, weight, bias, eps, centred).contiguous(), kept


def _plain(
    x: Tensor, _: None, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> Tensor:
    if centred:  # below torch.nn.functional, whose functions a swap replaces
        return torch.layer_norm(x, x.shape[-1:], weight, bias, eps)
    y = torch.rms_norm(x, x.shape[-1:], weight, eps)
    return y if bias is None else y + bias


def _torch_backward(
    grad: Tensor,
    grad_total: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    given = (_wide(grad), _wide(grad_total), _wide(x), _wide(weight))
    dx, of_weight, of_bias = slopes(*given, eps, centred)  # type: ignore[arg-type]
    made = (t.to(x.dtype).contiguous() for t in (dx, of_weight, of_bias))
    return tuple(made)  # type: ignore[return-value]


def _native(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor]:
    x = x.contiguous()
    out = torch.empty_like(x)
    total = out.new_empty(0) if residual is None else torch.empty_like(x)
    given = contiguous(residual, weight, bias)
    native.call("norm", x.dtype, x, *given, out, total, *native.rows_of(x), float(eps), centred)
    return out, total


def _native_backward(
    grad: Tensor,
    grad_total: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    grad, x = grad.contiguous(), x.contiguous()
    given_total, given_weight = contiguous(grad_total, weight)
    out = torch.empty_like(x)
    of_weight, of_bias = x.new_empty(x.shape[-1]), x.new_empty(x.shape[-1])
    native.call(
        "norm_backward", x.dtype, grad, given_total, x, given_weight, out, of_weight, of_bias,
        *native.rows_of(x), float(eps), centred,
    )  # fmt: skip
    return out, of_weight, of_bias


FORWARD = Dispatcher(
    "norm",
    {
        "torch": Implementation(_torch),
        "native": Implementation(_native, lambda x, r, w, b, *_: native.serves(x, r, w, b)),
        "triton": Implementation(
            triton_calls.norm, lambda x, r, w, b, *_: triton_calls.serves_rows(x, r, w, b)
        ),
    },
)
BACKWARD = Dispatcher(
    "norm_backward",
    {
        "torch": Implementation(_torch_backward),
        "native": Implementation(
            _native_backward, lambda g, t, x, w, *_: native.serves(g, t, x, w)
        ),
        "triton": Implementation(
            triton_calls.norm_backward, lambda g, t, x, w, *_: triton_calls.serves_rows(g, t, x, w)
        ),
    },
)


@custom_op("hotlap::norm", mutates_args=())
def _norm(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor]:
    return FORWARD(x, residual, weight, bias, eps, centred)


@custom_op("hotlap::norm_backward", mutates_args=())
def _norm_backward(
    grad: Tensor,
    grad_total: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return BACKWARD(grad, grad_total, x, weight, eps, centred)


def _rows_like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@_norm.register_fake
def _(x, residual, weight, bias, eps, centred):  # type: ignore[no-untyped-def]
    return _rows_like(x), x.new_empty(0) if residual is None else _rows_like(x)


@_norm_backward.register_fake
def _(grad, grad_total, x, weight, eps, centred):  # type: ignore[no-untyped-def]
    return _rows_like(x), x.new_empty(x.shape[-1]), x.new_empty(x.shape[-1])


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    x, residual, weight, bias, ctx.eps, ctx.centred = inputs
    ctx.save_for_backward(x if residual is None else output[1], weight)
    ctx.given = residual is not None, weight is not None, bias is not None


def _differentiate(ctx, grad, grad_total):  # type: ignore[no-untyped-def]
    x, weight = ctx.saved_tensors
    residual_given, weight_given, bias_given = ctx.given
    how = slopes if torch.is_grad_enabled() else _norm_backward
    above = grad_total if residual_given else None
    dx, of_weight, of_bias = how(grad, above, x, weight, ctx.eps, ctx.centred)
    return (
        dx,
        dx if residual_given else None,
        of_weight if weight_given else None,
        of_bias if bias_given else None,
        None,
        None,
    )


_norm.register_autograd(_differentiate, setup_context=_keep)
register_autocast("hotlap::norm", "cuda", torch.float32)  # as torch's own layer norm
ROUTE = Route(FORWARD, _plain, lambda *arguments: _norm(*arguments)[0])


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Layer norm over the last dimension.

    Args:
        x: (..., columns), a floating-point dtype.
        weight: (columns) of the same dtype.
        bias: (columns) of the same dtype.
        eps: added to the variance.
    """
    return _checked(x, None, weight, bias, eps, True)[0]


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """RMS norm over the last dimension; arguments as `layer_norm`."""
    return _checked(x, None, weight, None, eps, False)[0]


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """Add and normalise in one pass: returns `layer_norm(x + residual)` and `x + residual`."""
    return _checked(x, residual, weight, bias, eps, True)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Add and normalise in one pass: returns `rms_norm(x + residual)` and `x + residual`."""
    return _checked(x, residual, weight, None, eps, False)


def _checked(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor]:
    """Refuse shapes that the kernels, which read by position, would read past."""
    if x.ndim == 0:
        raise ValueError("a norm needs at least one dimension")
    for name, tensor, shape in (
        ("residual", residual, x.shape),
        ("weight", weight, x.shape[-1:]),
        ("bias", bias, x.shape[-1:]),
    ):
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, must have {tuple(shape)}")
    if residual is None:
        return ROUTE(x, None, weight, bias, eps, centred), x
    return _norm(x, residual, weight, bias, eps, centred)  # type: ignore[no-any-return]
