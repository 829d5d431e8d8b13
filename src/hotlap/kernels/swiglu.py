"""SwiGLU: SiLU of a gate times another projection."""

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn import functional

from hotlap.kernels import native, triton_calls
from hotlap.kernels.dispatch import Dispatcher, Implementation
from hotlap.kernels.layout import alike, dense


def reference(gate: Tensor, up: Tensor) -> Tensor:
    """The definition in plain PyTorch. Source: Shazeer, "GLU Variants", 2020, equation 6."""
    return gate * torch.sigmoid(gate) * up


def slopes(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """The derivatives in plain, differentiable PyTorch."""
    s = torch.sigmoid(gate)
    return grad * up * s * (1 + gate * (1 - s)), grad * gate * s


def _native(gate: Tensor, up: Tensor) -> Tensor:
    gate = dense(gate)
    up, out = alike(up, gate), torch.empty_like(gate)
    native.call("swiglu", gate.dtype, gate, up, out, gate.numel())
    return out


def _native_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    gate = dense(gate)
    grad, up = alike(grad, gate), alike(up, gate)
    of_gate, of_up = torch.empty_like(gate), torch.empty_like(gate)
    native.call("swiglu_backward", gate.dtype, grad, gate, up, of_gate, of_up, gate.numel())
    return of_gate, of_up


FORWARD = Dispatcher(
    "swiglu",
    {
        "torch": Implementation(
            lambda gate, up: alike(functional.silu(gate) * up, torch.empty_like(gate))
        ),
        "native": Implementation(_native, native.serves),
        "triton": Implementation(triton_calls.swiglu, triton_calls.serves),
    },
)


def _torch_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    model = torch.empty_like(gate)
    of_gate, of_up = slopes(grad, gate, up)
    return alike(of_gate, model), alike(of_up, model)


BACKWARD = Dispatcher(
    "swiglu_backward",
    {
        "torch": Implementation(_torch_backward),
        "native": Implementation(_native_backward, native.serves),
        "triton": Implementation(triton_calls.swiglu_backward, triton_calls.serves),
    },
)


@custom_op("hotlap::swiglu", mutates_args=())
def _swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return FORWARD(gate, up)


@custom_op("hotlap::swiglu_backward", mutates_args=())
def _swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    return BACKWARD(grad, gate, up)


_swiglu.register_fake(lambda gate, up: torch.empty_like(gate))
_swiglu_backward.register_fake(
    lambda grad, gate, up: (torch.empty_like(gate), torch.empty_like(gate))
)


def _differentiate(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    how = slopes if torch.is_grad_enabled() else _swiglu_backward
    return how(grad, *ctx.saved_tensors)


_swiglu.register_autograd(
    _differentiate, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU of `gate` times `up`, in one pass.

    Args:
        gate: any shape, a floating-point dtype.
        up: the same shape and dtype.

    Raises:
        ValueError: shapes or dtypes differ.
    """
    if gate.shape != up.shape or gate.dtype != up.dtype:
        raise ValueError(
            f"swiglu takes two tensors of one shape and dtype, not {tuple(gate.shape)} of "
            f"{gate.dtype} and {tuple(up.shape)} of {up.dtype}"
        )
    return _swiglu(gate, up)  # type: ignore[no-any-return]
