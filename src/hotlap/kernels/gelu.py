"""GELU: x Phi(x), with the normal distribution's Phi, or its approximation by tanh."""

import math

import torch
from torch import Tensor
from torch.library import custom_op

from hotlap.kernels import native, triton_calls
from hotlap.kernels.dispatch import Dispatcher, Implementation
from hotlap.kernels.layout import alike, dense
from hotlap.kernels.route import Route

FORMS = ("none", "tanh")


def reference(x: Tensor, approximate: str = "none") -> Tensor:
    """The definition in plain PyTorch; in float64 it is what the implementations are held against.

    Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2.
    """
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return x * torch.sigmoid(2 * inner)  # 1 + tanh(inner) would cancel for negative x
    return 0.5 * x * torch.erfc(-x * math.sqrt(0.5))


def slope(grad: Tensor, x: Tensor, approximate: str) -> Tensor:
    """The derivative in plain, differentiable PyTorch."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        inner_slope = math.sqrt(2 / math.pi) * (1 + 0.134145 * x * x)
        t = torch.tanh(inner)
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope)
    density = torch.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return grad * (0.5 * torch.erfc(-x * math.sqrt(0.5)) + x * density)


def _torchs(x: Tensor, approximate: str) -> Tensor:
    return torch._C._nn.gelu(
        x, approximate=approximate
    )  # below torch.nn.functional, which a swap replaces


def _native(x: Tensor, approximate: str) -> Tensor:
    x = dense(x)
    out = torch.empty_like(x)
    native.call("gelu", x.dtype, x, out, x.numel(), approximate == "tanh")
    return out


def _native_backward(grad: Tensor, x: Tensor, approximate: str) -> Tensor:
    x = dense(x)
    grad, out = alike(grad, x), torch.empty_like(x)
    native.call("gelu_backward", x.dtype, grad, x, out, x.numel(), approximate == "tanh")
    return out


FORWARD = Dispatcher(
    "gelu",
    {
        "torch": Implementation(lambda x, form: alike(_torchs(x, form), torch.empty_like(x))),
        "native": Implementation(_native, lambda x, _: native.serves(x)),
        "triton": Implementation(triton_calls.gelu, lambda x, _: triton_calls.serves(x)),
    },
)
BACKWARD = Dispatcher(
    "gelu_backward",
    {
        "torch": Implementation(
            lambda g, x, form: alike(
                torch.ops.aten.gelu_backward(g, x, approximate=form), torch.empty_like(x)
            )
        ),
        "native": Implementation(_native_backward, lambda g, x, _: native.serves(g, x)),
        "triton": Implementation(
            triton_calls.gelu_backward, lambda g, x, _: triton_calls.serves(g, x)
        ),
    },
)


@custom_op("hotlap::gelu", mutates_args=())
def _gelu(x: Tensor, approximate: str) -> Tensor:
    return FORWARD(x, approximate)


@custom_op("hotlap::gelu_backward", mutates_args=())
def _gelu_backward(grad: Tensor, x: Tensor, approximate: str) -> Tensor:
    return BACKWARD(grad, x, approximate)


_gelu.register_fake(lambda x, approximate: torch.empty_like(x))
_gelu_backward.register_fake(lambda grad, x, approximate: torch.empty_like(x))


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(inputs[0])
    ctx.approximate = inputs[1]


def _differentiate(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
    (x,) = ctx.saved_tensors
    how = slope if torch.is_grad_enabled() else _gelu_backward
    return how(grad, x, ctx.approximate), None


_gelu.register_autograd(_differentiate, setup_context=_keep)
ROUTE = Route(FORWARD, _torchs, _gelu)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU, with the signature of `torch.nn.functional.gelu`.

    Args:
        x: any shape; float64, float32, bfloat16 or float16.
        approximate: `none` for the exact form, `tanh` for the approximation.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: another form.
    """
    if approximate not in FORMS:
        raise ValueError(f"approximate must be 'none' or 'tanh', not {approximate!r}")
    return ROUTE(x, approximate)
