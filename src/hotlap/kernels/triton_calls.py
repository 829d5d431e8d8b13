"""Launch the Triton kernels."""

import os
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from hotlap.kernels.layout import alike, dense

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BLOCK = 1024
LONGEST_ROW = 1 << 16
"""Elements; a program holds its whole row in registers."""
PARTS = 256
"""Programs of the norms' backward, each with its own part of the weight's gradient."""


@cache
def available() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None


def serves(*tensors: Tensor | None) -> bool:
    """Whether Triton takes these tensors: 16 or 32 bits, on CUDA (anywhere when interpreted)."""
    given = [tensor for tensor in tensors if tensor is not None]
    where = given[0].device
    reached = where.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    dtype = given[0].dtype
    fits = dtype in DTYPES and all(t.device == where and t.dtype == dtype for t in given)
    return reached and fits and given[0].numel() > 0 and available()


def serves_rows(*tensors: Tensor | None) -> bool:
    """`serves`, and a row is not too long for one program."""
    first = next(tensor for tensor in tensors if tensor is not None)
    return first.ndim > 0 and first.shape[-1] <= LONGEST_ROW and serves(*tensors)


def _code() -> ModuleType:
    from hotlap.kernels import triton_code

    return triton_code


def _launch(kernel: str, programs: int, model: Tensor, *arguments: object, **meta: object) -> None:
    from contextlib import nullcontext

    with torch.cuda.device(model.device) if model.is_cuda else nullcontext():
        getattr(_code(), kernel)[(programs,)](*arguments, **meta)


def _pointwise(kernel: str, inputs: list[Tensor], outputs: int, **meta: object) -> list[Tensor]:
    first = dense(inputs[0])
    given = [first, *(alike(tensor, first) for tensor in inputs[1:])]
    made = [torch.empty_like(first) for _ in range(outputs)]
    count = first.numel()
    programs = -(-count // BLOCK)
    _launch(kernel, programs, first, *given, *made, count, BLOCK=BLOCK, **meta)
    return made


def gelu(x: Tensor, approximate: str) -> Tensor:
    """GELU of any shape."""
    return _pointwise("gelu", [x], 1, TANH=approximate == "tanh")[0]


def gelu_backward(grad: Tensor, x: Tensor, approximate: str) -> Tensor:
    """Gradient with the strides of `x`."""
    x = dense(x)
    out = torch.empty_like(x)
    grid, tanh = -(-x.numel() // BLOCK), approximate == "tanh"
    arguments = (alike(grad, x), x, out, x.numel())
    _launch("gelu_backward", grid, x, *arguments, BLOCK=BLOCK, TANH=tanh)
    return out


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU of `gate` times `up`."""
    return _pointwise("swiglu", [gate, up], 1)[0]


def swiglu_backward(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of both, with the strides of `gate`."""
    gate = dense(gate)
    of_gate, of_up = torch.empty_like(gate), torch.empty_like(gate)
    arguments = (alike(grad, gate), gate, alike(up, gate), of_gate, of_up, gate.numel())
    _launch("swiglu_backward", -(-gate.numel() // BLOCK), gate, *arguments, BLOCK=BLOCK)
    return of_gate, of_up


def _row_block(columns: int) -> dict[str, int]:
    block = 1 << max(columns - 1, 0).bit_length()
    return {"BLOCK": block, "num_warps": min(max(block // 512, 1), 16)}


def softmax(x: Tensor) -> Tensor:
    """Over the last dimension."""
    x = x.contiguous()
    out, columns = torch.empty_like(x), x.shape[-1]
    _launch("softmax", x.numel() // columns, x, x, out, columns, **_row_block(columns))
    return out


def softmax_backward(grad: Tensor, y: Tensor) -> Tensor:
    """From the output."""
    grad, y = grad.contiguous(), y.contiguous()
    out, columns = torch.empty_like(y), y.shape[-1]
    programs = y.numel() // columns
    _launch("softmax_backward", programs, y, grad, y, out, columns, **_row_block(columns))
    return out


def norm(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor]:
    """Layer norm or RMS norm; see `hotlap.kernels.norm`."""
    x = x.contiguous()
    columns, out = x.shape[-1], torch.empty_like(x)
    total = out.new_empty(0) if residual is None else torch.empty_like(x)
    optional = [x if t is None else t.contiguous() for t in (residual, weight, bias)]
    _launch(
        "norm", x.numel() // columns, x, x, *optional, out, total, columns, eps,
        CENTRED=centred, RESIDUAL=residual is not None, WEIGHT=weight is not None,
        BIAS=bias is not None, **_row_block(columns),
    )  # fmt: skip
    return out, total


def norm_backward(
    grad: Tensor,
    grad_total: Tensor | None,
    x: Tensor,
    weight: Tensor | None,
    eps: float,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, the weight and the bias."""
    x, grad = x.contiguous(), grad.contiguous()
    columns = x.shape[-1]
    rows = x.numel() // columns
    programs = min(rows, PARTS)
    wide = torch.float64 if x.dtype == torch.float32 else torch.float32
    out, parts = torch.empty_like(x), x.new_empty(2, programs, columns, dtype=wide)
    optional = [x if t is None else t.contiguous() for t in (grad_total, weight)]
    _launch(
        "norm_backward", programs, x, grad, optional[0], x, optional[1], out, parts[0], parts[1],
        rows, columns, eps, CENTRED=centred, TOTAL=grad_total is not None,
        WEIGHT=weight is not None, **_row_block(columns),
    )  # fmt: skip
    sums = parts.sum(1).to(x.dtype)
    return out, sums[0].clone(), sums[1].clone()


def rotary(x: Tensor, cosine: Tensor, sine: Tensor, inverse: bool) -> Tensor:
    """Rotate pairs of the two halves of the last dimension."""
    x, half, length = x.contiguous(), x.shape[-1] // 2, x.shape[-2]
    out = torch.empty_like(x)
    sign = -1.0 if inverse else 1.0
    arguments = (x, cosine.contiguous(), sine.contiguous(), out, length, half, sign)
    _launch("rotary", x.numel() // (2 * half), x, *arguments, **_row_block(half))
    return out
