"""Softmax over the last dimension, or any other."""

import torch
from torch import Tensor
from torch.library import custom_op, register_autocast

from hotlap.kernels import native, triton_calls
from hotlap.kernels.dispatch import Dispatcher, Implementation
from hotlap.kernels.route import Route


def reference(x: Tensor) -> Tensor:
    """The definition in plain PyTorch, over the last dimension."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def slope(grad: Tensor, y: Tensor) -> Tensor:
    """The derivative in plain, differentiable PyTorch, from the output."""
    return y * (grad - (grad * y).sum(-1, keepdim=True))


def _native(x: Tensor) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    native.call("softmax", x.dtype, x, out, *native.rows_of(x))
    return out


def _native_backward(grad: Tensor, y: Tensor) -> Tensor:
    grad, y = grad.contiguous(), y.contiguous()
    out = torch.empty_like(y)
    native.call("softmax_backward", y.dtype, grad, y, out, *native.rows_of(y))
    return out


FORWARD = Dispatcher(
    "softmax",
    {
        "torch": Implementation(lambda x: torch.softmax(x, -1).contiguous()),
        "native": Implementation(_native, native.serves),
        "triton": Implementation(triton_calls.softmax, triton_calls.serves_rows),
    },
)
BACKWARD = Dispatcher(
    "softmax_backward",
    {
        "torch": Implementation(
            lambda g, y: torch._softmax_backward_data(g, y, -1, y.dtype).contiguous()
        ),
        "native": Implementation(_native_backward, native.serves),
        "triton": Implementation(triton_calls.softmax_backward, triton_calls.serves_rows),
    },
)


@custom_op("hotlap::softmax", mutates_args=())
def _softmax(x: Tensor) -> Tensor:
    return FORWARD(x)


@custom_op("hotlap::softmax_backward", mutates_args=())
def _softmax_backward(grad: Tensor, y: Tensor) -> Tensor:
    return BACKWARD(grad, y)


def _same_rows(*tensors: Tensor) -> Tensor:
    return torch.empty_like(tensors[-1], memory_format=torch.contiguous_format)


_softmax.register_fake(_same_rows)
_softmax_backward.register_fake(_same_rows)


def _differentiate(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
    (y,) = ctx.saved_tensors
    return slope(grad, y) if torch.is_grad_enabled() else _softmax_backward(grad, y)


_softmax.register_autograd(
    _differentiate, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output)
)
register_autocast("hotlap::softmax", "cuda", torch.float32)  # as torch's own
ROUTE = Route(FORWARD, lambda x: torch.softmax(x, -1), _softmax)


def softmax(x: Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> Tensor:
    """Softmax, as `torch.softmax`.

    Args:
        x: any shape with at least one dimension; a floating-point dtype.
        dim: the dimension that sums to one.
        dtype: that `x` is converted to before.

    Returns:
        A tensor of the same shape and dtype; float32 under CUDA autocast, as torch's own.
    """
    x = x if dtype is None else x.to(dtype)
    if dim in (-1, x.ndim - 1):
        return ROUTE(x)
    return ROUTE(x.transpose(dim, -1)).transpose(dim, -1)
