"""Rotary position embedding, in the layout of two halves (Llama, GPT-NeoX)."""

import torch
from torch import Tensor
from torch.library import custom_op

from hotlap.kernels import native, triton_calls
from hotlap.kernels.dispatch import Dispatcher, Implementation


def reference(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """The definition in plain PyTorch. Source: Su et al., "RoFormer", 2021, equation 34."""
    low, high = x.chunk(2, -1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1)


def angles(length: int, dim: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """Cosines and sines of `length` positions for heads of size `dim`: (length, dim / 2)."""
    steps = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    turns = torch.outer(torch.arange(length, dtype=torch.float64), base**-steps)
    return turns.cos().float(), turns.sin().float()


def _torch(x: Tensor, cosine: Tensor, sine: Tensor, inverse: bool) -> Tensor:
    sine = -sine if inverse else sine
    return reference(x, cosine, sine).to(x.dtype).contiguous()


def _native(x: Tensor, cosine: Tensor, sine: Tensor, inverse: bool) -> Tensor:
    x, half, length = x.contiguous(), x.shape[-1] // 2, x.shape[-2]
    out, outer = torch.empty_like(x), x.numel() // max(x.shape[-1] * x.shape[-2], 1)
    sign = -1.0 if inverse else 1.0
    tables = (cosine.contiguous(), sine.contiguous())
    native.call("rotary", x.dtype, x, *tables, out, outer, length, half, sign)
    return out


def _floats(cosine: Tensor, sine: Tensor) -> bool:
    return cosine.dtype == sine.dtype == torch.float32


DISPATCH = Dispatcher(
    "rotary",
    {
        "torch": Implementation(_torch),
        "native": Implementation(_native, lambda x, c, s, _: native.serves(x) and _floats(c, s)),
        "triton": Implementation(
            triton_calls.rotary, lambda x, c, s, _: triton_calls.serves(x) and _floats(c, s)
        ),
    },
)


@custom_op("hotlap::rotary", mutates_args=())
def _rotary(x: Tensor, cosine: Tensor, sine: Tensor, inverse: bool) -> Tensor:
    return DISPATCH(x, cosine, sine, inverse)


@_rotary.register_fake
def _(x, cosine, sine, inverse):  # type: ignore[no-untyped-def]
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _keep(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    _, cosine, sine, ctx.inverse = inputs
    ctx.save_for_backward(cosine, sine)


def _differentiate(ctx, grad):  # type: ignore[no-untyped-def]
    """The inverse rotation, which is differentiable itself."""
    cosine, sine = ctx.saved_tensors
    return _rotary(grad, cosine, sine, not ctx.inverse), None, None, None


_rotary.register_autograd(_differentiate, setup_context=_keep)


def rotary(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate queries or keys by their positions.

    Args:
        x: (..., length, dim), such as (batch, heads, length, dim); `dim` even.
        cosine: (length, dim / 2), from `angles`; no gradient flows into it.
        sine: as `cosine`.

    Returns:
        A tensor of the shape and dtype of `x`.

    Raises:
        ValueError: the shapes do not fit.
    """
    expected = (x.shape[-2], x.shape[-1] // 2) if x.ndim >= 2 and x.shape[-1] % 2 == 0 else None
    if expected is None or tuple(cosine.shape) != expected or tuple(sine.shape) != expected:
        raise ValueError(
            f"rotary takes x (..., length, dim) with an even dim and tables (length, dim / 2), not "
            f"{tuple(x.shape)}, {tuple(cosine.shape)} and {tuple(sine.shape)}"
        )
    return _rotary(x, cosine, sine, False)  # type: ignore[no-any-return]
